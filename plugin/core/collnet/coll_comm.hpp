// One communicator of CollNet's: a rail member, its registered memory, and NCCL's requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "core/rail/rail_handshake.hpp"
#include "status/network.hpp"

namespace ho::plugin {

class CollComm;

// What NCCL holds for a call.
struct CollRequest {
  CollComm* comm = nullptr;
  uint64_t number = 0;
  uint64_t byte_count = 0;  // that the call delivers here
  rail::WindowKind kind{};
  int64_t entered_ns = 0;  // 0: it is over
};

// A buffer that NCCL passes with its memory.
struct CollBuffer {
  void* data = nullptr;
  size_t byte_count = 0;
  const rail::Registration* memory = nullptr;
};

class CollComm {
 public:
  // owner: NCCL's communicator, where it has a number, and the context of the rail's connections.
  CollComm(std::unique_ptr<rail::RailMember> member, const NetDriver::Owner& owner)
      : owner_(owner), member_(std::move(member)) {}
  [[nodiscard]] const NetDriver::Owner& owner() const { return owner_; }
  // For `horing status`. Any thread.
  [[nodiscard]] WatchedRing watched();

  // NCCL registers one region twice per channel: the same memory is registered once and counted.
  [[nodiscard]] Result<const rail::Registration*> register_memory(void* data,
                                                                  size_t bytes,
                                                                  int32_t kind);
  [[nodiscard]] Status deregister(const rail::Registration* memory);

  // Each returns the request; nullptr: try again later.
  [[nodiscard]] Result<CollRequest*> all_reduce(
      CollBuffer from, CollBuffer to, uint64_t count, DType dtype, ReduceOp op);
  // `from`: what of this member's block lies in the window; `to`: the window.
  [[nodiscard]] Result<CollRequest*> all_gather(CollBuffer from,
                                                CollBuffer to,
                                                uint64_t block_bytes,
                                                uint64_t window_offset);
  // `from`: the window; `to`: what of this member's block lies in it.
  [[nodiscard]] Result<CollRequest*> reduce_scatter(CollBuffer from,
                                                    CollBuffer to,
                                                    uint64_t block_bytes,
                                                    uint64_t window_offset,
                                                    DType dtype,
                                                    ReduceOp op);
  // true: complete; the request is gone.
  [[nodiscard]] Result<bool> test(CollRequest& request);

  // RailRing::turns().
  [[nodiscard]] uint64_t turns() const { return member_->ring().turns(); }

 private:
  using Key = std::tuple<const void*, size_t, int32_t>;
  struct Registered {
    std::unique_ptr<rail::Registration> memory;
    size_t count = 0;
  };
  [[nodiscard]] Result<CollRequest*> enter(rail::RailCall call,
                                           const CollBuffer& from,
                                           const CollBuffer& to,
                                           uint64_t delivered_bytes);
  void note_failure(const Status& why);
  [[nodiscard]] Status check_window(const rail::Window& window) const;
  [[nodiscard]] rail::Window window_of(rail::WindowKind kind,
                                       uint64_t block_bytes,
                                       uint64_t offset) const;

  const NetDriver::Owner owner_;
  // Last to go: registrations end on its connections.
  std::unique_ptr<rail::RailMember> member_;
  std::mutex mutex_;
  std::map<Key, Registered> registered_;
  std::array<CollRequest, rail::kMaxCalls> requests_;
  // Guards requests_ where another thread than their own reads, and these.
  std::mutex calls_mutex_;
  uint64_t completed_ = 0;
  uint64_t completed_bytes_ = 0;
  std::string cause_;  // why the ring has failed
};

}  // namespace ho::plugin
