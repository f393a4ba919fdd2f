// Takes the connections that come to listeners, lets each prove the job key in a handshake, and
// hands over those whose claim its owner accepts. Strangers cost one bounded handshake each and
// disturb nobody.
//
// It has no descriptor of its own and never blocks: its owner calls step() when a socket that it
// gave to `watch` has an edge, and at next_deadline_ns(); or again and again where there is no
// poller. One thread at a time; the callbacks run inside step() and do not call the acceptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/log.hpp"
#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "connect/refusals.hpp"
#include "connect/socket.hpp"
#include "os/fd.hpp"
#include "os/pause_watch.hpp"
#include "os/socket.hpp"

namespace ho {

class Acceptor {
 public:
  struct Arrival {
    int fd = -1;
    const SocketAddress& peer;
    // What it says of itself: proven where it is judged or delivered, hearsay where it is refused.
    std::span<const std::byte> claim;
  };
  struct Options {
    std::string name;     // whose listeners these are, for messages: "rendezvous", "device eth0"
    std::string purpose;  // of the handshakes
    std::shared_ptr<const JobKey> key;
    std::chrono::milliseconds handshake_time{5000};
    // Under way at most. Then one makes room that says nothing, of the host that has many such or
    // for a quarter of a second; or one that has had a second. Where there is none, who comes waits
    // in the listener's queue.
    size_t max_handshakes = 256;
    std::string on_shortage;  // what takes this process' descriptors
    LogLevel refusals_at = LogLevel::kWarn;
    Watch watch;
    bool watch_sets_flags = false;  // of the sockets; otherwise each step tries all of them
    // Whether who has proven the key may enter; not ok: the reason that it is told.
    std::function<Status(const Arrival&)> judge;
    // Two of one claim may have been judged before the first is delivered.
    std::function<void(const Arrival&, std::unique_ptr<Socket>)> deliver;
    // As whom messages name it; none: its address.
    std::function<std::string(const Arrival&)> claim_text;
    // true: told and remembered by the owner. kConnection: it went away by itself. May be none.
    std::function<bool(const Arrival&, const Status& why)> refused;
  };

  [[nodiscard]] static Result<std::unique_ptr<Acceptor>> open(std::vector<Fd> listeners,
                                                              Options options);

  // Accepts and checks as far as that goes now.
  void step(int64_t now_ns);
  // When to call step() at the latest.
  [[nodiscard]] int64_t next_deadline_ns() const;
  // step() would find nothing to do, where `watch` sets flags.
  [[nodiscard]] bool idle() const;
  // Somebody has come and is neither delivered nor refused.
  [[nodiscard]] bool someone_waits() const { return !pending_.empty() || !shortage_.ok(); }
  // Not ok: somebody waits at a listener, and this process has no descriptor for it.
  [[nodiscard]] const Status& shortage() const { return shortage_; }
  // The same, and at which port, once that has lasted so long that those who wait should hear of
  // it.
  [[nodiscard]] Status stuck(int64_t now_ns) const;
  // Whom nobody else has remembered.
  [[nodiscard]] Refusals& refusals() { return refusals_; }
  // Closes listeners and handshakes.
  void close();

 private:
  struct Pending {
    std::unique_ptr<Socket> socket;
    SocketAddress peer;
    std::unique_ptr<Handshake> handshake;
    int64_t came_ns = 0;
    int64_t deadline_ns = 0;
    Status barred;  // not ok: without a key its address is not admitted, only told so
  };

  explicit Acceptor(Options options) : options_(std::move(options)) {}
  using PendingList = std::list<Pending>;
  void prepare_to_try_all(int64_t now_ns);
  [[nodiscard]] Status accept_all(Socket& listener, int64_t now_ns, bool& came);
  [[nodiscard]] bool is_full() const { return pending_.size() >= options_.max_handshakes; }
  // Where it is full; its end: nobody.
  [[nodiscard]] PendingList::iterator to_displace(int64_t now_ns);
  [[nodiscard]] static bool is_silent(const Pending& pending);
  [[nodiscard]] static int64_t own_until_ns(const Pending& pending);
  // `barred`: of the connection that comes.
  void free_descriptor(const Status& barred, int64_t now_ns);
  void note_shortage(const Status& why, bool came, int64_t now_ns);
  void admit(Accepted accepted, int64_t now_ns);
  // true: dealt with, well or not.
  [[nodiscard]] bool advance(Pending& pending, int64_t now_ns);
  void note_refused(const Pending& pending, const Status& why);

  Options options_;
  std::vector<std::unique_ptr<Socket>> listeners_;
  PendingList pending_;   // oldest first
  bool blocked_ = false;  // for who waits at a listener
  PauseWatch pauses_;
  Status shortage_;
  int64_t short_since_ns_ = 0;
  int64_t retry_at_ns_ = 0;
  Refusals refusals_;
  LogQuota refused_logged_;  // anybody can cause them
  LogQuota shortage_logged_;
};

}  // namespace ho
