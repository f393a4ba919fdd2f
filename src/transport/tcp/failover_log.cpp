#include "transport/tcp/failover_log.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kNewsNs = 5'000'000'000;

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

void log_went_on(const WentOn& link, bool warns) {
  const bool news = warns && is_news(link.from + " to " + link.to, now_ns());
  log_at(news ? LogLevel::kWarn : LogLevel::kInfo,
         "{}; went on over {}{} after {} ms, with {} messages sent again",
         link.why,
         link.to,
         link.home ? ", the link's own rail," : "",
         link.ms,
         link.sent_again);
}

}  // namespace ho::tcp
