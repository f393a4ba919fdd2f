#include "run/updater.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "run/agreement.hpp"

namespace paro {
namespace {

// What a framework's own optimizer gets at once, as fp32 gradients of its own.
constexpr uint64_t kBlockElements = 4096;

// With the settings of a group of parameters, if they are in one.
Rule rule_for(const RunnerConfig& config, const ParameterGroup* group) {
  Rule rule = config.rule;
  if (group != nullptr) {
    const auto change = [&](auto& one) {
      one.learning_rate *= group->rate_factor;
      one.weight_decay = group->weight_decay;
    };
    std::visit(change, rule);
  }
  return rule;
}

}  // namespace

Updater::Updater(const RunnerConfig& config, GroupsByUnit groups)
    : scale_(config.loss_scale),
      groups_(std::move(groups)),
      block_(config.optimizer ? kBlockElements : 0) {}

double Updater::averaging_factor(const Shards& shards, uint32_t micro_batches) const {
  const double shares = static_cast<double>(shards.domains->groups().world_size()) * micro_batches;
  return 1 / (shares * scale_.value());
}

// World parts lie inside what a rank has of the gradients' sums at any scope of the optimizer.
// Where one is not finite, units count on from one another.
void Updater::norm(const Shards& shards, double factor) const {
  const Operations& operations = shards.operations(Track::kReductions);
  GradientSums* const sums = &shards.control.get()->sums;
  const ho::DType dtype = sent_dtype(shards.config);
  operations.zero(sums, sizeof *sums);
  uint64_t before = 0;
  for (size_t u = 0; u < shards.units.size(); ++u) {
    const uint64_t elements = shards.config.units[u].trained;  // behind them lies padding
    for (const Range& range : shards.layouts[u].trained.owned(Scope::kWorld, shards.self())) {
      if (range.begin >= elements) {
        break;
      }
      const uint64_t count = std::min(range.end, elements) - range.begin;
      const void* const values = shards.units[u].sums.at(range.begin);
      operations.norm(dtype, values, count, factor, before + range.begin, sums);
    }
    before += elements;
  }
}

void Updater::decide(const Shards& shards, uint32_t micro_batches) const {
  StepLimits limits{.averaging = averaging_factor(shards, micro_batches),
                    .max_norm = shards.config.max_norm,
                    .ranks = static_cast<double>(shards.domains->groups().world_size()),
                    .rate = learning_rate(shards.config),
                    .ended = shards.domains->ended()};
  if (const auto* const rule = std::get_if<AdamW>(&shards.config.rule)) {
    limits.beta_1 = rule->beta1;
    limits.beta_2 = rule->beta2;
  }
  shards.operations(Track::kReductions).decide(limits, shards.control.get());
}

void Updater::update_piece(Shards& shards,
                           const BufferRange& piece,
                           const ParameterGroup* group) const {
  const RunnerConfig& config = shards.config;
  const uint64_t begin = piece.range.begin;
  UnitState& state = shards.units[piece.buffer];
  UpdatedElements elements;
  elements.master = state.master().floats_at(begin);
  for (size_t array = 1; array < state.optimizer.size(); ++array) {
    elements.rule[array - 1] = state.optimizer[array].floats_at(begin);
  }
  elements.gradient_dtype = sent_dtype(config);
  elements.gradient = state.sums.at(begin);
  elements.parameter_dtype = config.parameter_dtype;
  elements.parameter = state.parameters.at(begin);
  elements.count = piece.range.count();
  shards.ledger.operations().update(rule_for(config, group), shards.control.get(), elements);
}

ho::Status Updater::call_optimizer(Shards& shards,
                                   const BufferRange& piece,
                                   const ParameterGroup* group,
                                   double factor) {
  const RunnerConfig& config = shards.config;
  const Operations& operations = shards.ledger.operations();
  const auto unit = static_cast<uint32_t>(piece.buffer);
  const uint64_t begin = piece.range.begin;
  const uint64_t count = piece.range.count();
  UnitState& state = shards.units[unit];
  const std::span<float> gradient(block_.data(), count);
  operations.fetch(sent_dtype(config), state.sums.at(begin), factor, gradient);
  states_of_block_.clear();
  for (size_t array = 1; array < state.optimizer.size(); ++array) {
    states_of_block_.push_back(state.optimizer[array].floats_at(begin));
  }
  float* const master = state.master().floats_at(begin);
  HORING_TRY(config.optimizer({unit,
                               begin,
                               optimizer_steps_ + 1,
                               learning_rate(config) * (group == nullptr ? 1 : group->rate_factor),
                               {master, count},
                               gradient,
                               group == nullptr ? 0 : group->weight_decay,
                               states_of_block_}));
  operations.round(config.parameter_dtype, master, state.parameters.at(begin), count);
  return {};
}

ho::Status Updater::update_range(Shards& shards, const BufferRange& range, double factor) {
  const std::vector<ParameterGroup>& groups = groups_[range.buffer];
  uint64_t begin = range.range.begin;
  const uint64_t end = range.range.end;
  auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& one) {
    return one.range.end > begin;
  });
  while (begin < end) {  // inside a group, or up to the next
    const bool inside = group != groups.end() && group->range.begin <= begin;
    uint64_t until = end;
    if (group != groups.end()) {
      until = std::min(end, inside ? group->range.end : group->range.begin);
    }
    const BufferRange piece{range.buffer, {begin, until}};
    const ParameterGroup* const settings = inside ? &*group : nullptr;
    if (shards.config.optimizer) {
      HORING_TRY(call_optimizer(shards, piece, settings, factor));
    } else {
      update_piece(shards, piece, settings);
    }
    begin = until;
    group += inside ? 1 : 0;
  }
  return {};
}

