// The sends and receives of a communicator on this rank as operations that threads wait for: joins
// PointToPoint, which matches messages, with the links that they take.
//
// Knows no thread: guarded by the engine's mutex, and moved by the driver.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/channel_state.hpp"
#include "exec/engine_owner.hpp"
#include "exec/leave_notices.hpp"
#include "exec/operation.hpp"
#include "exec/point_to_point.hpp"
#include "exec/recorder.hpp"
#include "transport/transport.hpp"

namespace ho {

// How messages reach a peer. The objects outlive them.
struct MessageContext {
  GlobalRank self;
  uint32_t world_size = 1;
  uint16_t communicator = 0;
  const EngineOwner* owner = nullptr;
  Transport* shm = nullptr;
  Transport* network = nullptr;  // null: no rank is on another host
  Recorder* recorder = nullptr;
};

class MessageOperations {
 public:
  explicit MessageOperations(const MessageContext& context);
  MessageOperations(const MessageOperations&) = delete;
  MessageOperations& operator=(const MessageOperations&) = delete;
  ~MessageOperations() = default;

  // Refused where everything has ended (`cause`), and a send to a rank that has left.
  [[nodiscard]] Result<std::shared_ptr<Operation>> submit(Transfer transfer,
                                                          bool background,
                                                          const std::optional<Status>& cause,
                                                          const LeaveNotices& notices);
  // idle: the driver has nothing else to do. true: something moved or ended.
  [[nodiscard]] bool step(const LeaveNotices& notices, bool idle, std::optional<RunError>& error);
  // Since the last call: an operation has ended, which some thread may wait for.
  [[nodiscard]] bool take_woken() { return std::exchange(woken_, false); }
  void end_all(const Status& cause);
  // Ends what a rank that has left leaves undone.
  [[nodiscard]] EndedByLeave end_of_left(const LeaveNotices& notices);
  // This rank leaves. true: some ended that nobody else needs.
  [[nodiscard]] bool end_in_vain(Deadline now);

  [[nodiscard]] bool active() const { return messages_.active(); }
  [[nodiscard]] bool any_background() const;
  [[nodiscard]] uint64_t largest_bytes() const { return messages_.largest_bytes(); }
  // What they wait for, and the earliest deadline of all.
  [[nodiscard]] RunWait waits(Deadline* earliest) const;
  // The error of one whose deadline has passed.
  [[nodiscard]] std::optional<RunError> late() const;

  // Nothing: there were none yet.
  [[nodiscard]] std::optional<ChannelState> state() const;
  [[nodiscard]] std::vector<PairProgress> pairs() const { return messages_.pairs(); }
  [[nodiscard]] uint64_t memory_bytes() const { return messages_.memory_bytes(); }

 private:
  [[nodiscard]] PointToPoint::Options options();
  [[nodiscard]] Result<Link*> link_to(GlobalRank peer, bool mine);
  [[nodiscard]] std::vector<GlobalRank> callers() const;
  void end_those_over();
  void end(const Transfer& transfer, const Status& status);

  const MessageContext context_;
  PointToPoint messages_;
  std::map<uint64_t, std::shared_ptr<Operation>> operations_;  // by Transfer::order
  bool woken_ = false;
};

}  // namespace ho
