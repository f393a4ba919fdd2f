#include "transport/tcp/pacer.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/quantity.hpp"

namespace ho::tcp {
namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free && sizeof(std::atomic<int64_t>) == 8,
              "the pacing state is shared between processes");

constexpr uint64_t kNsPerByteAtOneMbit = 8000;

Result<int> parse_domain(const std::string& domain) {
  const std::string_view text = domain;
  const auto fd = text.starts_with("fd:") ? whole_number<int>(text.substr(3)) : std::nullopt;
  if (fd.value_or(-1) >= 0) {
    return *fd;
  }
  return Status(StatusCode::kInvalidArgument,
                "pace domain '" + domain + "': expected fd:N, the number of an inherited memfd");
}

}  // namespace

Result<std::unique_ptr<Pacer>> Pacer::create(const std::string& domain, uint64_t mbit_per_s) {
  int fd = -1;
  int flags = MAP_SHARED | MAP_ANONYMOUS;
  if (!domain.empty()) {
    HORING_ASSIGN(fd, parse_domain(domain));
    flags = MAP_SHARED;
    struct stat file {};
    if (::fstat(fd, &file) != 0) {
      return system_error("fstat of pace domain '" + domain + "'", errno);
    }
    if (file.st_size < static_cast<off_t>(kDomainBytes)) {
      return Status(StatusCode::kInvalidArgument,
                    "pace domain '" + domain + "' has " + std::to_string(file.st_size) +
                        " bytes; " + std::to_string(kDomainBytes) + " are needed");
    }
  }
  void* memory = ::mmap(nullptr, kDomainBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) {
    return system_error("mmap of pace domain '" + domain + "'", errno);
  }
  // All-zero bytes are valid atomics with value 0: free since the epoch.
  return std::unique_ptr<Pacer>(  // NOLINT: the constructor is private
      new Pacer(static_cast<std::atomic<int64_t>*>(memory), mbit_per_s));
}

Pacer::~Pacer() {
  ::munmap(static_cast<void*>(free_at_ns_), kDomainBytes);
}

int64_t Pacer::reserve(RailIndex rail, size_t byte_count, int64_t now_ns) {
  const auto duration_ns = static_cast<int64_t>(byte_count * kNsPerByteAtOneMbit / mbit_per_s_);
  std::atomic<int64_t>& free_at_ns = free_at_ns_[rail.at() % kMaxRails];
  int64_t seen = free_at_ns.load(std::memory_order_relaxed);
  int64_t start_ns = 0;
  do {
    start_ns = std::max(seen, now_ns - kCreditNs);
  } while (
      !free_at_ns.compare_exchange_weak(seen, start_ns + duration_ns, std::memory_order_relaxed));
  return start_ns;
}

}  // namespace ho::tcp
