// What one rank tells others through the coordinator: that it leaves a communicator, and in which
// call it waits. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/index.hpp"
#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/failure/communicator_failures.hpp"
#include "bootstrap/messages/messages.hpp"
#include "os/clock.hpp"

namespace ho {

class PassedOn {
 public:
  // Both outlive this.
  PassedOn(PeerConnections& peers, CommunicatorFailures& failures)
      : peers_(peers), failures_(failures) {}

  // Ranks mostly leave all at once, and whoever has left needs no news of the others: so these
  // messages are only kept here, and sent a moment later to those who are still there.
  void leave(LeaveNotice leave_notice, Deadline now);
  void send_leave_notices(Deadline now);
  [[nodiscard]] Deadline next_deadline() const { return due_; }
  // A question that another rank has asked says nothing new; only its first rank may repeat it.
  void ask(const CallQuestion& question);

 private:
  void spread(LeaveNotice leave_notice);

  PeerConnections& peers_;
  CommunicatorFailures& failures_;
  std::vector<LeaveNotice> leave_notices_;
  Deadline due_ = Deadline::max();
  // Who was first to ask: communicator, channel and call. Where all wait for one rank, all ask.
  std::map<std::tuple<uint64_t, uint8_t, std::vector<std::byte>>, GlobalRank> first_to_ask_;
};

}  // namespace ho
