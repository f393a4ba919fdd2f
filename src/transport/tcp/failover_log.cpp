#include "transport/tcp/failover_log.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <utility>

#include "base/log.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNewsNs = 5000 * kNsPerMs;

}  // namespace

bool is_news(const std::string& event, int64_t now_ns) {
  // Never destroyed: a link that the program has left open may come here while it ends.
  struct Said {
    size_t event;
    int64_t until_ns;
  };
  static std::mutex mutex;
  static std::array<Said, 64> last{};
  static size_t next = 0;
  const std::scoped_lock lock(mutex);
  const size_t event_hash = std::hash<std::string>()(event);
  if (std::ranges::any_of(last, [&](const Said& each) {
        return each.event == event_hash && now_ns < each.until_ns;
      })) {
    return false;
  }
  last.at(next++ % last.size()) = {event_hash, now_ns + kNewsNs};
  return true;
}

void LossEvent::note(const Status& cause, const std::string& path, int64_t now_ns) {
  if (!under_way_) {
    under_way_ = true;
    warned_ = false;
    cause_ = Status();
    path_ = path;
    began_ns_ = now_ns;
    wanted_at_ns_ = 0;
  }
  if (cause_.ok()) {
    cause_ = cause;
  }
}

void LossEvent::warn_of_waiting(int64_t now_ns, std::chrono::milliseconds limit, bool taken) {
  if (std::exchange(warned_, true) || !is_news("nowhere from " + path_, now_ns)) {
    return;
  }
  const int64_t since_ms = (now_ns - began_ns_) / kNsPerMs;
  if (taken) {
    log_warn(
        "{}; its host takes connections, and its process has answered none for {} ms: it may be "
        "stopped or busy (horing status)",
        cause_.message(),
        since_ms);
    return;
  }
  log_warn(
      "{}; no path has reached it for {} ms, and each is tried again for {} ms "
      "(HORING_FAILOVER_WAIT_MS)",
      cause_.message(),
      since_ms,
      limit.count());
}

void LossEvent::end(int64_t now_ns, bool logs, const End& how) {
  under_way_ = false;
  if (!logs) {
    return;
  }
  const bool warns = how.dialled && how.news && (how.home || !cause_.ok()) &&
                     is_news(path_ + " to " + how.path, now_ns);
  const int64_t since_ns = how.dialled && wanted_at_ns_ != 0 ? wanted_at_ns_ : began_ns_;
  log_at(warns ? LogLevel::kWarn : LogLevel::kInfo,
         "{}; went on over {}{} after {} ms, with {} messages sent again",
         cause_.ok() ? how.link + ": left " + path_ : cause_.message(),
         how.path,
         how.home ? ", the link's own rail," : "",
         (now_ns - since_ns) / kNsPerMs,
         how.sent_again);
}

}  // namespace ho::tcp
