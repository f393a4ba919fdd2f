// Zero-filled memory of this process alone, mapped for itself: what is freed goes back to the
// kernel at once. malloc keeps large blocks too, in an arena for each thread that frees them.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.hpp"

namespace ho {

class PrivateMemory {
 public:
  PrivateMemory() = default;  // of no bytes
  // `bytes` > 0. Pages take memory once they are touched.
  [[nodiscard]] static Result<PrivateMemory> create(size_t bytes);
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  ~PrivateMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return {base_, size_}; }

 private:
  PrivateMemory(std::byte* base, size_t size) : base_(base), size_(size) {}

  std::byte* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ho
