#include "bootstrap/control/gathers.hpp"

#include <algorithm>
#include <utility>

namespace ho {

void Gathers::add(const GatherTable::Waiter& from, wire::Contribution contribution, Deadline now) {
  auto outcome = table_.add(from, std::move(contribution), now);
  if (outcome.has_value()) {
    complete_.push_back(std::move(*outcome));
  }
}

void Gathers::answer_complete() {
  answer(std::exchange(complete_, {}));
}

void Gathers::end_of(uint32_t rank, const Status& why) {
  answer(table_.rank_ended(rank, why));
  for (GatherTable::Outcome& outcome : complete_) {
    const auto& waiters = outcome.waiters;
    if (outcome.error.ok() &&
        std::ranges::any_of(
            waiters, [rank](const GatherTable::Waiter& waiter) { return waiter.rank == rank; })) {
      outcome.error = why;
      outcome.parts.clear();
    }
  }
}

void Gathers::answer(const std::vector<GatherTable::Outcome>& outcomes) {
  for (const GatherTable::Outcome& outcome : outcomes) {
    const ControlConnection::Body error =
        outcome.error.ok() ? nullptr : ControlConnection::outcome_body(outcome.error);
    for (const GatherTable::Waiter& waiter : outcome.waiters) {
      if (error) {
        peers_.send(waiter.rank, wire::Type::kGatherFailed, waiter.id, error);
      } else {
        peers_.send(waiter.rank, wire::Type::kGathered, waiter.id, outcome.parts);
      }
    }
  }
}

}  // namespace ho
