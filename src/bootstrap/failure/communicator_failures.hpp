// Which communicators there are, which ranks are in them, and which of them have failed and why.
// Pure: told what happened and what time it is.
//
// A failure that a rank reports ends its communicator and all that were split from it. A rank that
// is gone ends those that it is in, no others. So that the first cause stays the first, whatever
// follows from a failure takes its cause: an abort of a communicator above one that has failed on
// the rank that calls it, and a rank that is gone after it was told of a failure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/failure/failure_aggregator.hpp"
#include "bootstrap/messages/messages.hpp"
#include "os/clock.hpp"

namespace ho {

class CommunicatorFailures {
 public:
  // What is to be told to which ranks, in this order: a rank that has heard of a failure has heard
  // of what it ends below.
  struct Decision {
    uint64_t communicator = kWholeJob;
    std::vector<uint32_t> ranks;
    Status cause;
  };

  // rank_names[r] = "rank 5 (node1, pid 123)". All ranks are in the job, kWholeJob.
  explicit CommunicatorFailures(std::vector<std::string> rank_names);

  // The cause, where the communicator has failed before the rank came. An error: nothing like that
  // can be.
  [[nodiscard]] Result<std::optional<Decision>> join(uint32_t rank, const Membership& membership);
  // True once for each member: it says that it leaves.
  [[nodiscard]] bool leaves(uint32_t rank, uint64_t communicator);
  void release(uint32_t rank, uint64_t communicator);
  // Of a communicator that the reporter is in; others are left out.
  void report(const FailureReport& report, Deadline now);
  // Its control connection closed without a goodbye, or, `why` is not ok, for that reason.
  void rank_gone(uint32_t rank, const Status& why, Deadline now);
  // It said goodbye.
  void rank_left(uint32_t rank);
  void answer(uint32_t rank, uint64_t communicator, const std::vector<RankState>& states);
  // Communicators on whose account all ranks that are here must now be asked for their states.
  [[nodiscard]] std::vector<uint64_t> take_queries();
  // What is due.
  [[nodiscard]] std::vector<Decision> decide(Deadline now);
  // All that is open, due or not: nothing more will come.
  [[nodiscard]] std::vector<Decision> decide_now();
  // A decision on the communicator is out or will be.
  [[nodiscard]] bool has_cause(uint64_t communicator) const;
  [[nodiscard]] bool knows(uint64_t communicator) const;
  // That have joined and not left; none of one that is not known.
  [[nodiscard]] std::vector<uint32_t> members(uint64_t communicator) const;
  // Of a communicator that is known: it is not, or no longer, in it. The job itself has all ranks.
  [[nodiscard]] bool is_outside(uint32_t rank, uint64_t communicator) const;
  // Something is being decided.
  [[nodiscard]] bool deciding() const;
  [[nodiscard]] bool waits_for_answers() const;
  [[nodiscard]] Deadline next_deadline() const;

 private:
  struct Communicator {
    uint64_t parent = kWholeJob;
    uint32_t member_count = 0;
    std::set<uint32_t> members;  // that have joined and not left
    std::set<uint32_t> leaving;  // of them, and those that have left
    uint32_t left_count = 0;
    std::optional<Status> cause;  // once decided
    bool ends_splits = false;     // and whether what is split from it ends, also later
    uint64_t decided = 0;         // its place among all decisions
    std::unique_ptr<FailureAggregator> aggregator;  // while it is being decided
  };
  using Table = std::map<uint64_t, Communicator>;
  enum class Presence : uint8_t { kHere, kJoined, kNotHere };

  [[nodiscard]] FailureAggregator& aggregator_of(Communicator& communicator);
  void take_out(uint32_t rank, uint64_t number);
  void erase(uint64_t number);
  [[nodiscard]] bool is_below(uint64_t number, uint64_t ancestor) const;
  [[nodiscard]] uint32_t depth_of(uint64_t number) const;
  [[nodiscard]] std::vector<uint32_t> ranks_of(uint64_t number) const;
  // The first failure that the rank was told of, or told itself, in what lies below `ancestor`.
  [[nodiscard]] std::optional<Status> earlier_cause(uint32_t rank, uint64_t ancestor) const;
  [[nodiscard]] bool waits_for_below(uint64_t number) const;
  void settle(uint64_t number,
              const Status& cause,
              bool splits_too,
              std::vector<Decision>& decisions);
  void decide_one(uint64_t number, std::vector<Decision>& decisions);
  [[nodiscard]] std::vector<Decision> take_late_aborts();
  [[nodiscard]] std::vector<Decision> decide_those(
      const std::function<bool(uint64_t, const FailureAggregator&)>& is_due);

  std::shared_ptr<const std::vector<std::string>> names_;
  std::vector<Presence> presence_;
  Table communicators_;
  std::set<uint64_t> late_aborts_;  // of what had ended without its splits
  uint64_t decisions_ = 0;
};

}  // namespace ho
