#include <poll.h>

#include <thread>

#include "conformance.hpp"

namespace ho::conformance {

bool Exchange::arrive(uint32_t rank, std::span<const std::byte> mine) {
  blobs_.at(rank).assign(mine.begin(), mine.end());
  if (++arrived_ < size_) {
    return false;
  }
  result_ = blobs_;
  arrived_ = 0;
  ++generation_;
  changed_.notify_all();
  return true;
}

Status Exchange::barrier(uint32_t rank, const std::function<void()>& serve) {
  constexpr std::chrono::milliseconds kPause(1);
  const Deadline limit = deadline_after(kHang);
  Lock lock(mutex_);
  const uint64_t generation = generation_;
  bool all = arrive(rank, {});
  while (!all && !passed(limit)) {
    lock.unlock();
    serve();
    lock.lock();
    all = changed_.wait_for(lock, kPause, [&] { return generation_ != generation; });
  }
  return all ? Status() : Status(StatusCode::kTimeout, "a rank is missing at the barrier");
}

Result<std::vector<std::vector<std::byte>>> Exchange::exchange(uint32_t rank,
                                                               std::span<const std::byte> mine) {
  Lock lock(mutex_);
  const uint64_t generation = generation_;
  if (arrive(rank, mine)) {
    return result_;
  }
  if (!changed_.wait_for(lock, kHang, [&] { return generation_ != generation; })) {
    return Status(StatusCode::kTimeout, "a rank is missing at the exchange");
  }
  return result_;
}

Result<Link*> Rank::link(uint32_t peer, uint32_t rail, uint8_t channel) const {
  LinkKey key;
  key.peer = GlobalRank(peer);
  key.rail = RailIndex(rail);
  key.channel = channel;
  return transport->link(key);
}

Status Rank::run(std::vector<Step> steps, std::chrono::milliseconds limit) const {
  const Deadline deadline = deadline_after(limit);
  while (true) {
    HORING_TRY(transport->progress());
    for (Step& step : steps) {
      if (step == nullptr) {
        continue;
      }
      HORING_ASSIGN(const bool done, step());
      if (done) {
        step = nullptr;
      }
    }
    std::erase_if(steps, [](const Step& step) { return step == nullptr; });
    if (steps.empty()) {
      return {};
    }
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline));
    if (rest.count() == 0) {
      return {StatusCode::kTimeout,
              "rank " + std::to_string(self.value()) + ": " + std::to_string(steps.size()) +
                  " steps were not done in time"};
    }
    if (transport->prepare_wait(WaitHint{})) {
      pollfd waiting{transport->wait_fd(), POLLIN, 0};
      ::poll(&waiting, 1, static_cast<int>(rest.count()));
    }
    transport->finish_wait();
  }
}

std::string run_ranks(const UnderTest& under_test,
                      uint32_t world_size,
                      const std::function<Status(Rank&)>& body) {
  Exchange exchange(world_size);
  std::vector<std::string> errors(world_size);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank self;
      self.self = GlobalRank(rank);
      self.world_size = world_size;
      self.exchange = &exchange;
      auto made = under_test.make(self.self, world_size, exchange);
      if (!made.ok()) {
        errors[rank] = made.status().to_string();
        return;
      }
      self.transport = std::move(*made);
      if (const Status status = body(self); !status.ok()) {
        errors[rank] = status.to_string();
      }
      // Nobody closes while others still read, and a message may need both ends to arrive.
      static_cast<void>(exchange.barrier(rank, [&self] {
        if (self.transport != nullptr) {
          static_cast<void>(self.transport->progress());
        }
      }));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::string joined;
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    if (!errors[rank].empty()) {
      joined += "rank " + std::to_string(rank) + ": " + errors[rank] + "\n";
    }
  }
  return joined;
}

std::vector<std::byte> pattern(uint64_t seed, size_t byte_count) {
  std::vector<std::byte> bytes(byte_count);
  uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

Status check_pattern(uint64_t seed, ConstBytes got) {
  const std::vector<std::byte> expected = pattern(seed, got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (expected[i] != got[i]) {
      return {StatusCode::kInternal,
              "message " + std::to_string(seed) + " of " + std::to_string(got.size()) +
                  " bytes differs at byte " + std::to_string(i)};
    }
  }
  return {};
}

Frame frame_of(uint32_t index, size_t payload_bytes) {
  Frame frame;
  frame.sequence = 1;
  frame.op_index = index;
  frame.payload_bytes = static_cast<uint32_t>(payload_bytes);
  frame.count = 77;
  return frame;
}

}  // namespace ho::conformance
