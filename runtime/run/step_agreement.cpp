#include "run/step_agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <utility>

#include "run/step_votes.hpp"

namespace paro {

ho::Status StepAgreement::begin(const Updater& updater,
                                uint32_t micro_batches,
                                Transfer& transfer) {
  rate_ = learning_rate(shards_.config);
  StepVotes* const votes = &shards_.control.get()->votes;
  const StepVotes mine = votes_of(rate_, signals_, loads_.any(), discards_);
  updater.norm(shards_, updater.averaging_factor(shards_, micro_batches));
  shards_.operations(Track::kReductions).store(std::as_bytes(std::span(&mine, 1)), votes);
  return transfer.all_reduce(shards_.domains->over_world()[static_cast<size_t>(Track::kReductions)],
                             reinterpret_cast<double*>(votes),
                             kAgreeNumbers);
}

void StepAgreement::decide(const Updater& updater, StepIndex step, uint32_t micro_batches) {
  updater.decide(shards_, micro_batches);
  waits_ = {name(step),
            next(step).value,
            updater.scale().value(),
            updater.scale().shrinks(),
            std::exchange(not_finite_, {})};
  shards_.operations(Track::kReductions)
      .fetch_later(shards_.control.parts(), std::as_writable_bytes(std::span(&parts_, 1)));
}

void StepAgreement::begin_step() {
  not_finite_ = {};
  if (GradientSums* const own = shards_.control.own(); own != nullptr) {
    shards_.operations(Track::kReductions).zero(own, sizeof *own);
  }
}

ho::Status StepAgreement::take() {
  Waiting of = *std::exchange(waits_, std::nullopt);
  HORING_TRY(check_end(of.name));
  if (discards_) {
    return {};
  }
  HORING_TRY(check_inputs(of.name));
  outcome_ = outcome_of(of);
  if (!outcome_.applied) {
    untold_ = std::move(of);
  }
  return {};
}

// All ranks know by now that the step is left out, so all of them come here.
ho::Status StepAgreement::tell_why() {
  if (const auto of = std::exchange(untold_, std::nullopt)) {
    const ho::Result<double> norm = of->not_finite.compare(shards_, parts_, of->name, of->shrinks);
    HORING_TRY(shards_.break_unless_ok(norm.status(), "telling why " + of->name + " is left out"));
    outcome_.norm = *norm;
  }
  return {};
}

StepOutcome StepAgreement::outcome_of(const Waiting& waiting) const {
  const StepControl& control = parts_.control;
  const bool applied = control.left_out == ho::device::kTaken;
  return {.step = waiting.step,
          .applied = applied,
          .norm = applied ? control.norm : std::numeric_limits<double>::infinity(),
          .factor = control.factor,
          .loss_scale = waiting.loss_scale,
          .signalled = control.votes.signals != 0};
}

bool StepAgreement::drop() {
  untold_.reset();
  const auto of = std::exchange(waits_, std::nullopt);
  const uint64_t reason = parts_.control.left_out;
  if (!of || discards_ || (reason != ho::device::kTaken && reason != ho::device::kNotFinite)) {
    return false;
  }
  outcome_ = outcome_of(*of);
  return true;
}

// Where updates are given before anybody knows, some ranks have begun what others never will: an
// abort ends it, once all have found out.
ho::Status StepAgreement::refuse(const std::string& why) {
  ho::Status refused = shards_.break_on_all(why);
  if (shards_.config.on_device && shards_.domains->world() != nullptr) {
    static_cast<void>(barrier(shards_.domains->world(), shards_.config.timeout_ms));
    shards_.domains->abort(why.c_str());
  }
  return refused;
}

ho::Status StepAgreement::check_end(const std::string& step) {
  if (parts_.control.votes.discards == (discards_ ? ranks() : 0)) {
    return {};
  }
  HORING_ASSIGN(const auto all, shards_.gather(discards_ ? 1 : 0, step));
  const auto first = [&](uint64_t wanted) {
    const auto index = static_cast<size_t>(std::find(all.begin(), all.end(), wanted) - all.begin());
    return "rank " + std::to_string(shards_.ranks()[index].value());
  };
  return refuse(here(step) + ": " + first(1) + " calls discard after its last micro-batch, " +
                first(0) + " ends the step; all ranks must end a step by the same call");
}

// All ranks have the sums that say that something differs, so all of them come here.
ho::Status StepAgreement::check_inputs(const std::string& step) {
  if (!ho::device::all_have_rate(parts_.control.votes, rate_, ranks())) {
    return refuse_rates(step);
  }
  return parts_.control.votes.loaded != 0 ? compare_loads(step) : ho::Status();
}

ho::Status StepAgreement::refuse_rates(const std::string& step) {
  HORING_ASSIGN(
      const auto all,
      shards_.gather(std::bit_cast<uint64_t>(rate_), step + ", comparing learning rates"));
  const std::vector<ho::GlobalRank> ranks = shards_.ranks();
  const auto text = [&](size_t index) {
    std::array<char, 32> rate{};  // the shortest that tells it from all others
    std::to_chars(rate.data(), rate.data() + rate.size(), std::bit_cast<double>(all[index]));
    return "rank " + std::to_string(ranks[index].value()) + " has " + rate.data();
  };
  const auto other =
      std::find_if(all.begin(), all.end(), [&](uint64_t rate) { return rate != all.front(); });
  return refuse(here(step) + ": the ranks do not have the same learning rate: " + text(0) + ", " +
                text(static_cast<size_t>(other - all.begin()) % all.size()) +
                "; set the same on all ranks");
}

ho::Status StepAgreement::compare_loads(const std::string& step) {
  const ho::Status same = loads_.agree(shards_, here(step));
  if (same.code() == ho::StatusCode::kMismatch) {
    return refuse(same.message());
  }
  HORING_TRY(shards_.break_unless_ok(same, step + ", comparing what was loaded"));
  loads_.forget();
  return {};
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
