#include "transport/tcp/failover_log.hpp"

#include <map>
#include <mutex>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kNewsNs = 5'000'000'000;

}  // namespace

bool is_news(const std::string& event, int64_t now_ns) {
  static std::mutex mutex;
  static std::map<std::string, int64_t> said;
  const std::scoped_lock lock(mutex);
  std::erase_if(said, [now_ns](const auto& each) { return now_ns - each.second >= kNewsNs; });
  return said.emplace(event, now_ns).second;
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
