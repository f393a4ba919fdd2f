// Which ranks have left the communicator, and which operations cannot complete without them. Pure.
//
// A rank that leaves says how many operations it has entered in each channel. It ends once they are
// complete, so up to that number whoever is slower can still complete them; from the next one on
// nobody can.
// Messages point to point count per peer and direction.
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

// Messages begun with one peer, point to point.
struct PairProgress {
  GlobalRank peer;
  uint32_t sent = 0;
  uint32_t received = 0;
};

// A rank that left, seen from this one.
struct PeerLeaveNotice {
  GlobalRank rank;
  std::string process;  // who that is in the job: "rank 5 (node1, pid 123)"
  std::array<ChannelProgress, kChannelCount> channels;
  uint32_t sent_here = 0;
  uint32_t received_here = 0;
};

// Where an operation of this rank stands in the order that both ends count.
struct OperationPlace {
  uint8_t channel = 0;
  uint32_t number = 0;  // from 1
  bool point_to_point = false;
  bool sends = false;  // point to point only, like the peer
  GlobalRank peer;
};

class LeaveNotices {
 public:
  void add(PeerLeaveNotice leave_notice) { leave_notices_.push_back(std::move(leave_notice)); }
  [[nodiscard]] bool none() const { return leave_notices_.empty(); }
  // Why the operation cannot complete: the first leave notice that it cannot do without.
  [[nodiscard]] std::optional<Status> against(const OperationPlace& place) const;
  // The first leave notice, for what needs all ranks and is not numbered.
  [[nodiscard]] Status any() const;

 private:
  std::vector<PeerLeaveNotice> leave_notices_;  // in the order they came
};

}  // namespace ho
