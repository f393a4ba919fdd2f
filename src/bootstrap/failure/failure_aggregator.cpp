// A failure on one rank makes failures on all others: a killed process resets connections, a
// mismatch lets the others wait until their deadlines. What is reported first is not what happened
// first, because reports travel on different connections. So reports are collected for a moment and
// ordered by how much they can be the cause of the others: a rank that vanished, then ranks that
// disagree, then broken connections, then mere waiting; within a class the earliest.
//
// A rank that told what went wrong before it vanished is not the cause by vanishing: its report is.
#include "bootstrap/failure/failure_aggregator.hpp"

#include <algorithm>

namespace ho {

FailureAggregator::FailureAggregator(std::shared_ptr<const std::vector<std::string>> rank_names)
    : names_(std::move(rank_names)),
      presence_(names_->size(), Presence::kHere),
      answers_(names_->size()) {
  for (size_t rank = 0; rank < answers_.size(); ++rank) {
    answers_[rank].rank = static_cast<uint32_t>(rank);
  }
}

FailureAggregator::Class FailureAggregator::class_of(StatusCode code) {
  switch (code) {
    case StatusCode::kTimeout:
      return Class::kStall;
    case StatusCode::kMismatch:
    case StatusCode::kInvalidArgument:
      return Class::kMismatch;
    default:
      return Class::kBroken;
  }
}

const FailureReport* FailureAggregator::cause_reported_by(uint32_t rank) const {
  const auto own_report = std::ranges::find_if(reports_, [rank](const FailureReport& report) {
    return report.reporter.value() == rank && class_of(report.code) != Class::kStall;
  });
  return own_report == reports_.end() ? nullptr : &*own_report;
}

const FailureReport* FailureAggregator::deciding_abort() const {
  const FailureReport* first = gone_.empty() ? first_of_best_class() : nullptr;
  return first != nullptr && first->code == StatusCode::kAborted ? first : nullptr;
}

bool FailureAggregator::ends_splits() const {
  return gone_.empty() || std::ranges::any_of(reports_, [](const FailureReport& report) {
           return report.code == StatusCode::kAborted;
         });
}

void FailureAggregator::report(const FailureReport& report, Deadline now) {
  // Bounded: later reports of a rank are consequences of its first ones.
  const auto of_same_rank = std::ranges::count_if(
      reports_, [&](const FailureReport& other) { return other.reporter == report.reporter; });
  if (report.reporter.at() >= names_->size() || of_same_rank >= 4) {
    return;
  }
  reports_.push_back(report);
  began_ = began_.value_or(now);
  if (class_of(report.code) == Class::kStall && !query_taken_) {
    query_wanted_ = true;
  }
}

void FailureAggregator::rank_gone(uint32_t rank,
                                  Deadline now,
                                  const std::optional<Status>& earlier) {
  if (presence_[rank] != Presence::kHere) {
    return;
  }
  presence_[rank] = Presence::kGone;
  if (cause_reported_by(rank) == nullptr) {
    earlier_ = gone_.empty() ? earlier : earlier_;
    gone_.push_back(rank);
    began_ = began_.value_or(now);
  }
}

void FailureAggregator::rank_left(uint32_t rank) {
  if (presence_[rank] == Presence::kHere) {
    presence_[rank] = Presence::kLeft;
  }
}

void FailureAggregator::answer(uint32_t rank, std::vector<RankState> states) {
  answers_[rank].answered = true;
  answers_[rank].states = std::move(states);
}

bool FailureAggregator::take_query() {
  if (!query_wanted_ || query_taken_ || decided_) {
    return false;
  }
  query_taken_ = true;
  return true;
}

const FailureReport* FailureAggregator::first_of_best_class() const {
  const auto best =
      std::ranges::min_element(reports_, [](const FailureReport& a, const FailureReport& b) {
        return class_of(a.code) < class_of(b.code);
      });
  return best == reports_.end() ? nullptr : &*best;
}

bool FailureAggregator::all_answered() const {
  for (size_t rank = 0; rank < names_->size(); ++rank) {
    if (presence_[rank] == Presence::kHere && !answers_[rank].answered) {
      return false;
    }
  }
  return true;
}

bool FailureAggregator::waits_for_answers() const {
  const FailureReport* best = first_of_best_class();
  const bool stall = gone_.empty() && best != nullptr && class_of(best->code) == Class::kStall;
  return stall && !decided_ && !all_answered();
}

std::optional<Deadline> FailureAggregator::due() const {
  if (!began_.has_value() || decided_) {
    return std::nullopt;
  }
  return *began_ + (waits_for_answers() ? kAnswers : kCollect);
}

Deadline FailureAggregator::next_deadline() const {
  return due().value_or(Deadline::max());
}

std::vector<RankAnswer> FailureAggregator::answers_of_present() const {
  std::vector<RankAnswer> present;
  for (const RankAnswer& answer : answers_) {
    if (presence_[answer.rank] == Presence::kHere) {
      present.push_back(answer);
    }
  }
  return present;
}

FailureDecision FailureAggregator::gone_decision() const {
  std::string text;
  constexpr size_t kMaxNames = 8;
  for (size_t i = 0; i < std::min(gone_.size(), kMaxNames); ++i) {
    text += (i == 0 ? "" : ", ") + names_->at(gone_[i]);
  }
  if (gone_.size() > kMaxNames) {
    text += " and " + std::to_string(gone_.size() - kMaxNames) + " more ranks";
  }
  text += gone_.size() == 1 ? " is gone: its control connection"
                            : " are gone: their control connections";
  text += " closed without a goodbye";
  if (earlier_.has_value()) {
    return {Status(earlier_->code(), earlier_->message() + "; then " + text)};
  }
  text += " (killed, crashed, or the host is down); see the output of that rank";
  if (const FailureReport* first = first_of_best_class()) {
    text += "; " + names_->at(first->reporter.at()) + " noticed it as: " + first->text;
  }
  return {Status(StatusCode::kPeerLost, std::move(text))};
}

FailureDecision FailureAggregator::stall_decision(const FailureReport& first) const {
  const std::vector<RankAnswer> answers = answers_of_present();
  const std::string reported =
      "; first reported by " + names_->at(first.reporter.at()) + ": " + first.text;
  if (const auto different = different_calls_text(answers, first)) {
    return {Status(StatusCode::kMismatch, *different + reported)};
  }
  if (auto circle = find_circle(answers, first)) {
    return {.cause = Status(StatusCode::kMismatch, circle->text + reported),
            .also = std::move(circle->communicators)};
  }
  return {Status(StatusCode::kTimeout, stall_text(answers, *names_, first) + reported)};
}

std::optional<FailureDecision> FailureAggregator::decide(Deadline now) {
  const std::optional<Deadline> when = due();
  return when.has_value() && now >= *when ? decide_now() : std::nullopt;
}

std::optional<FailureDecision> FailureAggregator::decide_now() {
  if (!began_.has_value() || decided_) {
    return std::nullopt;
  }
  decided_ = true;
  if (!gone_.empty()) {
    return gone_decision();
  }
  const FailureReport& first = *first_of_best_class();
  if (class_of(first.code) == Class::kStall) {
    return stall_decision(first);
  }
  return FailureDecision{Status(
      first.code, first.text + " (first reported by " + names_->at(first.reporter.at()) + ")")};
}

}  // namespace ho
