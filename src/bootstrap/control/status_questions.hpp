// What `horing status` asks the ranks of other hosts, at the coordinator: a question goes on to all
// of them, and each report to who asked. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/messages/messages.hpp"

namespace ho {

class StatusQuestions {
 public:
  // More than that is not kept for a rank that asks and does not read.
  static constexpr size_t kMaxUnread = size_t{16} << 20U;
  // What questions that wait for a rank take, one for each rank that asks; the oldest makes room.
  static constexpr size_t kMaxOpenBytes = size_t{4} << 20U;

  // It outlives this.
  explicit StatusQuestions(PeerConnections& peers)
      : peers_(peers), requested_(peers.world_size(), false) {}

  // What do all others do? `number`: as the rank calls its question, which takes the place of the
  // one that it has asked before.
  void ask(uint32_t asking, uint64_t number);
  // A rank's answer.
  void report(uint32_t rank, StatusReport report);
  // It has no connection any more.
  void gone(uint32_t rank);

 private:
  struct Question {
    uint32_t asking = 0;
    uint64_t number = 0;
    std::vector<bool> awaits = {};  // by rank
    size_t awaited = 0;             // how many
  };
  void answer(const StatusReport& report);
  [[nodiscard]] size_t question_bytes() const {
    return sizeof(Question) + (peers_.world_size() + 7) / 8;
  }
  void pass_on(const Question& question, const ControlConnection::Body& body);

  PeerConnections& peers_;
  // Ranks that have been asked and have not answered, one that is stopped say: they are not asked
  // again, and their next answer is for all that wait.
  std::vector<bool> requested_;
  std::map<uint64_t, Question> open_;  // oldest first
  uint64_t next_ = 0;
};

}  // namespace ho
