// What happens to a link from the loss of its connections until it goes on, as the log says it. All
// links of a process over a lost path say the same within moments: one says it as a warning, and
// the others for who asks for more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace ho::tcp {

// Whether nothing else has said this within the last seconds. Any thread.
[[nodiscard]] bool is_news(const std::string& event, int64_t now_ns);

// One event, with its first cause, however often connections are lost until the link goes on.
class LossEvent {
 public:
  // cause: with link and path; ok: somebody chose to leave that path. path: that is left.
  void note(const Status& cause, const std::string& path, int64_t now_ns);
  // The peer or this end says why it has opened other connections.
  void set_cause(const Status& cause) { cause_ = cause; }
  // Somebody waits for the link.
  void restart_wait() { wanted_at_ns_ = 0; }
  void note_wanted(int64_t now_ns) { wanted_at_ns_ = wanted_at_ns_ == 0 ? now_ns : wanted_at_ns_; }
  [[nodiscard]] const Status& cause() const { return cause_; }
  [[nodiscard]] int64_t began_ns() const { return began_ns_; }
  // Since when somebody has waited.
  [[nodiscard]] int64_t wanted_ns() const { return std::max(began_ns_, wanted_at_ns_); }

  // Once: no path has reached the peer since; taken: but its host takes connections.
  void warn_of_waiting(int64_t now_ns, std::chrono::milliseconds limit, bool taken);

  struct End {
    std::string link;  // "rank 3, rail 0"
    std::string path;  // that it goes on over
    bool home = false;
    bool dialled = false;  // by this end; one line for both, from that one
    bool news = true;      // Way's
    uint64_t sent_again = 0;
  };
  // The link goes on. logs: it had been lost.
  void end(int64_t now_ns, bool logs, const End& how);

 private:
  bool under_way_ = false;
  bool warned_ = false;
  Status cause_;
  std::string path_;
  int64_t began_ns_ = 0;
  int64_t wanted_at_ns_ = 0;  // 0: nobody has used the link since, so nobody waited
};

}  // namespace ho::tcp
