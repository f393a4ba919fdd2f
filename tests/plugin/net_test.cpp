// The network through its tables, as NCCL's proxies use it: flat rings, and grouped receives.
#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <thread>

#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/ring_comm.hpp"
#include "catch.hpp"
#include "host_job.hpp"
#include "net_line.hpp"
#include "os/clock.hpp"
#include "releases.hpp"

using namespace ho;
using namespace ho::nccl_host;
using namespace ho::plugin_host_test;

namespace {

RingOptions small_slots() {
  RingOptions options;
  options.channels = 3;
  options.slot_bytes = 2048;
  return options;
}

void run_checked(RingComm& comm, const Work& work) {
  write_input(work, comm.memory());
  comm.run(work);
  const uint64_t wrong = count_wrong(work, comm.memory());
  expect(wrong == 0, work.text() + " over rings is right: " + std::to_string(wrong) + " wrong");
}

void run_rings(HostRank& self) {
  RingComm comm(self.library(), self.memory(), 7, small_slots());
  for (const Collective kind : kCollectives) {
    for (const uint64_t count : {1U, 700U, 9001U}) {
      run_checked(comm, {kind, DType::kInt32, ReduceOp::kSum, count});
    }
  }
  comm.close();
}

// Messages of several tags from rank 0 to rank 1.
class Exchange {
 public:
  explicit Exchange(HostRank& self)
      : line_(self), net_(self.library().net()), data_(kTags * kBufferBytes) {
    line_.register_memory(data_.data(), data_.size());
  }

  static constexpr size_t kTags = 8;
  static constexpr size_t kBufferBytes = 5000;
  [[nodiscard]] bool sends() const { return line_.sends(); }
  void close() { line_.close(); }
  [[nodiscard]] static std::byte byte_of(uint64_t round, size_t tag, size_t at_index) {
    return static_cast<std::byte>(round * 13 + tag * 57 + at_index * 3 + at_index / 256);
  }
  // Less than there is room for, nothing at all, and all.
  [[nodiscard]] static size_t bytes_of(uint64_t round, size_t tag) {
    constexpr std::array<size_t, 5> kSizes{1, 0, kBufferBytes, 777, 64};
    return kSizes.at((round + tag) % kSizes.size());
  }
  [[nodiscard]] std::byte* at_index(size_t tag) { return data_.data() + tag * kBufferBytes; }

  // A message of each tag, the last tag first.
  void send_round(uint64_t round) {
    std::deque<void*> requests;
    for (size_t i = kTags; i-- > 0;) {
      for (size_t at = 0; at < bytes_of(round, i); ++at) {
        at_index(i)[at] = byte_of(round, i, at);
      }
      void* request = nullptr;
      while (request == nullptr) {
        require(net_.isend(line_.comm(),
                           at_index(i),
                           bytes_of(round, i),
                           static_cast<int>(i),
                           line_.memory(),
                           &request),
                "isend");
      }
      requests.push_back(request);
    }
    for (void* const request : requests) {
      wait(request, nullptr);
    }
  }

  // The same in groups of `group` messages.
  void receive_round(uint64_t round, size_t group) {
    std::ranges::fill(data_, kPoison);
    struct Posted {
      void* request;
      size_t first;
      size_t count;
    };
    std::vector<Posted> posted;
    for (size_t first = 0; first < kTags; first += group) {
      const size_t count = std::min(group, kTags - first);
      std::array<void*, kTags> data{};
      std::array<size_t, kTags> buffers{};
      std::array<int, kTags> tags{};
      std::array<void*, kTags> memories{};
      for (size_t i = 0; i < count; ++i) {
        data.at(i) = at_index(first + i);
        buffers.at(i) = kBufferBytes;
        tags.at(i) = static_cast<int>(first + i);
        memories.at(i) = line_.memory();
      }
      void* request = nullptr;
      while (request == nullptr) {
        // Since v9 NCCL may say that it needs no completion; the request is to be tested all the
        // same.
        request = net_.version() >= 9 && round % 2 == 1
                      // NOLINTNEXTLINE(performance-no-int-to-ptr): NCCL's marker
                      ? reinterpret_cast<void*>(nccl_abi::kOptionalReceiveCompletion)
                      : nullptr;
        require(net_.irecv(line_.comm(),
                           {static_cast<int>(count),
                            data.data(),
                            buffers.data(),
                            tags.data(),
                            memories.data()},
                           &request),
                "irecv");
      }
      posted.push_back({request, first, count});
    }
    for (const Posted& each : posted) {
      std::array<int, kTags> sizes{};
      wait(each.request, sizes.data());
      for (size_t i = 0; i < each.count; ++i) {
        check(round, each.first + i, sizes.at(i));
      }
    }
  }

 private:
  void wait(void* request, int* sizes) {
    int done = 0;
    const Deadline deadline = deadline_after(std::chrono::seconds(60));
    while (done == 0) {
      require(net_.test(request, &done, sizes), "test");
      expect(!passed(deadline), "a message arrives");
      if (done == 0) {
        std::this_thread::yield();
      }
    }
  }
  void check(uint64_t round, size_t tag, int size) {
    const size_t bytes = bytes_of(round, tag);
    expect(static_cast<size_t>(size) == bytes, "test tells each message's size");
    size_t wrong = 0;
    for (size_t at = 0; at < kBufferBytes; ++at) {
      wrong += at_index(tag)[at] != (at < bytes ? byte_of(round, tag, at) : kPoison) ? 1U : 0U;
    }
    expect(wrong == 0, "tag " + std::to_string(tag) + " has the right bytes");
  }

  NetLine line_;
  NetTable& net_;
  std::vector<std::byte> data_;
};

}  // namespace

TEST_CASE("flat rings over the network are right", "[quick]") {
  for (const int version : {8, 12}) {
    HostJobOptions options = host_job(2, 2, version);
    options.link_bytes = small_slots().link_bytes();
    require_job(options, run_rings);
  }
}

TEST_CASE("flat rings over the network are right in every version and shape") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    for (const JobShape shape : {JobShape{2, 1}, JobShape{3, 2}, JobShape{4, 1}}) {
      HostJobOptions options = host_job(shape.nodes, shape.ranks_per_node, version);
      options.link_bytes = small_slots().link_bytes();
      require_job(options, run_rings);
    }
  }
}

TEST_CASE("grouped receives take messages by tag, in any order", "[quick]") {
  for (const auto& [version, release] : kReleaseOfVersion) {
    require_job(host_job(2, 1, version), [](HostRank& self) {
      Exchange line(self);
      uint64_t round = 0;
      for (const size_t group : {1U, 2U, 3U, 8U}) {
        for (int repeat = 0; repeat < 20; ++repeat, ++round) {
          if (line.sends()) {
            line.send_round(round);
          } else {
            line.receive_round(round, group);
          }
        }
      }
      line.close();
    });
  }
}
