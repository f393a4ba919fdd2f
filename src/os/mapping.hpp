// Mapped memory, which is unmapped when its owner goes.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

#include "base/owned.hpp"

namespace ho {

struct MappedBytes {
  std::span<std::byte> bytes;
  void release() const noexcept { ::munmap(bytes.data(), bytes.size()); }
};
using Mapping = Owned<MappedBytes>;

[[nodiscard]] inline std::span<std::byte> bytes_of(const Mapping& mapping) {
  return mapping ? mapping->bytes : std::span<std::byte>();
}

}  // namespace ho
