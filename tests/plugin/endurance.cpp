// usage: plugin_endurance [OPERATIONS]: that many tiny operations (200000) on two ranks, a quarter
// over the network, the others CollNet's three in turns. Prints each rank's memory after the first
// tenth and at the end, and fails where it grew.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>

#include "bench/nccl_host/coll_net_comm.hpp"
#include "net_line.hpp"
#include "sanitizers.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

constexpr size_t kSlotBytes = 64;
constexpr size_t kOutstanding = 32;
constexpr std::chrono::seconds kTimeout{60};
constexpr size_t kMaxGrowth = size_t{1} << 20;

size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t all = 0;
  size_t resident = 0;
  statm >> all >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Operations of two ranks, each in a slot of its own, checked when it is complete.
class Endurance {
 public:
  explicit Endurance(HostRank& self)
      : rank_(self.rank()), comm_(self.library(), self.memory(), 1, options()), line_(self) {
    expect(comm_.connect() == CollNetState::kUsed, "CollNet connects");
    line_.register_memory(comm_.rail().region, 2 * kSlots * kSlotBytes);
    net_ = &self.library().net();
  }

  void run(uint64_t operations) {
    comm_.progress().run([&] {
      for (uint64_t i = 0; i < operations; ++i, ++next_) {
        begin(next_);
        while (outstanding_.size() >= kOutstanding) {
          end_oldest();
        }
      }
      while (!outstanding_.empty()) {
        end_oldest();
      }
    });
  }
  void close() {
    line_.close();
    comm_.close();
  }

 private:
  static constexpr size_t kSlots = 2 * kOutstanding;
  struct Operation {
    uint64_t number = 0;
    void* request = nullptr;
  };

  static CollNetOptions options() {
    CollNetOptions options;
    options.settings.channels = 1;
    options.settings.slot_bytes = 4096;
    return options;
  }
  [[nodiscard]] std::byte* from(uint64_t number) {
    return comm_.rail().region + number % kSlots * kSlotBytes;
  }
  [[nodiscard]] std::byte* to(uint64_t number) { return from(number) + kSlots * kSlotBytes; }
  static int32_t value(uint32_t rank, uint64_t number) {
    return static_cast<int32_t>(number % 1000 + uint64_t{rank} * 5000);
  }

  // Blocks are two elements of 4 bytes.
  nccl_abi::Result call(uint64_t number, void** request) {
    RailEnd& rail = comm_.rail();
    const CollNetTable::Buffer source{rail.send_memory[0], from(number)};
    const CollNetTable::Buffer sink{rail.recv_memory[0], to(number)};
    constexpr CollNetTable::Reduction kSum{static_cast<int>(DType::kInt32), 0};
    constexpr CollNetTable::Window kAll{8, 0, 16};
    switch (number % 4) {
      case 0:
        return rail.table->iallreduce(rail.group, source, sink, 2, kSum, request);
      case 1:
        return rail.table->iallgather(rail.group, source, sink, kAll, request);
      case 2:
        return rail.table->ireducescatter(rail.group, source, sink, kAll, kSum, request);
      default:
        break;
    }
    if (line_.sends()) {
      return net_->isend(line_.comm(), from(number), 16, 0, line_.memory(), request);
    }
    void* data = to(number);
    const size_t bytes = 16;
    int tag = 0;
    void* memory = line_.memory();
    return net_->irecv(line_.comm(), {1, &data, &bytes, &tag, &memory}, request);
  }

  void begin(uint64_t number) {
    const std::array<int32_t, 4> input{value(rank_, number),
                                       value(rank_, number + 1),
                                       value(rank_, number + 2),
                                       value(rank_, number + 3)};
    std::memcpy(from(number), input.data(), sizeof(input));
    std::memset(to(number), 0xa5, kSlotBytes);
    void* request = nullptr;
    Backoff backoff("operation " + std::to_string(number), kTimeout);
    while (true) {
      require(call(number, &request), "operation " + std::to_string(number));
      if (request != nullptr) {
        break;
      }
      if (outstanding_.empty()) {
        backoff.pause();
      } else {
        end_oldest();
      }
    }
    outstanding_.push_back({number, request});
  }

  void end_oldest() {
    const Operation oldest = outstanding_.front();
    outstanding_.pop_front();
    Backoff backoff("operation " + std::to_string(oldest.number), kTimeout);
    int done = 0;
    while (done == 0) {
      int size = 0;
      require(oldest.number % 4 == 3 ? net_->test(oldest.request, &done, &size)
                                     : comm_.rail().table->test(oldest.request, &done, &size),
              "test");
      if (done == 0) {
        backoff.pause();
      }
    }
    check(oldest.number);
  }

  void check(uint64_t number) {
    std::array<int32_t, 4> got{};
    std::memcpy(got.data(), to(number), sizeof(got));
    const auto sum = [&](uint64_t at) { return value(0, number + at) + value(1, number + at); };
    bool right = true;
    switch (number % 4) {
      case 0:
        right = got[0] == sum(0) && got[1] == sum(1);
        break;
      case 1:
        right = got[0] == value(0, number) && got[1] == value(0, number + 1) &&
                got[2] == value(1, number) && got[3] == value(1, number + 1);
        break;
      case 2:
        right = got[0] == sum(uint64_t{2} * rank_) && got[1] == sum(uint64_t{2} * rank_ + 1);
        break;
      default:
        right = line_.sends() || (got[0] == value(0, number) && got[3] == value(0, number + 3));
        break;
    }
    if (!right) {
      throw HostError("the result of operation " + std::to_string(number) + " is wrong");
    }
  }

  uint32_t rank_;
  CollNetComm comm_;
  NetLine line_;
  NetTable* net_ = nullptr;
  uint64_t next_ = 0;
  std::deque<Operation> outstanding_;
};

void endure(HostRank& self, uint64_t operations) {
  Endurance endurance(self);
  const uint64_t tenth = operations / 10;
  endurance.run(tenth);
  const size_t before = resident_bytes();
  const int64_t started = now_ns();
  endurance.run(operations - tenth);
  const double seconds = static_cast<double>(now_ns() - started) / 1e9;
  const size_t after = resident_bytes();
  std::printf("rank %u: %zu KiB after %llu operations, %zu KiB after %llu (%.1f us each)\n",
              self.rank(),
              before >> 10,
              static_cast<unsigned long long>(tenth),
              after >> 10,
              static_cast<unsigned long long>(operations),
              seconds * 1e6 / static_cast<double>(operations - tenth));
  std::fflush(stdout);
  expect(test::kSanitized || after < before + kMaxGrowth, "memory stays constant");
  endurance.close();
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t operations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000;
  if (operations < 1000 || argc > 2) {
    std::fputs("usage: plugin_endurance [OPERATIONS]  (at least 1000)\n", stderr);
    return 2;
  }
  HostJobOptions options;
  options.shape = {2, 1};
  options.wait_limit = std::chrono::hours(24);
  HostJob job(options, [operations](HostRank& self) { endure(self, operations); });
  int status = EXIT_SUCCESS;
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    const HostOutcome outcome = job.outcome(rank);
    if (!outcome.exited || !outcome.error.empty()) {
      std::fprintf(stderr, "rank %u: %s\n", rank, outcome.error.c_str());
      status = EXIT_FAILURE;
    }
  }
  return status;
}
