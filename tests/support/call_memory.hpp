// The memory that a test's calls work on: the host's, or a device's where the program is built with
// device_call_memory.cpp in the place of host_call_memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "horing.h"

namespace ho::test {

// Stands for the bytes of `host` in calls of this thread's rank.
class CallMemory {
 public:
  explicit CallMemory(std::vector<std::byte>& host);
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory();

  // What a call gets: the byte `offset`.
  [[nodiscard]] void* at(size_t offset = 0) const { return memory_ + offset; }
  // Writes what the memory has now to `host`, after what the default stream was given.
  void take_back();

 private:
  std::vector<std::byte>& host_;
  std::byte* memory_;
  struct Held;
  std::unique_ptr<Held> held_;
};

// ho_comm_options.device for this rank of the job, whose thread calls.
[[nodiscard]] int32_t device_of(size_t rank);

}  // namespace ho::test
