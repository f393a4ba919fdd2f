#include "run/not_finite.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "run/agreement.hpp"

namespace paro {
namespace {

constexpr uint64_t kInTheirSum = UINT64_MAX;  // for a micro-batch

// Units that share parameters add their gradients up: it may be the sum that overflowed.
std::string element_text(const RunnerConfig& config, uint64_t unit, uint64_t element) {
  std::string text = unit_name(config, unit);
  for (size_t other = 0; other < config.units.size(); ++other) {
    if (config.units[other].shares == unit) {
      text += " with those added of " + unit_name(config, other) + ", which shares its parameters";
    }
  }
  return text + ", element " + std::to_string(element);
}

bool is_float16(const RunnerConfig& config) {
  return config.gradient_dtype == ho::DType::kFloat16 ||
         config.parameter_dtype == ho::DType::kFloat16;
}

void log_left_out(const RunnerConfig& config,
                  const std::string& step,
                  const std::string& cause,
                  bool shrinks) {
  const std::string text = step + " is left out on all ranks: " + cause;
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

// By whom it was computed; where nobody has, what became of the sum.
std::string NotFiniteRecord::cause_of(const RunnerConfig& config,
                                      std::span<const Found> all,
                                      std::span<const ho::GlobalRank> ranks) {
  const auto first = std::min_element(
      all.begin(), all.end(), [](const Found& a, const Found& b) { return a.when < b.when; });
  if (first->when != UINT64_MAX && first->unit < config.units.size()) {
    const auto many = std::count_if(
        all.begin(), all.end(), [](const Found& one) { return one.when != UINT64_MAX; });
    return "rank " + std::to_string(ranks[static_cast<size_t>(first - all.begin())].value()) +
           " computed " + (first->nan != 0 ? "a NaN" : "an infinity") + " in the gradient of " +
           element_text(config, first->unit, first->element) +
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
                   element_text(config, sum->sum_unit, sum->sum_element) +
                   "; look at how large the losses are"
             : "";
}

void NotFiniteRecord::look_at_own(const Shards& shards,
                                  const Action& action,
                                  const std::vector<ElementView>& buffers_of_units,
                                  uint32_t micro_batches) {
  const RunnerConfig& config = shards.config;
  // Where gradients are not split, this rank's micro-batches are added up by now.
  const bool added_up = action.phase == Phase::kSyncG;
  const std::vector<uint32_t> units = units_of(action);
  const Operations& operations = shards.operations(Track::kReductions);
  const uint64_t before = added_up ? 0 : action.micro_batch;
  for (size_t i = 0; i < units.size(); ++i) {
    // Micro-batch by micro-batch, units from the last to the first: the first of all is the first
    // that was computed.
    looked_.push_back({looked_elements_,
                       units[i],
                       added_up && micro_batches > 1 ? kInTheirSum : before,
                       (before + 1) * config.units.size() - units[i]});
    const uint64_t count = config.units[units[i]].trained;
    operations.note_not_finite(buffers_of_units[i].dtype(),
                               buffers_of_units[i].at(0),
                               count,
                               looked_elements_,
                               shards.control.own());
    looked_elements_ += count;
  }
}

NotFiniteRecord::Found NotFiniteRecord::found_in(const RunnerConfig& config,
                                                 const ControlMemory::Parts& parts) const {
  Found found;
  if (const auto in_sums = first_not_finite_of(parts.control.sums)) {
    found.sum_unit = 0;
    found.sum_element = *in_sums;
    for (; found.sum_element >= config.units[found.sum_unit].trained; ++found.sum_unit) {
      found.sum_element -= config.units[found.sum_unit].trained;
    }
    found.sum_nan = parts.control.sums.nan != 0 ? 1 : 0;
  }
  const auto first = first_not_finite_of(parts.own);
  if (!first || looked_.empty()) {
    return found;
  }
  const auto behind = std::upper_bound(
      looked_.begin(), looked_.end(), *first, [](uint64_t index, const Looked& looked) {
        return index < looked.first;
      });
  const Looked& looked = *std::prev(behind);
  found.when = looked.when;
  found.unit = looked.unit;
  found.element = *first - looked.first;
  found.micro_batch = looked.micro_batch;
  found.nan = parts.own.nan != 0 ? 1 : 0;
  return found;
}

ho::Result<double> NotFiniteRecord::compare(const Shards& shards,
                                            const ControlMemory::Parts& parts,
                                            const std::string& step,
                                            bool shrinks) const {
  constexpr size_t kWords = sizeof(Found) / sizeof(uint64_t);
  const Found mine = found_in(shards.config, parts);
  std::vector<Found> all{mine};
  std::vector<ho::GlobalRank> ranks{shards.self()};
  if (ho_comm* const world = shards.domains->world(); world != nullptr) {
    const auto words = std::bit_cast<std::array<uint64_t, kWords>>(mine);
    HORING_ASSIGN(const auto sent, all_gather_values(world, words, shards.config.timeout_ms));
    ranks = shards.ranks();
    all.resize(ranks.size());
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(all));
    std::memcpy(bytes.data(), sent.data(), bytes.size());
  }
  const std::string cause = cause_of(shards.config, all, ranks);
  if (shards.self().value() == 0 && !cause.empty()) {
    log_left_out(shards.config, step, cause, shrinks);
  }
  const bool nan =
      std::any_of(all.begin(), all.end(), [](const Found& one) { return one.sum_nan != 0; });
  return nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
}

}  // namespace paro
