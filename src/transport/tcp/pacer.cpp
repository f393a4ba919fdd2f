#include "transport/tcp/pacer.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace ho::tcp {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && sizeof(std::atomic<int64_t>) == 8,
              "the pacing state is shared between processes");

constexpr uint64_t kNsPerByteAtOneMbit = 8000;

}  // namespace

Result<std::unique_ptr<Pacer>> Pacer::create(int memory_fd) {
  const std::string what = "the shared pace, descriptor " + std::to_string(memory_fd);
  int flags = MAP_SHARED | MAP_ANONYMOUS;
  if (memory_fd >= 0) {
    flags = MAP_SHARED;
    struct stat file {};
    if (::fstat(memory_fd, &file) != 0) {
      return system_error("fstat of " + what, errno);
    }
    if (file.st_size < static_cast<off_t>(kDomainBytes)) {
      return invalid(what + " has " + std::to_string(file.st_size) + " bytes; " +
                     std::to_string(kDomainBytes) + " are needed");
    }
  }
  void* memory =
      ::mmap(nullptr, kDomainBytes, PROT_READ | PROT_WRITE, flags, std::max(memory_fd, -1), 0);
  if (memory == MAP_FAILED) {
    return system_error("mmap of " + what, errno);
  }
  // All-zero bytes are valid atomics with value 0: free since the epoch.
  return std::unique_ptr<Pacer>(  // NOLINT: the constructor is private
      new Pacer(static_cast<std::atomic<int64_t>*>(memory)));
}

Result<std::unique_ptr<Pacer>> Pacer::create(std::span<const RailInterface> rails) {
  const auto paced =
      std::ranges::find_if(rails, [](const RailInterface& rail) { return rail.pace.has_value(); });
  return paced == rails.end() ? std::unique_ptr<Pacer>() : create(paced->pace->memory_fd);
}

Pacer::~Pacer() {
  ::munmap(static_cast<void*>(free_at_ns_), kDomainBytes);
}

int64_t Pacer::reserve(const RailPace& rail, size_t byte_count, int64_t now_ns) {
  const auto duration_ns = static_cast<int64_t>(byte_count * kNsPerByteAtOneMbit / rail.mbit);
  std::atomic<int64_t>& free_at_ns = free_at_ns_[rail.slot % kMaxRails];
  int64_t seen = free_at_ns.load(std::memory_order_relaxed);
  int64_t start_ns = 0;
  do {
    start_ns = std::max(seen, now_ns - kCreditNs);
  } while (
      !free_at_ns.compare_exchange_weak(seen, start_ns + duration_ns, std::memory_order_relaxed));
  return start_ns;
}

}  // namespace ho::tcp
