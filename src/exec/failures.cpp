#include "exec/failures.hpp"

#include <utility>

namespace ho {

void Failures::fail(const Status& why) {
  if (!cause_) {
    cause_ = why;
  }
  driver_.change();
}

void Failures::peer_left(PeerLeaveNotice leave_notice) {
  leave_notices_.add(std::move(leave_notice));
  leave_notices_new_ = true;
  driver_.change();
}

void Failures::no_more_leave_notices() {
  leave_notices_over_ = true;
  driver_.change();
}

void Failures::await_cause(Driver::Lock& lock, std::chrono::milliseconds timeout) {
  const Deadline deadline = deadline_after(timeout);
  while (!cause_ && driver_.await_change(lock, deadline)) {
  }
}

// Waits for the leave notice, or for a decision that makes it needless. If neither arrives, the
// peer has not left: its connection is broken.
bool Failures::explained_by_leave_notice(Driver::Lock& lock,
                                         const RunError& error,
                                         const std::function<bool()>& end_of_left) {
  const StatusCode code = error.status.code();
  if (!error.peer || (code != StatusCode::kPeerLost && code != StatusCode::kConnection)) {
    return false;
  }
  const Deadline timeout = deadline_after(timeouts_.leave_notice);
  while (!cause_ && !end_of_left()) {
    if (leave_notices_over_) {
      return false;
    }
    if (!driver_.await_change(lock, timeout)) {
      return end_of_left();
    }
  }
  return !cause_;
}

// The first error of this rank is reported to all ranks. Without an answer it stands.
bool Failures::decide(Driver::Lock& lock, const RunError& error, const UnderWay& operations) {
  if (explained_by_leave_notice(lock, error, operations.end_of_left)) {
    return false;
  }
  if (error.other_call) {
    // The rank whose call differs then reports what differs, and that is the decision. A rank whose
    // part was over has gone on, so the call that differs may be an earlier one.
    ask(lock, operations.calls());
    await_cause(lock, timeouts_.comparison);
  }
  if (!reported_ && !cause_) {
    reported_ = true;
    lock.unlock();
    owner_.on_failure(error);
    lock.lock();
  }
  await_cause(lock, timeouts_.decision);
  if (!cause_) {
    cause_ = error.status;
  }
  return true;
}

void Failures::ask(Driver::Lock& lock, const std::vector<MadeCall>& calls) {
  lock.unlock();
  for (const MadeCall& call : calls) {
    owner_.on_doubt(call);
  }
  lock.lock();
}

}  // namespace ho
