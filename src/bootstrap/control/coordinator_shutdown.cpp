// How the coordinator leaves. What a rank has reported by then must still reach the others: nobody
// else could tell them, and they would wait until their deadlines. So it announces the shutdown,
// hears everybody out (a rank that knows of the shutdown answers with a goodbye and reports nothing
// from then on), decides at once what was reported, and only then closes. A rank that does not
// answer is waited for only so long.
#include <sys/eventfd.h>

#include <algorithm>

#include "bootstrap/control/coordinator.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kHearTime{1000};
constexpr std::chrono::milliseconds kCloseTime{200};

}  // namespace

bool Coordinator::all_heard_shutdown() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.channel == nullptr || peer.shutdown_heard;
  });
}

void Coordinator::turn_of_shutdown(Deadline end) {
  if (turn(std::min(end, gathers_.next_deadline()))) {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
  }
  answer(gathers_.expire(Clock::now()));
}

void Coordinator::send_shutdown() {
  shutdown_ = true;
  send_leave_notices(Deadline::max());
  send_to_all(wire::Type::kShutdown, nullptr);
  const Deadline heard = deadline_after(kHearTime);
  while (!passed(heard) &&
         (!all_heard_shutdown() || (failures_ && failures_->waits_for_answers()))) {
    turn_of_shutdown(heard);
  }
  if (failures_) {
    send_decisions(failures_->decide_now());
  }
  send_leave_notices(Deadline::max());
  closing_ = true;
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (peers_[rank].channel != nullptr) {
      flush(rank);
    }
  }
  // Closing with unread input would reset the connection and could take the last words with it:
  // wait until the others have closed too, a stopped one excepted.
  const Deadline closed = deadline_after(kCloseTime);
  while (present_count_ > 0 && !passed(closed)) {
    turn_of_shutdown(closed);
  }
}

}  // namespace ho
