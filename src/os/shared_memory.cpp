#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace ho {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<SharedMemory> SharedMemory::map(Fd fd, size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    return system_error("mmap of " + std::to_string(bytes) + " bytes of shared memory", errno);
  }
  return SharedMemory(std::move(fd), Mapping({{static_cast<std::byte*>(base), bytes}}));
}

Result<SharedMemory> SharedMemory::create(const std::string& name, size_t bytes) {
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) {
    return system_error("memfd_create(" + name + ")", errno);
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error("ftruncate of " + name + " to " + std::to_string(bytes) + " bytes", errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return system_error("sealing " + name, errno);
  }
  return map(std::move(fd), bytes);
}

Result<SharedMemory> SharedMemory::attach(Fd fd, size_t expected_bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) {
    return system_error("fstat of a peer's shared memory", errno);
  }
  if (status.st_size < 0 || static_cast<size_t>(status.st_size) != expected_bytes) {
    return Status(StatusCode::kProtocol,
                  "peer's shared memory has " + std::to_string(status.st_size) +
                      " bytes, expected " + std::to_string(expected_bytes));
  }
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status(StatusCode::kProtocol, "peer's shared memory is not sealed against shrinking");
  }
  return map(std::move(fd), expected_bytes);
}

}  // namespace ho
