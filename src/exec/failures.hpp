// Why operations end that cannot complete: the failure that has ended everything, the job's or this
// rank's own, and the ranks that have left.
//
// An error of this rank goes to the owner, once, which reports it to the job; what comes back is
// the job's first cause, which may be another rank's error (engine_owner.hpp has the whole path).
// What a rank's leave notice explains is not reported.
//
// Guarded by the driver's mutex. decide() and ask() are called by the driver and let go of the
// lock; fail(), peer_left() and no_more_leave_notices() come meanwhile from the owner's threads.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "exec/driver.hpp"
#include "exec/engine_owner.hpp"
#include "exec/leave_notices.hpp"

namespace ho {

class Failures {
 public:
  static constexpr std::chrono::milliseconds kDecisionTimeout{6000};
  // A message of another call may be of a later one than that in which its sender differs. So the
  // ranks are asked, and the failure is reported if none has answered by then.
  static constexpr std::chrono::milliseconds kComparisonTimeout{3000};
  // A broken connection may mean that the peer has left. Its leave notice arrives on another path,
  // so an operation waits that long for it before its failure is reported.
  static constexpr std::chrono::milliseconds kLeaveNoticeTimeout{3000};

  struct Timeouts {
    std::chrono::milliseconds decision = kDecisionTimeout;
    std::chrono::milliseconds comparison = kComparisonTimeout;
    std::chrono::milliseconds leave_notice = kLeaveNoticeTimeout;
  };

  // Both outlive it.
  Failures(EngineOwner& owner, Driver& driver, Timeouts timeouts)
      : owner_(owner), driver_(driver), timeouts_(timeouts) {}
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;
  ~Failures() = default;

  // Why everything has ended; nothing while it has not.
  [[nodiscard]] const std::optional<Status>& cause() const { return cause_; }
  // The first call decides.
  void fail(const Status& why);
  void peer_left(PeerLeaveNotice leave_notice);
  // Nobody passes leave notices on any more.
  void no_more_leave_notices();
  [[nodiscard]] const LeaveNotices& leave_notices() const { return leave_notices_; }
  // Whether some came since end_of_left() began last.
  [[nodiscard]] bool leave_notices_new() const { return leave_notices_new_; }
  void took_leave_notices() { leave_notices_new_ = false; }

  // The operations under way, as far as an error concerns them.
  struct UnderWay {
    // Ends those that need a rank that has left. true: there were some.
    std::function<bool()> end_of_left;
    // What the other ranks should compare with their calls.
    std::function<std::vector<MadeCall>()> calls;
  };
  // Of an error of this rank. true: everything has ended, and cause() says why. false: a rank has
  // left, and what needed it has ended alone.
  [[nodiscard]] bool decide(Driver::Lock& lock, const RunError& error, const UnderWay& operations);
  // The other ranks, whether their calls are the same.
  void ask(Driver::Lock& lock, const std::vector<MadeCall>& calls);

 private:
  [[nodiscard]] bool explained_by_leave_notice(Driver::Lock& lock,
                                               const RunError& error,
                                               const std::function<bool()>& end_of_left);
  void await_cause(Driver::Lock& lock, std::chrono::milliseconds timeout);

  EngineOwner& owner_;
  Driver& driver_;
  const Timeouts timeouts_;
  bool reported_ = false;
  std::optional<Status> cause_;
  LeaveNotices leave_notices_;
  bool leave_notices_new_ = false;
  bool leave_notices_over_ = false;
};

}  // namespace ho
