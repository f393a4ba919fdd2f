// The memory that a test's calls work on: the host's, or a device's where the program is built with
// device_call_memory.cpp in the place of host_call_memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "horing.h"

namespace ho::test {

// Stands for the bytes of `host`, which stay where they are, in calls of this thread's rank.
class CallMemory {
 public:
  explicit CallMemory(std::span<std::byte> host);
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory();

  // What a call gets: the byte `offset`.
  [[nodiscard]] void* at(size_t offset = 0) const { return memory_ + offset; }
  // Writes what the memory has now to `host`, after what the default stream was given.
  void take_back();

 private:
  std::span<std::byte> host_;
  std::byte* memory_;
  struct Held;
  std::unique_ptr<Held> held_;
};

// Numbers in such memory, for tests that look at how calls end rather than at results.
class CallFloats {
 public:
  explicit CallFloats(size_t count, float value = 0.0F)
      : values_(count, value), memory_(std::as_writable_bytes(std::span(values_))) {}
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_.at()); }
  [[nodiscard]] size_t size() const { return values_.size(); }
  // What the memory has after all calls so far.
  [[nodiscard]] const std::vector<float>& values() {
    memory_.take_back();
    return values_;
  }

 private:
  std::vector<float> values_;
  CallMemory memory_;
};

// Where the test has given back all that it had: what is left of it on this process's devices, and
// what was wrong with how they were used. "": nothing.
[[nodiscard]] std::string memory_left_behind();

// ho_comm_options.device for this rank of the job, whose thread calls.
[[nodiscard]] int32_t device_of(size_t rank);

}  // namespace ho::test
