// A communicator is in the table while a member of it may still want to hear of it: from the first
// that joins until all have left. One that ends while members have not joined yet stays, so that
// these hear the cause when they come, but no longer than the communicator it was split from.
#include "bootstrap/failure/communicator_failures.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bootstrap/messages/wire.hpp"

namespace ho {

CommunicatorFailures::CommunicatorFailures(std::vector<std::string> rank_names)
    : names_(std::make_shared<const std::vector<std::string>>(std::move(rank_names))),
      presence_(names_->size(), Presence::kHere) {
  communicators_[kWholeJob].member_count = static_cast<uint32_t>(names_->size());
}

Result<std::optional<CommunicatorFailures::Decision>> CommunicatorFailures::join(
    uint32_t rank, const Membership& membership) {
  // No job has more: their numbers have 16 bits. Some of the last ones may not be released yet.
  constexpr size_t kMaxCommunicators = size_t{1} << 18;
  const auto entry = communicators_.find(membership.communicator);
  if (entry == communicators_.end() && communicators_.size() >= kMaxCommunicators) {
    return Status(StatusCode::kProtocol, "a rank is in more communicators than there can be");
  }
  presence_[rank] = Presence::kJoined;
  const bool is_new = entry == communicators_.end();
  Communicator& communicator = communicators_[membership.communicator];
  if (is_new) {
    // Where the parent is not known any more, all ranks have left it.
    communicator.parent = knows(membership.parent) ? membership.parent : kWholeJob;
    communicator.member_count = membership.member_count;
    const Communicator& parent = communicators_.at(communicator.parent);
    if (parent.cause.has_value() && parent.ends_splits) {
      communicator.cause = parent.cause;
      communicator.ends_splits = true;
      communicator.decided = parent.decided;
    }
  }
  communicator.members.insert(rank);
  if (!communicator.cause.has_value()) {
    return std::optional<Decision>();
  }
  return std::optional<Decision>(Decision{membership.communicator, {rank}, *communicator.cause});
}

bool CommunicatorFailures::leaves(uint32_t rank, uint64_t communicator) {
  const auto entry = communicators_.find(communicator);
  return entry != communicators_.end() && entry->second.members.contains(rank) &&
         entry->second.leaving.insert(rank).second;
}

void CommunicatorFailures::release(uint32_t rank, uint64_t communicator) {
  if (communicator != kWholeJob) {
    take_out(rank, communicator);
  }
}

void CommunicatorFailures::take_out(uint32_t rank, uint64_t number) {
  const auto entry = communicators_.find(number);
  if (entry == communicators_.end() || entry->second.members.erase(rank) == 0) {
    return;
  }
  Communicator& communicator = entry->second;
  ++communicator.left_count;
  if (communicator.left_count >= communicator.member_count && communicator.aggregator == nullptr) {
    erase(number);
  }
}

void CommunicatorFailures::erase(uint64_t number) {
  const uint64_t parent = communicators_.at(number).parent;
  communicators_.erase(number);
  std::vector<uint64_t> empty;
  for (auto& [child, communicator] : communicators_) {
    if (child != kWholeJob && communicator.parent == number) {
      communicator.parent = parent;
      if (communicator.members.empty() && communicator.aggregator == nullptr) {
        empty.push_back(child);
      }
    }
  }
  for (const uint64_t child : empty) {
    erase(child);
  }
}

FailureAggregator& CommunicatorFailures::aggregator_of(Communicator& communicator) {
  if (communicator.aggregator == nullptr) {
    communicator.aggregator = std::make_unique<FailureAggregator>(names_);
    for (uint32_t rank = 0; rank < presence_.size(); ++rank) {
      if (presence_[rank] == Presence::kNotHere) {
        communicator.aggregator->rank_left(rank);
      }
    }
  }
  return *communicator.aggregator;
}

void CommunicatorFailures::report(const FailureReport& report, Deadline now) {
  const auto entry = communicators_.find(report.communicator);
  if (entry == communicators_.end()) {
    return;
  }
  const uint32_t rank = report.reporter.value();
  if (entry->second.cause.has_value()) {
    // A lost rank has ended it and left its splits alone: the abort ends these.
    if (report.code == StatusCode::kAborted && !entry->second.ends_splits &&
        entry->second.members.contains(rank)) {
      late_aborts_.insert(report.communicator);
    }
    return;
  }
  if (report.communicator == kWholeJob || entry->second.members.contains(rank)) {
    aggregator_of(entry->second).report(report, now);
  }
}

// Who is in no communicator and never was is needed by the job itself: it has not begun yet, or has
// none.
void CommunicatorFailures::rank_gone(uint32_t rank, const Status& why, Deadline now) {
  if (presence_[rank] == Presence::kNotHere) {
    return;
  }
  const bool joined = presence_[rank] == Presence::kJoined;
  std::vector<uint64_t> concerned;
  for (const auto& [number, communicator] : communicators_) {
    const bool in = number == kWholeJob ? !joined : communicator.members.contains(rank);
    if (in && !communicator.cause.has_value()) {
      concerned.push_back(number);
    }
  }
  const std::optional<Status> earlier = earlier_cause(rank, kWholeJob);
  for (const uint64_t number : concerned) {
    FailureAggregator& aggregator = aggregator_of(communicators_.at(number));
    if (!why.ok()) {
      aggregator.report({.code = why.code(),
                         .reporter = GlobalRank(rank),
                         .peer = {},
                         .text = why.message(),
                         .communicator = number},
                        now);
    }
    aggregator.rank_gone(rank, now, earlier);
  }
  rank_left(rank);
}

void CommunicatorFailures::rank_left(uint32_t rank) {
  presence_[rank] = Presence::kNotHere;
  std::vector<uint64_t> in;
  for (auto& [number, communicator] : communicators_) {
    if (communicator.aggregator != nullptr) {
      communicator.aggregator->rank_left(rank);  // nothing is asked of it any more
    }
    if (communicator.members.contains(rank)) {
      in.push_back(number);
    }
  }
  for (const uint64_t number : in) {
    take_out(rank, number);
  }
}

void CommunicatorFailures::answer(uint32_t rank,
                                  uint64_t communicator,
                                  const std::vector<RankState>& states) {
  const auto entry = communicators_.find(communicator);
  if (entry != communicators_.end() && entry->second.aggregator != nullptr) {
    entry->second.aggregator->answer(rank, states);
  }
}

std::vector<uint64_t> CommunicatorFailures::take_queries() {
  std::vector<uint64_t> queries;
  for (auto& [number, communicator] : communicators_) {
    if (communicator.aggregator != nullptr && communicator.aggregator->take_query()) {
      queries.push_back(number);
    }
  }
  return queries;
}

bool CommunicatorFailures::is_below(uint64_t number, uint64_t ancestor) const {
  while (number != kWholeJob) {
    number = communicators_.at(number).parent;
    if (number == ancestor) {
      return true;
    }
  }
  return false;
}

uint32_t CommunicatorFailures::depth_of(uint64_t number) const {
  uint32_t depth = 0;
  for (; number != kWholeJob; number = communicators_.at(number).parent) {
    ++depth;
  }
  return depth;
}

std::vector<uint32_t> CommunicatorFailures::ranks_of(uint64_t number) const {
  if (number != kWholeJob) {
    const auto& members = communicators_.at(number).members;
    return {members.begin(), members.end()};
  }
  std::vector<uint32_t> all(names_->size());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

std::vector<uint32_t> CommunicatorFailures::members(uint64_t communicator) const {
  return knows(communicator) ? ranks_of(communicator) : std::vector<uint32_t>();
}

std::optional<Status> CommunicatorFailures::earlier_cause(uint32_t rank, uint64_t ancestor) const {
  const Communicator* first = nullptr;
  for (const auto& [number, communicator] : communicators_) {
    if (!communicator.members.contains(rank) || !is_below(number, ancestor)) {
      continue;
    }
    if (communicator.cause.has_value() &&
        (first == nullptr || communicator.decided < first->decided)) {
      first = &communicator;
    }
  }
  if (first != nullptr) {
    return first->cause;
  }
  for (const auto& [number, communicator] : communicators_) {
    if (communicator.aggregator != nullptr && is_below(number, ancestor)) {
      if (const FailureReport* reported = communicator.aggregator->cause_reported_by(rank)) {
        return Status(reported->code, reported->text);
      }
    }
  }
  return std::nullopt;
}

// An abort may follow from a failure below that is still being looked into.
bool CommunicatorFailures::waits_for_below(uint64_t number) const {
  const Communicator& above = communicators_.at(number);
  if (above.aggregator->deciding_abort() == nullptr) {
    return false;
  }
  return std::ranges::any_of(communicators_, [&](const auto& each) {
    const FailureAggregator* aggregator = each.second.aggregator.get();
    return aggregator != nullptr && aggregator->began().has_value() &&
           aggregator->began() < above.aggregator->began() && is_below(each.first, number);
  });
}

void CommunicatorFailures::settle(uint64_t number,
                                  const Status& cause,
                                  bool splits_too,
                                  std::vector<Decision>& decisions) {
  ++decisions_;
  const auto before = static_cast<std::ptrdiff_t>(decisions.size());
  std::vector<uint64_t> left;
  for (auto& [each, communicator] : communicators_) {
    if (each != number && !(splits_too && is_below(each, number))) {
      continue;
    }
    if (communicator.cause.has_value()) {
      communicator.ends_splits = communicator.ends_splits || splits_too;
      continue;
    }
    communicator.cause = cause;
    communicator.ends_splits = splits_too;
    communicator.decided = decisions_;
    communicator.aggregator.reset();
    decisions.push_back({each, ranks_of(each), cause});
    if (each != kWholeJob && communicator.left_count >= communicator.member_count) {
      left.push_back(each);
    }
  }
  std::stable_sort(
      decisions.begin() + before, decisions.end(), [this](const Decision& a, const Decision& b) {
        return depth_of(a.communicator) > depth_of(b.communicator);
      });
  for (const uint64_t each : left) {
    if (knows(each)) {
      erase(each);
    }
  }
}

void CommunicatorFailures::decide_one(uint64_t number, std::vector<Decision>& decisions) {
  FailureAggregator& aggregator = *communicators_.at(number).aggregator;
  const FailureReport* abort = aggregator.deciding_abort();
  const auto earlier =
      abort == nullptr ? std::nullopt : earlier_cause(abort->reporter.value(), number);
  std::optional<FailureDecision> decision = aggregator.decide_now();
  if (!decision.has_value()) {
    return;
  }
  if (earlier.has_value()) {
    const std::string& text = decision->cause.message();
    const bool reported = text.find(earlier->message()) != std::string::npos;
    decision->cause =
        Status(earlier->code(), reported ? text : earlier->message() + "; then " + text);
  }
  settle(number, decision->cause, aggregator.ends_splits(), decisions);
  for (const uint64_t other : decision->also) {
    if (other != kWholeJob && knows(other) && !communicators_.at(other).cause.has_value()) {
      settle(other, decision->cause, true, decisions);
    }
  }
}

std::vector<CommunicatorFailures::Decision> CommunicatorFailures::take_late_aborts() {
  std::vector<Decision> decisions;
  for (const uint64_t number : std::exchange(late_aborts_, {})) {
    if (knows(number)) {
      const Status cause = *communicators_.at(number).cause;
      settle(number, cause, true, decisions);
    }
  }
  return decisions;
}

std::vector<CommunicatorFailures::Decision> CommunicatorFailures::decide_those(
    const std::function<bool(uint64_t, const FailureAggregator&)>& is_due) {
  std::vector<Decision> decisions = take_late_aborts();
  std::vector<std::pair<Deadline, uint64_t>> due;
  for (const auto& [number, communicator] : communicators_) {
    const FailureAggregator* aggregator = communicator.aggregator.get();
    if (aggregator != nullptr && aggregator->began().has_value() && is_due(number, *aggregator)) {
      due.emplace_back(*aggregator->began(), number);
    }
  }
  std::ranges::sort(due);
  for (const auto& [began, number] : due) {
    // Another decision may have ended it, or all of its ranks may have left.
    if (knows(number) && communicators_.at(number).aggregator != nullptr) {
      decide_one(number, decisions);
    }
  }
  return decisions;
}

std::vector<CommunicatorFailures::Decision> CommunicatorFailures::decide(Deadline now) {
  return decide_those([&](uint64_t number, const FailureAggregator& aggregator) {
    return aggregator.next_deadline() <= now && !waits_for_below(number);
  });
}

std::vector<CommunicatorFailures::Decision> CommunicatorFailures::decide_now() {
  return decide_those([](uint64_t, const FailureAggregator&) { return true; });
}

bool CommunicatorFailures::has_cause(uint64_t communicator) const {
  const auto entry = communicators_.find(communicator);
  if (entry != communicators_.end() && entry->second.cause.has_value()) {
    return true;
  }
  return std::ranges::any_of(communicators_, [&](const auto& each) {
    const FailureAggregator* aggregator = each.second.aggregator.get();
    if (aggregator == nullptr || !aggregator->began().has_value()) {
      return false;
    }
    return each.first == communicator ||
           (aggregator->ends_splits() && entry != communicators_.end() &&
            is_below(communicator, each.first));
  });
}

bool CommunicatorFailures::knows(uint64_t communicator) const {
  return communicators_.contains(communicator);
}

bool CommunicatorFailures::is_outside(uint32_t rank, uint64_t communicator) const {
  const auto entry = communicators_.find(communicator);
  return communicator != kWholeJob && entry != communicators_.end() &&
         !entry->second.members.contains(rank);
}

bool CommunicatorFailures::deciding() const {
  return !late_aborts_.empty() || std::ranges::any_of(communicators_, [](const auto& each) {
    return each.second.aggregator != nullptr && each.second.aggregator->began().has_value();
  });
}

bool CommunicatorFailures::waits_for_answers() const {
  return std::ranges::any_of(communicators_, [](const auto& each) {
    return each.second.aggregator != nullptr && each.second.aggregator->waits_for_answers();
  });
}

Deadline CommunicatorFailures::next_deadline() const {
  Deadline next = late_aborts_.empty() ? Deadline::max() : Deadline::min();
  for (const auto& [number, communicator] : communicators_) {
    if (communicator.aggregator != nullptr && !waits_for_below(number)) {
      next = std::min(next, communicator.aggregator->next_deadline());
    }
  }
  return next;
}

}  // namespace ho
