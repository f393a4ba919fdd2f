#include "os/private_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>

namespace ho {

Result<PrivateMemory> PrivateMemory::create(size_t bytes) {
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return system_error("mmap of " + std::to_string(bytes) + " bytes", errno);
  }
  return PrivateMemory(Mapping({{static_cast<std::byte*>(base), bytes}}));
}

}  // namespace ho
