// One suite for every transport: thread ranks, each driving its own Transport, exchange messages of
// all sizes and shapes and check every byte. A wait sleeps on wait_fd() until the deadline, so a
// lost wake-up shows as a timeout.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace ho::conformance {

// Of what hangs; the slowest machine under a sanitizer is done before.
inline constexpr std::chrono::seconds kHang{240};

// Where the threads of one test exchange blobs, as ranks do over the control plane.
class Exchange {
 public:
  explicit Exchange(uint32_t size) : size_(size), blobs_(size) {}
  // All-gather by rank; an error when somebody does not come.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> exchange(
      uint32_t rank, std::span<const std::byte> mine);
  [[nodiscard]] Status barrier(uint32_t rank) { return exchange(rank, {}).status(); }
  // The same of a rank that serves the others while it waits for them.
  [[nodiscard]] Status barrier(uint32_t rank, const std::function<void()>& serve);

 private:
  using Lock = std::unique_lock<std::mutex>;
  // true: all have come.
  [[nodiscard]] bool arrive(uint32_t rank, std::span<const std::byte> mine);

  const uint32_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::byte>> blobs_;
  std::vector<std::vector<std::byte>> result_;
  uint32_t arrived_ = 0;
  uint64_t generation_ = 0;
};

using Make = std::function<Result<std::unique_ptr<Transport>>(
    GlobalRank self, uint32_t world_size, Exchange& exchange)>;

struct UnderTest {
  Make make;
  uint32_t rails = 1;
  // Whether a peer that goes away is reported by the transport itself.
  bool reports_lost_peer = true;
  // Links accept from their creation on, so that a refused first send was held back.
  bool opens_at_once = false;
};

// A step of a conversation: true when it is done, false to be called again.
using Step = std::function<Result<bool>()>;

struct Rank {
  GlobalRank self;
  uint32_t world_size = 0;
  Exchange* exchange = nullptr;
  std::unique_ptr<Transport> transport;

  [[nodiscard]] Result<Link*> link(uint32_t peer, uint32_t rail = 0, uint8_t channel = 0) const;
  // Drives the transport until all steps are done.
  [[nodiscard]] Status run(std::vector<Step> steps, std::chrono::milliseconds limit = kHang) const;
};

// One thread per rank; body's errors come back joined, "" when there is none.
[[nodiscard]] std::string run_ranks(const UnderTest& under_test,
                                    uint32_t world_size,
                                    const std::function<Status(Rank&)>& body);

// Payload that depends on seed and position.
[[nodiscard]] std::vector<std::byte> pattern(uint64_t seed, size_t byte_count);
[[nodiscard]] Status check_pattern(uint64_t seed, ConstBytes got);
[[nodiscard]] Frame frame_of(uint32_t index, size_t payload_bytes);

// The suite; call from a TEST_CASE. Each check is a SECTION.
void run_suite(const UnderTest& under_test);

}  // namespace ho::conformance
