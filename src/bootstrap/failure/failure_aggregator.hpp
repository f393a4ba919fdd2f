// From many ranks' troubles to one outcome. Pure: told what happened and what time it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/messages/messages.hpp"
#include "os/clock.hpp"

namespace ho {

// What one rank answered when asked where it is.
struct RankAnswer {
  uint32_t rank = 0;
  bool answered = false;
  std::vector<RankState> states;
};

// One sentence from all answers: who has not entered the operation, who does not answer, and where
// the others wait. `first` is the report that started it and chooses the operation.
[[nodiscard]] std::string stall_text(std::span<const RankAnswer> answers,
                                     std::span<const std::string> rank_names,
                                     const FailureReport& first);

// One sentence where ranks wait in different operations under one number, which no waiting ends.
[[nodiscard]] std::optional<std::string> different_calls_text(std::span<const RankAnswer> answers,
                                                              const FailureReport& first);

// Ranks that wait for each other in a circle, which no waiting ends.
struct Circle {
  std::string text;                     // which rank waits in what for whom
  std::vector<uint64_t> communicators;  // their communicator ids, as far as they are known
};
// Nothing where the waits that the report talks about lead to no circle, or to a rank that waits
// for nobody, which is the likelier cause then.
[[nodiscard]] std::optional<Circle> find_circle(std::span<const RankAnswer> answers,
                                                const FailureReport& first);

// Collects what is said about one communicator's failure for a short while after the first report,
// and then decides, once.
class FailureAggregator {
 public:
  static constexpr std::chrono::milliseconds kCollect{150};
  static constexpr std::chrono::milliseconds kAnswers{2000};

  // rank_names[r] = "rank 5 (node1, pid 123)"
  explicit FailureAggregator(std::shared_ptr<const std::vector<std::string>> rank_names);

  void report(const FailureReport& report, Deadline now);
  // Its control connection closed without a goodbye. `earlier`: a failure that it had been told of,
  // which is then the cause of its going.
  void rank_gone(uint32_t rank, Deadline now, const std::optional<Status>& earlier = {});
  // It said goodbye: nothing is asked of it any more.
  void rank_left(uint32_t rank);
  void answer(uint32_t rank, std::vector<RankState> states);
  // True once: all ranks that are here must now be asked for their states.
  [[nodiscard]] bool take_query();
  // The decision, once, as soon as it is due.
  [[nodiscard]] std::optional<FailureDecision> decide(Deadline now);
  // The same with what has come so far, due or not: nothing more will come.
  [[nodiscard]] std::optional<FailureDecision> decide_now();
  // When the first was said; nothing: nothing yet.
  [[nodiscard]] std::optional<Deadline> began() const { return began_; }
  // What the rank has said that can be a cause, and no mere consequence.
  [[nodiscard]] const FailureReport* cause_reported_by(uint32_t rank) const;
  // The first abort, if that is what the decision is about.
  [[nodiscard]] const FailureReport* deciding_abort() const;
  // Whether what was split from the communicator ends too: not where ranks are merely gone, which
  // concerns those that they are in.
  [[nodiscard]] bool ends_splits() const;
  // Nothing but a stall is reported, and not all have said where they are.
  [[nodiscard]] bool waits_for_answers() const;
  // When to call decide() next.
  [[nodiscard]] Deadline next_deadline() const;

 private:
  // In the order of precedence.
  enum class Class : uint8_t { kGone, kMismatch, kBroken, kStall };
  enum class Presence : uint8_t { kHere, kLeft, kGone };

  [[nodiscard]] static Class class_of(StatusCode code);
  [[nodiscard]] std::optional<Deadline> due() const;
  [[nodiscard]] const FailureReport* first_of_best_class() const;
  [[nodiscard]] FailureDecision gone_decision() const;
  [[nodiscard]] FailureDecision stall_decision(const FailureReport& first) const;
  [[nodiscard]] bool all_answered() const;
  [[nodiscard]] std::vector<RankAnswer> answers_of_present() const;

  std::shared_ptr<const std::vector<std::string>> names_;
  std::vector<Presence> presence_;
  std::vector<RankAnswer> answers_;     // by rank
  std::vector<FailureReport> reports_;  // in the order they came
  std::vector<uint32_t> gone_;          // in the order they went, without those that said why first
  std::optional<Status> earlier_;       // of the first of them
  std::optional<Deadline> began_;
  bool query_wanted_ = false;
  bool query_taken_ = false;
  bool decided_ = false;
};

}  // namespace ho
