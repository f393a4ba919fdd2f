// The all-gathers under way: a table of them, and the answers to who waits in them. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/control/gather_table.hpp"
#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/messages/wire.hpp"
#include "os/clock.hpp"

namespace ho {

class Gathers {
 public:
  // `peers` outlives this.
  Gathers(PeerConnections& peers, uint32_t world_size) : peers_(peers), table_(world_size) {}

  [[nodiscard]] Deadline next_deadline() const { return table_.next_deadline(); }
  void add(const GatherTable::Waiter& from, wire::Contribution contribution, Deadline now);
  // Answers those in which all have contributed.
  void answer_complete();
  // Ends those whose deadline has passed.
  void expire(Deadline now) { answer(table_.expire(now)); }
  // Who has gone has not heard the answer to its last gather.
  void end_of(uint32_t rank, const Status& why);

 private:
  void answer(const std::vector<GatherTable::Outcome>& outcomes);

  PeerConnections& peers_;
  GatherTable table_;
  // To be answered when all is read that has come. Where this process was stopped, members that
  // have given up meanwhile lie behind their contributions: nobody may hear yes then.
  std::vector<GatherTable::Outcome> complete_;
};

}  // namespace ho
