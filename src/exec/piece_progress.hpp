// Which pieces of an operation are through, and so which may move: a piece of an op waits for those
// of the ops that it depends on, in a later pass for those that read its scratch in the pass
// before, and with phase barriers for the whole phase before. Pure: told what is through.
//
// The pieces of an op are through in their order, so that one number per op says all.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/binding.hpp"
#include "exec/schedule.hpp"

namespace ho {

class PieceProgress {
 public:
  // Both outlive it.
  PieceProgress(const Schedule& schedule, const Binding& binding);
  PieceProgress(const PieceProgress&) = delete;
  PieceProgress& operator=(const PieceProgress&) = delete;
  ~PieceProgress() = default;

  [[nodiscard]] bool ready(uint32_t op_index, uint32_t piece) const;
  // The op's next piece is through.
  void add(uint32_t op_index) {
    const uint32_t piece = through_[op_index]++;
    ++done_;
    if (!barrier_left_.empty()) {
      --barrier_left_[phase_of(op_index, piece)];
      pass_barriers();
    }
  }
  [[nodiscard]] uint64_t done() const { return done_; }
  [[nodiscard]] uint64_t total() const { return total_; }

  // What a piece waits for that is not ready, over all that it depends on.
  struct Blockers {
    uint32_t intra_messages = 0;
    bool network = false;
    bool releases = false;
    std::vector<uint32_t> ops;  // none: a phase barrier alone
  };
  [[nodiscard]] Blockers blockers_of(uint32_t op_index, uint32_t piece) const;

 private:
  [[nodiscard]] bool satisfied(uint32_t dep, uint32_t piece) const { return through_[dep] > piece; }
  [[nodiscard]] size_t phase_of(uint32_t op_index, uint32_t piece) const {
    return size_t{piece / binding_.pass_pieces()} * schedule_.phase_count +
           schedule_.op(op_index).phase;
  }
  void pass_barriers() {
    while (barrier_now_ < barrier_left_.size() && barrier_left_[barrier_now_] == 0) {
      ++barrier_now_;
    }
  }
  void collect_blockers(uint32_t op_index, uint32_t piece, Blockers& found) const;

  const Schedule& schedule_;
  const Binding& binding_;
  std::vector<uint32_t> through_;  // by op: pieces
  // With phase barriers: pieces left per (pass, phase), and the first of them that has any.
  std::vector<uint64_t> barrier_left_;
  size_t barrier_now_ = 0;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace ho
