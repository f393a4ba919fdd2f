// Which ranks have left the communicator, and which operations cannot complete without them. Pure.
//
// A leave notice has how many operations the rank has entered in each channel. It leaves once they
// are complete, so slower ranks can still complete operations up to that number, but none after it.
// Messages point to point count per peer and direction: those that the rank has sent, and those
// that have come to it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "transport/transport.hpp"

namespace ho {

struct ChannelProgress {
  uint32_t entered = 0;
  std::string last;  // operation: "all_reduce"; "" for none
};

// Messages with one peer, point to point: begun by this rank, and come to it.
struct PairProgress {
  GlobalRank peer;
  uint32_t sent = 0;
  uint32_t received = 0;
};

// A rank that left, seen from this one.
struct PeerLeaveNotice {
  GlobalRank rank;
  std::string name;     // what errors call it: "rank 1", "global rank 5"
  std::string process;  // who that is in the job: "rank 5 (node1, pid 123)"
  std::array<ChannelProgress, kChannelCount> channels;
  uint32_t sent_here = 0;
  uint32_t received_here = 0;
};

// Where an operation of this rank stands in the order that both ends count.
struct OperationPosition {
  uint8_t channel = 0;
  uint32_t number = 0;  // from 1
};

// What leave notices have ended.
struct EndedByLeave {
  bool any = false;
  // Of the first operation whose memory a transport may still use: why it ended.
  std::optional<Status> abandoned;
};

class LeaveNotices {
 public:
  void add(PeerLeaveNotice leave_notice) { leave_notices_.push_back(std::move(leave_notice)); }
  [[nodiscard]] bool none() const { return leave_notices_.empty(); }
  // Why the operation cannot complete: the first leave notice that it cannot do without.
  [[nodiscard]] std::optional<Status> against(const OperationPosition& position) const;
  // The notice of this rank, or nullptr.
  [[nodiscard]] const PeerLeaveNotice* of(GlobalRank rank) const;
  // Why no more messages pass between that rank and this one.
  [[nodiscard]] static Status no_messages(const PeerLeaveNotice& leave_notice);
  // The first leave notice, for what needs all ranks and is not numbered.
  [[nodiscard]] Status any() const;

 private:
  std::vector<PeerLeaveNotice> leave_notices_;  // in the order of arrival
};

}  // namespace ho
