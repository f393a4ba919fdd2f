#include "run/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/hash.hpp"

namespace paro {

ho::Status all_ok(ho_comm* comm,
                  const ho::Status& mine,
                  uint64_t timeout_ms,
                  std::span<const ho::GlobalRank> ranks) {
  // The code, and as much of the message as makes a sentence.
  std::array<uint64_t, 64> word{static_cast<uint64_t>(mine.code())};
  constexpr size_t kTextBytes = sizeof word - sizeof word[0] - 1;
  std::memcpy(&word[1], mine.message().data(), std::min<size_t>(mine.message().size(), kTextBytes));
  const auto all = all_gather_values(comm, word, timeout_ms);
  HORING_TRY(mine);
  HORING_TRY(all.status());
  for (size_t rank = 0; rank * word.size() < all.value().size(); ++rank) {
    const uint64_t* const theirs = &all.value()[rank * word.size()];
    if (theirs[0] != 0) {
      const auto* const text = reinterpret_cast<const char*>(theirs + 1);
      const bool known = theirs[0] <= static_cast<uint64_t>(ho::StatusCode::kInternal);
      return {known ? static_cast<ho::StatusCode>(theirs[0]) : ho::StatusCode::kProtocol,
              "rank " + std::to_string(ranks.empty() ? rank : ranks[rank].value()) +
                  " cannot take part: " + std::string(text, ::strnlen(text, kTextBytes))};
    }
  }
  return {};
}

// Looks for the place by hashes of all that lie before it: few numbers travel, however many there
// are.
ho::Result<std::optional<Difference>> first_difference(ho_comm* comm,
                                                       std::span<const uint64_t> values,
                                                       uint64_t timeout_ms) {
  const auto before = [&](size_t count) {
    const uint64_t hash = ho::Hash().add(std::as_bytes(values.first(count))).value();
    return all_gather_values(comm, {&hash, 1}, timeout_ms);
  };
  HORING_ASSIGN(const auto whole, before(values.size()));
  const auto other =
      std::find_if(whole.begin(), whole.end(), [&](uint64_t hash) { return hash != whole[0]; });
  if (other == whole.end()) {
    return std::optional<Difference>();
  }
  const auto rank = static_cast<size_t>(other - whole.begin());
  size_t same = 0;
  size_t different = values.size();
  while (different - same > 1) {
    const size_t middle = same + (different - same) / 2;
    HORING_ASSIGN(const auto half, before(middle));
    (half[rank] == half[0] ? same : different) = middle;
  }
  return std::optional<Difference>(Difference{same, rank});
}

ho::Status same_launches(ho_comm* comm,
                         const StepPlan& plan,
                         const StepStreams& streams,
                         uint64_t timeout_ms) {
  if (comm == nullptr) {
    return {};
  }
  std::vector<uint64_t> launches;
  for (const Launch& one : streams.launches) {
    launches.push_back(2 * one.action.at() + (one.previous ? 1 : 0));
  }
  HORING_ASSIGN(const auto different, first_difference(comm, launches, timeout_ms));
  if (!different) {
    return {};
  }
  const Launch& here = streams.launches[different->index];
  return {ho::StatusCode::kMismatch,
          "ranks 0 and " + std::to_string(different->rank) + " launch a step of " +
              letters(plan.shape.strategy) + " in different orders, from launch " +
              std::to_string(different->index) + " on, which here is " +
              to_string(plan, plan.actions[here.action.at()]) +
              ": NCCL would wait for ever; run the same build of libparo on all ranks"};
}

ho::Status same_loads(ho_comm* comm,
                      std::span<const uint64_t> loads,
                      std::span<const UnitShape> units,
                      const std::string& where,
                      uint64_t timeout_ms,
                      std::span<const ho::GlobalRank> ranks) {
  HORING_ASSIGN(const auto different, first_difference(comm, loads, timeout_ms));
  if (!different) {
    return {};
  }
  const auto name = [&](size_t rank) {
    return std::to_string(ranks.empty() ? rank : ranks[rank].value());
  };
  return {ho::StatusCode::kMismatch,
          where + ": ranks " + name(0) + " and " + name(different->rank) +
              " were given different values for unit " + std::to_string(different->index) + " (" +
              units[different->index].name +
              "), or one of them none: load the same initial values on all ranks (one seed, one "
              "file)"};
}

ho::Result<uint64_t> smallest_budget(ho_comm* comm, uint64_t budget, uint64_t timeout_ms) {
  HORING_ASSIGN(const auto all, all_gather_values(comm, {&budget, 1}, timeout_ms));
  uint64_t smallest = 0;
  for (const uint64_t one : all) {
    smallest = smallest == 0 || (one > 0 && one < smallest) ? one : smallest;
  }
  return smallest;
}

}  // namespace paro
