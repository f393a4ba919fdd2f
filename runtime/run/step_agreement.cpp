#include "run/step_agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

namespace paro {

ho::Status StepAgreement::begin(const Updater& updater,
                                uint32_t micro_batches,
                                Transfer& transfer) {
  const double factor = updater.averaging_factor(shards_, micro_batches);
  HORING_ASSIGN(const GradientSums mine, updater.norm(shards_, factor, not_finite_));
  HORING_TRY(shards_.domains->status());  // else what is on a stream may not have been done
  sums_ = StepSums(mine.squared,
                   mine.not_finite,
                   learning_rate(shards_.config),
                   signals_,
                   loads_.any(),
                   discards_);
  return transfer.all_reduce(shards_.domains->over_hosts(), sums_.data(), StepSums::kCount);
}

void StepAgreement::begin_step() {
  not_finite_ = {};
  if (GradientSums* const own = shards_.control.own(); own != nullptr) {
    shards_.operations(Track::kReductions).zero(own, sizeof *own);
  }
}

ho::Status StepAgreement::check_end(const std::string& step) {
  if (sums_.discards() == (discards_ ? shards_.domains->groups().world_size() : 0)) {
    return {};
  }
  HORING_ASSIGN(const auto all, shards_.gather(discards_ ? 1 : 0, step));
  const auto first = [&](uint64_t wanted) {
    const auto index = static_cast<size_t>(std::find(all.begin(), all.end(), wanted) - all.begin());
    return "rank " + std::to_string(shards_.ranks()[index].value());
  };
  return shards_.break_on_all(here(step) + ": " + first(1) +
                              " calls discard after its last micro-batch, " + first(0) +
                              " ends the step; all ranks must end a step by the same call");
}

// All ranks have the sums that say that something differs, so all of them come here.
ho::Status StepAgreement::check_inputs(const std::string& step) {
  if (!sums_.all_have_rate(learning_rate(shards_.config), shards_.domains->groups().world_size())) {
    return refuse_rates(step);
  }
  return sums_.any_loaded() ? compare_loads(step) : ho::Status();
}

ho::Status StepAgreement::refuse_rates(const std::string& step) {
  HORING_ASSIGN(const auto all,
                shards_.gather(std::bit_cast<uint64_t>(learning_rate(shards_.config)),
                               step + ", comparing learning rates"));
  const std::vector<ho::GlobalRank> ranks = shards_.ranks();
  const auto text = [&](size_t index) {
    std::array<char, 32> rate{};  // the shortest that tells it from all others
    std::to_chars(rate.data(), rate.data() + rate.size(), std::bit_cast<double>(all[index]));
    return "rank " + std::to_string(ranks[index].value()) + " has " + rate.data();
  };
  const auto other =
      std::find_if(all.begin(), all.end(), [&](uint64_t rate) { return rate != all.front(); });
  return shards_.break_on_all(
      here(step) + ": the ranks do not have the same learning rate: " + text(0) + ", " +
      text(static_cast<size_t>(other - all.begin()) % all.size()) + "; set the same on all ranks");
}

ho::Status StepAgreement::compare_loads(const std::string& step) {
  const ho::Status same = loads_.agree(shards_, here(step));
  if (same.code() == ho::StatusCode::kMismatch) {
    return shards_.break_on_all(same.message());
  }
  HORING_TRY(shards_.break_unless_ok(same, step + ", comparing what was loaded"));
  loads_.forget();
  return {};
}

ho::Result<StepAgreement::Decision> StepAgreement::decision(const StepControl& control,
                                                            const std::string& step,
                                                            bool shrinks) {
  Decision decision{control.norm, control.left_out == 0};
  if (!decision.applies) {
    // All ranks know by now that the step is left out, so all of them come here.
    const ho::Result<double> reported = not_finite_.compare(shards_, step, shrinks);
    HORING_TRY(shards_.break_unless_ok(reported.status(), "telling why " + step + " is left out"));
    decision.norm = *reported;
  }
  return decision;
}

ho::Status StepAgreement::agree_on_count(uint32_t count, const std::string& what) {
  if (shards_.domains->world() == nullptr) {
    return {};
  }
  HORING_ASSIGN(const auto all, shards_.gather(count, what));
  const auto other =
      std::find_if(all.begin(), all.end(), [&](uint64_t one) { return one != all.front(); });
  if (other == all.end()) {
    return {};
  }
  const std::vector<ho::GlobalRank> ranks = shards_.ranks();
  return {ho::StatusCode::kMismatch,
          what + ": rank " + std::to_string(ranks.front().value()) + " has " +
              std::to_string(all.front()) + " micro-batches, rank " +
              std::to_string(ranks[static_cast<size_t>(other - all.begin())].value()) + " " +
              std::to_string(*other) + "; all ranks must give the same number"};
}

}  // namespace paro
