#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace ho {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

FutexResult futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, Deadline deadline) {
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is steady_clock's.
  timespec until{};
  timespec* limit = nullptr;
  if (deadline != Deadline::max()) {
    const auto since_boot =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
    constexpr int64_t kSecond = 1'000'000'000;
    until.tv_sec = static_cast<time_t>(since_boot / kSecond);
    until.tv_nsec = static_cast<long>(since_boot % kSecond);  // NOLINT(google-runtime-int)
    limit = &until;
  }
  const auto result = ::syscall(
      SYS_futex, &word, FUTEX_WAIT_BITSET, expected, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == 0 || errno == EINTR) {
    return FutexResult::kWoken;
  }
  return errno == EAGAIN ? FutexResult::kChanged : FutexResult::kTimedOut;
}

void futex_wake(const std::atomic<uint32_t>& word, int count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace ho
