// Rate limit per rail where the kernel may not shape links: every sender of an emulated host asks
// one shared clock per rail when its next bytes may leave.
//
// The state is one number per rail, the time at which the rail is free again, in memory that the
// host's processes share (an inherited memfd) and advance by compare-and-swap. A sender that
// crashes leaves at most one slice reserved. Waking late does not lose bandwidth: a rail may run
// kCreditNs behind its schedule, which bounds the burst after a pause as a shaper's bucket does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "connect/rail_interface.hpp"

namespace ho::tcp {

class Pacer {
 public:
  static constexpr uint32_t kMaxRails = 64;
  static constexpr size_t kDomainBytes = kMaxRails * sizeof(int64_t);
  static constexpr size_t kSliceBytes = 16384;
  static constexpr int64_t kCreditNs = 1'000'000;

  // memory_fd: RailPace's, of at least kDomainBytes zeros; negative: this object alone.
  [[nodiscard]] static Result<std::unique_ptr<Pacer>> create(int memory_fd);
  // For the paced ones of these rails; null where none is.
  [[nodiscard]] static Result<std::unique_ptr<Pacer>> create(std::span<const RailInterface> rails);
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;
  ~Pacer();

  // Books the rail for that many bytes; the time from which they may be sent.
  [[nodiscard]] int64_t reserve(const RailPace& rail, size_t byte_count, int64_t now_ns);

 private:
  explicit Pacer(std::atomic<int64_t>* free_at_ns) : free_at_ns_(free_at_ns) {}
  std::atomic<int64_t>* free_at_ns_;  // kMaxRails of them, mapped
};

}  // namespace ho::tcp
