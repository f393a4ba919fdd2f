#include "os/private_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

namespace ho {

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (base_ != nullptr) {
    ::munmap(base_, size_);
  }
}

Result<PrivateMemory> PrivateMemory::create(size_t bytes) {
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return system_error("mmap of " + std::to_string(bytes) + " bytes", errno);
  }
  return PrivateMemory(static_cast<std::byte*>(base), bytes);
}

}  // namespace ho
