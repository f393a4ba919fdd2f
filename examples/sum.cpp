// Every rank contributes a vector; every rank gets the sum. Start it with
//   horing run -n 2x2 -- ./sum          (or torchrun, srun, mpirun)
// Build: c++ -std=c++20 sum.cpp $(pkg-config --cflags --libs horing) -o sum
#include <cstdio>
#include <horing/communicator.hpp>
#include <vector>

int main() {
  try {
    auto comm = horing::Communicator::create();
    std::vector<float> values(1 << 20, static_cast<float>(comm.rank() + 1));
    ho_op_report report = HO_OP_REPORT_INIT;
    comm.all_reduce(std::span<float>(values), HO_SUM, {.report = &report});
    if (comm.rank() == 0) {
      const auto micros = static_cast<double>(report.total_ns) / 1e3;
      std::printf("%d ranks in %d groups: sum %.0f after %.0f us, %llu bytes sent between groups\n",
                  comm.world_size(),
                  comm.group_count(),
                  static_cast<double>(values.front()),
                  micros,
                  static_cast<unsigned long long>(report.inter_sent_bytes));
    }
  } catch (const horing::Error& error) {
    std::fprintf(stderr, "%s: %s\n", ho_status_name(error.status()), error.what());
    return 1;
  }
  return 0;
}
