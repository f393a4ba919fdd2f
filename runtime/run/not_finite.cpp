// What is said of a step that is left out because a gradient is not finite.
//
// A sum does not tell whose share of it spoilt it. So each rank looks at what it computed before
// that is reduced, and the ranks compare what they found when a step is left out.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "optim/gradients.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {
namespace {

// Of one rank, as it is sent.
struct Found {
  uint64_t when = UINT64_MAX;  // a gradient: smaller is earlier; none
  uint64_t unit = 0;
  uint64_t element = 0;
  uint64_t micro_batch = 0;
  uint64_t nan = 0;
  uint64_t sum_unit = 0;
  uint64_t sum_element = 0;
  uint64_t sum_nan = 0;
};
constexpr uint64_t kInTheirSum = UINT64_MAX;  // for a micro-batch
constexpr size_t kFoundWords = sizeof(Found) / sizeof(uint64_t);

std::string unit_text(const RunnerConfig& config, uint64_t unit) {
  return "unit " + std::to_string(unit) + " (" + config.units[unit].name + ")";
}

// Units that share parameters add their gradients up: it may be the sum that overflowed.
std::string place_of(const RunnerConfig& config, uint64_t unit, uint64_t element) {
  std::string text = unit_text(config, unit);
  for (size_t other = 0; other < config.units.size(); ++other) {
    if (config.units[other].shares == unit) {
      text += " with those added of " + unit_text(config, other) + ", which shares its parameters";
    }
  }
  return text + ", element " + std::to_string(element);
}

bool is_float16(const RunnerConfig& config) {
  return config.gradient_dtype == ho::DType::kFloat16 ||
         config.parameter_dtype == ho::DType::kFloat16;
}

// By whom it was computed; where nobody has, what became of the sum. "" if nobody knows of either.
std::string cause_of(const RunnerConfig& config,
                     std::span<const Found> all,
                     std::span<const ho::GlobalRank> ranks) {
  const auto first = std::min_element(
      all.begin(), all.end(), [](const Found& a, const Found& b) { return a.when < b.when; });
  if (first->when != UINT64_MAX && first->unit < config.units.size()) {
    const auto many = std::count_if(
        all.begin(), all.end(), [](const Found& one) { return one.when != UINT64_MAX; });
    return "rank " + std::to_string(ranks[static_cast<size_t>(first - all.begin())].value()) +
           " computed " + (first->nan != 0 ? "a NaN" : "an infinity") + " in the gradient of " +
           place_of(config, first->unit, first->element) +
           (first->micro_batch == kInTheirSum
                ? ", in the sum of its micro-batches"
                : ", micro-batch " + std::to_string(first->micro_batch)) +
           (many > 1 ? ", the first of " + std::to_string(many) + " ranks that did so" : "") +
           "; look at that rank's loss and data";
  }
  const auto sum = std::min_element(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::pair(a.sum_unit, a.sum_element) < std::pair(b.sum_unit, b.sum_element);
  });
  return sum->sum_unit < config.units.size()
             ? "the gradients of all ranks are finite, their sum overflowed in " +
                   place_of(config, sum->sum_unit, sum->sum_element) +
                   "; look at how large the losses are"
             : "";
}

void log_left_out(const RunnerConfig& config,
                  uint64_t step,
                  const std::string& cause,
                  bool shrinks) {
  const std::string text = "step " + std::to_string(step) + " is left out on all ranks: " + cause;
  if (shrinks) {
    ho::log_info("{}; the loss scale shrinks", text);
    return;
  }
  const char* advice = "";
  if (is_float16(config)) {
    advice = config.loss_scale.scaling == Scaling::kDynamic
                 ? "; the loss scale is at its least"
                 : "; with float16 take dynamic loss scaling";
  }
  ho::log_warn("{}{}", text, advice);
}

}  // namespace

void StepRunner::look_at_own(const Action& action, std::span<const Place> places) {
  // Where gradients are not split, this rank's micro-batches are added up by now.
  const bool added_up = action.phase == Phase::kSyncG;
  const uint64_t micro_batch =
      added_up ? (step_micro_batches_ > 1 ? kInTheirSum : 0) : action.micro_batch;
  const std::vector<uint32_t> units = units_of(action);
  for (size_t i = 0; i < units.size() && own_not_finite_.unit == UINT64_MAX; ++i) {
    const auto found =
        first_not_finite(places[i].dtype(), places[i].at(0), config_.units[units[i]].trained);
    if (found) {
      own_not_finite_ = {units[i], found->index, found->nan, micro_batch};
    }
  }
}

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
  const NotFiniteAt& own = own_not_finite_;
  Found mine;
  if (own.unit != UINT64_MAX) {  // micro-batch by micro-batch, units from the last to the first
    const uint64_t units = config_.units.size();
    const uint64_t before = own.micro_batch == kInTheirSum ? 0 : own.micro_batch * units;
    mine.when = before + units - own.unit;
    mine.unit = own.unit;
    mine.element = own.element;
    mine.micro_batch = own.micro_batch;
    mine.nan = own.nan ? 1 : 0;
  }
  mine.sum_unit = not_finite_.unit;
  mine.sum_element = not_finite_.element;
  mine.sum_nan = not_finite_.nan ? 1 : 0;
  std::vector<Found> all{mine};
  std::vector<ho::GlobalRank> ranks{domains_->self()};
  // With this mistake some ranks go on with the step: they would not come.
  if (domains_->world() != nullptr && config_.mistake != Mistake::kFlagInGroup) {
    const auto words = std::bit_cast<std::array<uint64_t, kFoundWords>>(mine);
    HORING_ASSIGN(const auto sent, all_gather_values(domains_->world(), words, config_.timeout_ms));
    ranks = world_order(domains_->groups());
    all.clear();
    for (size_t at = 0; at < sent.size(); at += kFoundWords) {
      std::array<uint64_t, kFoundWords> one{};
      std::copy_n(&sent[at], kFoundWords, one.begin());
      all.push_back(std::bit_cast<Found>(one));
    }
  }
  const std::string cause = cause_of(config_, all, ranks);
  if (domains_->self().value() == 0 && !cause.empty()) {
    log_left_out(config_, steps_ + 1, cause, scale_.shrinks());
  }
  const bool nan =
      std::any_of(all.begin(), all.end(), [](const Found& one) { return one.sum_nan != 0; });
  return nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
}

}  // namespace paro
