#include "bench/perf/program.hpp"

int main(int argc, char** argv) {
  return ho::perf::run_program(ho::harness::Collective::PERF_COLLECTIVE, argc, argv);
}
