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
#include <string>

#include "base/index.hpp"
#include "base/status.hpp"

namespace ho::tcp {

class Pacer {
 public:
  static constexpr uint32_t kMaxRails = 64;
  static constexpr size_t kDomainBytes = kMaxRails * sizeof(int64_t);
  static constexpr size_t kSliceBytes = 16384;
  static constexpr int64_t kCreditNs = 1'000'000;

  // domain: "fd:N" (a memfd of at least kDomainBytes zeros, inherited by all processes of the
  // host), or empty: this transport alone.
  [[nodiscard]] static Result<std::unique_ptr<Pacer>> create(const std::string& domain,
                                                             uint64_t mbit_per_s);
  Pacer(const Pacer&) = delete;
  Pacer& operator=(const Pacer&) = delete;
  ~Pacer();

  // Books the rail for that many bytes; the time from which they may be sent.
  [[nodiscard]] int64_t reserve(RailIndex rail, size_t byte_count, int64_t now_ns);

 private:
  Pacer(std::atomic<int64_t>* free_at_ns, uint64_t mbit_per_s)
      : free_at_ns_(free_at_ns), mbit_per_s_(mbit_per_s) {}
  std::atomic<int64_t>* free_at_ns_;  // kMaxRails of them, mapped
  uint64_t mbit_per_s_;
};

}  // namespace ho::tcp
