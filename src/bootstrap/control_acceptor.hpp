// The coordinator's listener: accepts connections, runs their handshakes and hands over those that
// prove the job key. What is not yet proven is bounded in number and in time, and cannot disturb
// anything but itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "bootstrap/wire.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"

namespace ho {

class ControlAcceptor {
 public:
  static constexpr std::chrono::seconds kHandshakeTime{5};
  static constexpr size_t kMaxPending = 256;
  // So long nobody can be let in for want of descriptors before that is an error.
  static constexpr std::chrono::seconds kStuckTime{3};
  // Distinct epoll user data: listeners and pending connections count up from kFirstToken.
  static constexpr uint64_t kFirstToken = uint64_t{1} << 32;

  // Says whether a proven rank may enter; not ok: the reason it is told.
  using Judge = std::function<Status(const wire::RankClaim&)>;
  using Enter = std::function<void(Fd, const wire::RankClaim&)>;
  // Somebody who says that he is this rank, and who has no key or another one. Nothing is proven.
  using KeyRefused =
      std::function<void(const wire::RankClaim&, const std::string& from, const Status& why)>;
  struct Decisions {
    Judge judge;
    Enter enter;
    KeyRefused key_refused;
  };

  // `epoll` outlives the acceptor.
  ControlAcceptor(int epoll, std::vector<Fd> listeners, std::shared_ptr<const JobKey> key);

  [[nodiscard]] Status open();
  // An event of one of its tokens.
  void handle(uint64_t token, Deadline now, const Decisions& decisions);
  // Drops handshakes that take too long; accepts again after running out of descriptors.
  void expire(Deadline now);
  [[nodiscard]] Deadline next_deadline() const;
  // From now on whoever waits at the listeners is let in to be told why not, with the descriptor
  // that was kept for this.
  void begin_turning_away();
  // Lets in who waits at the listeners. True: somebody is there.
  [[nodiscard]] bool accept_waiting(Deadline now);
  // Closes listeners and pending connections.
  void close();
  // The last few refusals, for the message about missing ranks.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  // Not ok: nobody can be let in any more, and why.
  [[nodiscard]] const Status& stuck() const { return stuck_; }

 private:
  struct Pending {
    Fd fd;
    SocketAddress peer;
    std::unique_ptr<Handshake> handshake;
    wire::RankClaim who;
    Deadline deadline;
    Status address;  // not ok: without a key this address is not admitted, only told so
    bool refused = false;
  };
  enum class Progress : uint8_t { kWaits, kEnters, kEnds };

  [[nodiscard]] Result<bool> accept_all(int listener, Deadline now);
  void accept_failed(const Status& why, Deadline now);
  void add(Accepted accepted, Deadline now);
  [[nodiscard]] Progress advance(Pending& pending, const Decisions& decisions);
  [[nodiscard]] Progress read(Pending& pending, const Decisions& decisions);
  [[nodiscard]] bool write(Pending& pending);
  void decide(Pending& pending, const Decisions& decisions);
  void note_refused(const Pending& pending, const Status& why, const Decisions& decisions);
  void remark(const Pending& pending, std::string_view what);
  void remark(std::string text);

  int epoll_;
  std::vector<Fd> listeners_;
  std::shared_ptr<const JobKey> key_;
  Fd spare_;                             // given back when this process has no descriptors left
  std::map<uint64_t, Pending> pending_;  // ascending token: oldest first
  uint64_t next_token_;
  Deadline accept_again_ = Deadline::max();
  Deadline stuck_due_ = Deadline::max();  // while nobody can be let in
  Status stuck_;
  LogQuota stuck_said_;
  std::vector<std::string> remarks_;
  LogQuota said_;
};

}  // namespace ho
