// Every rank has a number for every other one; rank 0 then hears from all, whoever is first.
//   horing run -n 2x2 -- ./messages     (or torchrun, srun, mpirun)
// Build: c++ -std=c++20 messages.cpp $(pkg-config --cflags --libs horing) -o messages
#include <cstdio>
#include <horing/communicator.hpp>
#include <numeric>
#include <span>
#include <vector>

int main() {
  try {
    auto comm = horing::Communicator::create();
    const auto world = static_cast<size_t>(comm.world_size());
    const std::vector<int> mine(world, comm.rank());  // element r goes to rank r
    std::vector<int> all(world);                      // element r comes from rank r
    comm.all_to_all(std::span<const int>(mine), std::span<int>(all));

    const int sum = std::accumulate(all.begin(), all.end(), 0);
    constexpr int32_t kTag = 7;  // this program's own numbers tell its messages apart
    if (comm.rank() != 0) {
      comm.send(std::span<const int>(&sum, 1), 0, kTag);
      return 0;
    }
    for (size_t i = 1; i < world; ++i) {
      int theirs = 0;
      int32_t source = 0;
      comm.recv(std::span<int>(&theirs, 1), HO_ANY_SOURCE, kTag, {}, &source);
      std::printf("rank %d has %d, rank 0 %d\n", source, theirs, sum);
      if (theirs != sum) {
        return 1;
      }
    }
  } catch (const horing::Error& error) {
    std::fprintf(stderr, "%s: %s\n", ho_status_name(error.status()), error.what());
    return 1;
  }
  return 0;
}
