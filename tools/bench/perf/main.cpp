#include "bench/perf/program.hpp"

int main(int argc, char** argv) {
  return ho::perf::run_program(ho::perf::Collective::PERF_COLLECTIVE, argc, argv);
}
