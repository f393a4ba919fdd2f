// What ranks must give and take alike, although each looks at its own part only: initial values,
// and which unit is read.
#include <algorithm>
#include <array>

#include "base/hash.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {

void StepRunner::note_load(uint32_t unit,
                           std::span<const float> trained,
                           std::span<const float> frozen) {
  if (config_.unchecked_loads) {
    return;
  }
  loads_.resize(units_.size(), 0);
  loads_[unit] = ho::Hash().add(std::as_bytes(trained)).add(std::as_bytes(frozen)).value();
  loaded_ = true;
}

void StepRunner::forget_loads() {
  loads_.clear();
  loaded_ = false;
}

ho::Status StepRunner::agree_on_loads(const std::string& where) {
  loads_.resize(units_.size(), 0);
  return same_loads(domains_->world(),
                    loads_,
                    config_.units,
                    where,
                    config_.timeout_ms,
                    world_order(domains_->groups()));
}

ho::Status StepRunner::compare_loads() {
  if (domains_->world() != nullptr) {
    const std::string step = "step " + std::to_string(steps_ + 1);
    const ho::Status same = agree_on_loads("rank " + std::to_string(self().value()) + ", " + step);
    if (same.code() == ho::StatusCode::kMismatch) {
      broken_ = same;  // all ranks have found out: nobody needs to be told by an abort
      return broken_;
    }
    HORING_TRY(break_unless_ok(same, step + ", comparing what was loaded"));
  }
  forget_loads();
  return {};
}

ho::Status StepRunner::agree_on_read(const char* what, uint32_t unit, uint64_t room) {
  if (domains_->world() == nullptr) {
    return {};
  }
  const std::string name = what;
  const std::array<uint64_t, 4> mine{ho::Hash().add(name).value(), unit, room, loaded_ ? 1U : 0U};
  const auto all = all_gather_values(domains_->world(), mine, config_.timeout_ms);
  HORING_TRY(break_unless_ok(all.status(), name + " of unit " + std::to_string(unit)));
  const std::vector<ho::GlobalRank> ranks = world_order(domains_->groups());
  const uint64_t* const first = all->data();
  bool any_loaded = loaded_;
  for (size_t rank = 1; rank * mine.size() < all->size(); ++rank) {
    const uint64_t* const theirs = first + rank * mine.size();
    any_loaded = any_loaded || first[3] != 0 || theirs[3] != 0;
    if (std::equal(first, first + 3, theirs)) {
      continue;
    }
    const bool room_alone = theirs[0] == first[0] && theirs[1] == first[1];
    std::string differ = name + " of unit " + std::to_string(unit) + ": rank ";
    differ += std::to_string(ranks[0].value());
    differ += room_alone ? " has room for " + std::to_string(first[2]) + " elements"
                         : " reads unit " + std::to_string(first[1]);
    differ += ", rank " + std::to_string(ranks[rank].value());
    differ +=
        room_alone ? " for " + std::to_string(theirs[2]) : " unit " + std::to_string(theirs[1]);
    differ += theirs[0] == first[0] ? "" : " of another state";
    differ += "; all ranks must read the same, in the same order";
    return {ho::StatusCode::kMismatch, differ};
  }
  return any_loaded ? agree_on_loads(name) : ho::Status();
}

}  // namespace paro
