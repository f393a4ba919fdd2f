// What the log says of links that go on over another path. All links of a process over a lost path
// say the same within moments: one says it as a warning, and the others for who asks for more.
#pragma once

#include <cstdint>
#include <string>

namespace ho::tcp {

// Whether nothing else has said this within the last seconds. Any thread.
[[nodiscard]] bool is_news(const std::string& event, int64_t now_ns);

struct WentOn {
  std::string why;  // "rank 3, rail 0, tcp A -> B: what ended it"
  std::string from;
  std::string to;  // paths
  bool home = false;
  int64_t ms = 0;
  uint64_t sent_again = 0;
};
// Of one of the two ends of a link, as a warning if the event is news.
void log_went_on(const WentOn& link, bool warns);

}  // namespace ho::tcp
