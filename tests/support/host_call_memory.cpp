#include "call_memory.hpp"

namespace ho::test {

struct CallMemory::Held {};

CallMemory::CallMemory(std::span<std::byte> host) : host_(host), memory_(host.data()) {}
CallMemory::~CallMemory() = default;

void CallMemory::take_back() {
  memory_ = host_.data();  // where it was all the time
}

std::string memory_left_behind() {
  return {};
}

int32_t device_of(size_t /*rank*/) {
  return HO_DEVICE_NONE;
}

}  // namespace ho::test
