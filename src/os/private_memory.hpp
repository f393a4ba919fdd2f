// Zero-filled memory of this process alone, mapped for itself: what is freed goes back to the
// kernel at once. malloc keeps large blocks too, in an arena for each thread that frees them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/status.hpp"
#include "os/mapping.hpp"

namespace ho {

class PrivateMemory {
 public:
  PrivateMemory() = default;  // of no bytes
  // `bytes` > 0. Pages take memory once they are touched.
  [[nodiscard]] static Result<PrivateMemory> create(size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_of(mapping_); }

 private:
  explicit PrivateMemory(Mapping mapping) : mapping_(std::move(mapping)) {}
  Mapping mapping_;
};

}  // namespace ho
