#include "abort_rounds.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "job.hpp"
#include "rank_memory.hpp"

namespace ho::test {
namespace {

constexpr size_t kFloats = 200001;  // several pieces
constexpr int kRanks = 4;
constexpr int kDelays = 10;  // milliseconds, one after the other

std::string error_of_all_reduces(ho_comm* comm, const RankMemory& memory) {
  while (memory.all_reduce(comm) == HO_OK) {
  }
  return ho_last_error_message();
}

}  // namespace

std::vector<std::string> abort_round(int round, int devices) {
  return run_job({"2x2"}, [&](ho_comm* comm) {
    RankMemory memory(ho_comm_rank(comm) % devices, kFloats);
    memory.fill(std::vector<float>(kFloats, 1.0F));
    std::thread other;
    if (ho_comm_rank(comm) == round % kRanks) {
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(round % kDelays));
        (void)ho_comm_abort(comm, "enough");
      });
    }
    const std::string error = error_of_all_reduces(comm, memory);
    if (other.joinable()) {
      other.join();
    }
    memory.fetch();
    (void)memory.fetched();
    if (error.find("rank " + std::to_string(round % kRanks) + " called abort: enough") ==
        std::string::npos) {
      throw std::runtime_error("another error than the abort's: " + error);
    }
    if (ho_comm_status(comm) == HO_OK) {
      throw std::runtime_error("the communicator's status is that nothing has failed");
    }
  });
}

}  // namespace ho::test
