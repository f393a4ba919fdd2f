// What the calls of the table share, and their declarations.
#pragma once

#include "machine.hpp"

namespace ho::cuda_double {

inline constexpr unsigned kNeedsInit = 1;
inline constexpr unsigned kNeedsContext = 2;   // and init
inline constexpr unsigned kSynchronizes = 4;   // waits for the device, or may
inline constexpr unsigned kSafeInCapture = 8;  // whatever another thread captures
inline constexpr unsigned kAllocates = 16;
inline constexpr unsigned kSpoilsCaptures = 64;  // without a context too
inline constexpr unsigned kAlways = 32;          // also after a failure: version, texts of errors

// One call, from its count to its end: holds the lock, knows the order of host threads, and says
// whether the call is refused before it is looked at.
class Call {
 public:
  Call(const char* name, unsigned traits);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // Anything but kSuccess is what the call returns.
  [[nodiscard]] device::DriverResult refused() const { return refused_; }
  [[nodiscard]] Machine& machine() { return machine_; }
  [[nodiscard]] Machine::Lock& lock() { return lock_; }
  [[nodiscard]] ContextState* context() { return machine_.current(); }
  [[nodiscard]] uint64_t number() const { return number_; }

 private:
  [[nodiscard]] device::DriverResult check(const char* name, unsigned traits);
  [[nodiscard]] device::DriverResult injected(const char* name);

  Machine& machine_;
  Machine::Lock lock_;
  uint64_t number_ = 0;
  device::DriverResult refused_ = device::kSuccess;
};

// Each part of the table.
void fill_object_calls(device::Driver& table);
void fill_memory_calls(device::Driver& table);
void fill_work_calls(device::Driver& table);
[[nodiscard]] std::span<const std::byte> token_image();

// Null, and a violation, where there is no such stream.
[[nodiscard]] StreamState* stream_for(Call& call, device::StreamHandle handle);

}  // namespace ho::cuda_double