// In blocks where the framework's own optimizer gets gradients of its own.
ho::Status Updater::update(Shards& shards, uint32_t unit, double factor) {
  const uint64_t elements = shards.config.units[unit].trained;
  for (const Range& range : shards.units[unit].master().ranges()) {
    const uint64_t end = std::min(range.end, elements);  // padding: zeros that stay so
    const uint64_t most = shards.config.optimizer ? kBlockElements : range.count();
    for (uint64_t begin = range.begin; begin < end; begin += most) {
      const ho::Status updated =
          update_range(shards, {unit, {begin, std::min(end, begin + most)}}, factor);
      torn_ = torn_ || !updated.ok();
      HORING_TRY(updated);
    }
  }
  return {};
}

void Updater::end_step(const StepOutcome& outcome) {
  follow_scale();
  applied_ += outcome.applied ? 1 : 0;
  optimizer_steps_ += outcome.applied ? 1 : 0;
  unfollowed_ = outcome;
}

void Updater::follow_scale() {
  if (const auto outcome = std::exchange(unfollowed_, std::nullopt)) {
    scale_.after_step(!outcome->applied, outcome->loss_scale);
  }
}

void Updater::write_to(Snapshot& snapshot) const {
  snapshot.applied_steps = applied_;
  snapshot.optimizer_steps = optimizer_steps_;
  snapshot.loss_scale = scale_.state();
}

ho::Status Updater::restore(const Snapshot& snapshot, const Shards& shards) {
  HORING_TRY(scale_.restore(snapshot.loss_scale));
  unfollowed_.reset();
  applied_ = snapshot.applied_steps;
  optimizer_steps_ = snapshot.optimizer_steps;
  shards.operations(Track::kReductions)
      .store(std::as_bytes(std::span(&optimizer_steps_, 1)), &shards.control.get()->steps);
  return {};
}

ho::Status Updater::same_progress(ho_comm* comm, ho::GlobalRank self) const {
  const LossScaleState scale = scale_.state();
  const std::array<uint64_t, 5> mine{applied_,
                                     std::bit_cast<uint64_t>(scale.value),
                                     scale.good_steps,
                                     self.value(),
                                     torn_ ? uint64_t{1} : 0};
  HORING_ASSIGN(const auto all, all_gather_values(comm, mine));
  const auto refused = [](size_t rank, const std::string& why) {
    return ho::Status(ho::StatusCode::kMismatch, "rejoin: rank " + std::to_string(rank) + why);
  };
  for (size_t rank = 0; rank * mine.size() < all.size(); ++rank) {
    const uint64_t* const theirs = &all[rank * mine.size()];
    if (theirs[3] != rank) {
      return refused(rank,
                     " of the new communicator was rank " + std::to_string(theirs[3]) +
                         "; shards go by rank, so every rank must keep its number");
    }
    if (theirs[4] != 0) {
      return refused(rank, "'s optimizer failed in the middle of an update; load a checkpoint");
    }
    if (theirs[0] != all[0]) {
      return refused(rank,
                     " has applied " + std::to_string(theirs[0]) + " steps, rank 0 " +
                         std::to_string(all[0]) +
                         ": the step that failed reached only some of them; load a checkpoint");
    }
    if (theirs[1] != all[1] || theirs[2] != all[2]) {
      return refused(rank,
                     " has another loss scale than rank 0: the step that failed overflowed, and "
                     "only some of them know; load a checkpoint");
    }
  }
  return {};
}

}  // namespace paro
