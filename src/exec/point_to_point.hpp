// All sends and receives of a communicator on this rank. Pure but for the links that it is given.
//
// Order. Messages between two ranks are numbered and arrive in that order; a receive takes the
// first message of its peer with its tag, and of two receives that could take a message the one
// that was posted first does. A message without a receive is held (MessagePeer says how much), so
// it blocks none behind it.
//
// Any source. A peer gives at most one message to such receives in a pass over the peers, and each
// pass begins behind the peer that was served last. So of peers that always have messages each gets
// every n-th receive. Nothing is opened for such a receive: over a network the sender opens the
// link (transport.hpp), and callers() names peers that have done so. A rank of thousands therefore
// has links to those only that it sent to or that sent to it.
//
// A peer that is lost fails only what needs it. A rank that left completes what it had begun; what
// can no longer come ends with its leave notice. A receive from any rank ends so when all other
// ranks have left.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/leave_notices.hpp"
#include "exec/message_peer.hpp"
#include "exec/posted_receives.hpp"

namespace ho {

class PointToPoint {
 public:
  struct Options {
    GlobalRank self;
    uint32_t world_size = 1;
    uint16_t communicator = 0;
    bool has_network = false;
    // The link for this rank's messages to a peer (mine), or for the peer's.
    std::function<Result<Link*>(GlobalRank peer, bool mine)> link;
    // Peers that have begun to send and that link() was not asked for.
    std::function<std::vector<GlobalRank>()> callers;
  };
  explicit PointToPoint(Options options) : options_(std::move(options)) {}

  [[nodiscard]] Status submit(std::shared_ptr<Transfer> transfer);
  // idle: the driver has nothing else to do, so it is worth looking for new callers.
  [[nodiscard]] std::optional<RunError> make_progress(const LeaveNotices& notices,
                                                      bool idle,
                                                      bool* moved);
  // Ends what a rank that has left leaves undone. *lent: a link had been given memory of one.
  void end_of_left(const LeaveNotices& notices, bool* lent);
  // Nothing more will be posted: ends what waits for this rank itself, and receives whose deadline
  // has passed before a message came.
  void end_in_vain(Deadline now);
  // Since the last call.
  [[nodiscard]] std::vector<std::shared_ptr<Transfer>> take_ended();

  [[nodiscard]] bool active() const { return !active_.empty(); }
  [[nodiscard]] const std::map<uint64_t, std::shared_ptr<Transfer>>& transfers() const {
    return active_;
  }
  [[nodiscard]] RunWait wait_state() const;
  // "recv from rank 3 tag 7 (12 float)", at most three of them.
  [[nodiscard]] std::string waiting_text() const;
  [[nodiscard]] std::vector<PairProgress> pairs() const;
  [[nodiscard]] uint32_t submitted() const { return static_cast<uint32_t>(submitted_); }
  [[nodiscard]] uint32_t completed() const { return static_cast<uint32_t>(completed_); }
  [[nodiscard]] uint64_t largest_bytes() const;
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  [[nodiscard]] Result<MessagePeer*> peer(GlobalRank rank);
  [[nodiscard]] std::optional<RunError> step_peers(bool* moved);
  [[nodiscard]] std::optional<RunError> lost_peer() const;
  [[nodiscard]] std::optional<Status> peer_left(const Transfer& transfer,
                                                const LeaveNotices& notices) const;
  [[nodiscard]] std::optional<Status> all_left(const LeaveNotices& notices, int32_t tag) const;
  // Whether nothing for a receive with this tag is here or can come.
  [[nodiscard]] bool dry(const PeerLeaveNotice& notice, int32_t tag) const;
  void retire(const std::vector<Transfer*>& ended);

  Options options_;
  PostedReceives receives_;
  std::map<GlobalRank, std::unique_ptr<MessagePeer>> peers_;
  GlobalRank served_last_;
  std::map<uint64_t, std::shared_ptr<Transfer>> active_;  // by order
  std::vector<std::shared_ptr<Transfer>> ended_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace ho
