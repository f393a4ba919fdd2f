// What is said of a step that is left out because a gradient is not finite.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/log.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {

void StepRunner::note_not_finite(uint64_t unit, uint64_t begin, std::span<const float> gradient) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto first = std::find_if_not(gradient.begin(), gradient.end(), finite);
  if (unit < not_finite_.unit) {
    not_finite_.unit = unit;
    not_finite_.element = begin + static_cast<uint64_t>(first - gradient.begin());
  }
  not_finite_.nan = not_finite_.nan ||
                    std::any_of(first, gradient.end(), [](float value) { return value != value; });
}

// All ranks know by now that the step is left out, so all of them come here.
ho::Result<double> StepRunner::tell_left_out() {
  const std::array<uint64_t, 3> mine{
      not_finite_.unit, not_finite_.element, not_finite_.nan ? uint64_t{1} : 0};
  std::vector<uint64_t> all(mine.begin(), mine.end());
  std::vector<ho::GlobalRank> ranks{domains_->self()};
  // With this mistake some ranks go on with the step: they would not come.
  if (domains_->world() != nullptr && config_.mistake != Mistake::kFlagInGroup) {
    HORING_ASSIGN(all, everybodys(domains_->world(), mine, config_.timeout_ms));
    ranks = world_order(domains_->groups());
  }
  size_t first = 0;
  bool nan = false;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const uint64_t* const theirs = &all[rank * mine.size()];
    const uint64_t* const least = &all[first * mine.size()];
    first = std::lexicographical_compare(theirs, theirs + 2, least, least + 2) ? rank : first;
    nan = nan || theirs[2] != 0;
  }
  const uint64_t unit = all[first * mine.size()];
  if (domains_->self().value() == 0 && unit < config_.units.size()) {
    const std::string text =
        "step " + std::to_string(steps_ + 1) + " is left out on all ranks: the gradient has " +
        (nan ? "a NaN" : "an infinity") + ", the first number that is not finite in unit " +
        std::to_string(unit) + " (" + config_.units[unit].name + "), element " +
        std::to_string(all[first * mine.size() + 1]) + ", which rank " +
        std::to_string(ranks[first].value()) + " holds the sum of";
    if (scale_.shrinks()) {
      ho::log_info("{}; the loss scale shrinks", text);
    } else {
      ho::log_warn(
          "{}; look at the loss and the data of every rank; with 16 bits take dynamic loss scaling",
          text);
    }
  }
  return nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
}

}  // namespace paro
