#include "run/updater.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "run/agreement.hpp"

namespace paro {
namespace {

constexpr uint64_t kBlockElements = 4096;

// Ranges in pieces that fit the fp32 block, up to the first error. What lies from `count` on is
// padding, zeros that stay so.
template <typename Body>
ho::Status in_blocks(const std::vector<Range>& ranges, uint64_t count, const Body& body) {
  for (const Range& range : ranges) {
    const uint64_t end = std::min(range.end, count);
    for (uint64_t begin = range.begin; begin < end; begin += kBlockElements) {
      HORING_TRY(body(begin, std::min(kBlockElements, end - begin)));
    }
  }
  return {};
}

}  // namespace

Updater::Updater(const RunnerConfig& config, GroupsByUnit groups)
    : scale_(config.loss_scale), groups_(std::move(groups)), block_(kBlockElements) {}

double Updater::averaging_factor(const Shards& shards, uint32_t micro_batches) const {
  const double shares = static_cast<double>(shards.domains->groups().world_size()) * micro_batches;
  return 1 / (shares * scale_.value());
}

// World parts lie inside what a rank has of the gradients' sums at any scope of the optimizer.
Norm Updater::norm(const Shards& shards, double factor, NotFiniteRecord& not_finite) {
  Norm norm;
  for (size_t u = 0; u < shards.units.size(); ++u) {
    const auto& parts = shards.layouts[u].trained.owned(Scope::kWorld, shards.self());
    const auto add_block = [&](uint64_t begin, uint64_t count) -> ho::Status {
      const std::span<float> block(block_.data(), count);
      unscale(shards.config.gradient_dtype, shards.units[u].sums.at(begin), factor, block);
      const Norm of_block = norm_of(block);
      if (of_block.not_finite > 0) {
        not_finite.note_sum(u, begin, block);
      }
      norm += of_block;
      return {};
    };
    static_cast<void>(in_blocks(parts, shards.config.units[u].trained, add_block));
  }
  return norm;
}

ho::Status Updater::update_piece(Shards& shards,
                                 const BufferRange& piece,
                                 const ParameterGroup* group,
                                 double factor) {
  const RunnerConfig& config = shards.config;
  const auto unit = static_cast<uint32_t>(piece.buffer);
  const uint64_t begin = piece.range.begin;
  const uint64_t count = piece.range.count();
  UnitState& state = shards.units[unit];
  const auto floats = [&](Storage& storage) {
    return std::span<float>(reinterpret_cast<float*>(storage.at(begin)), count);
  };
  const std::span<float> gradient(block_.data(), count);
  unscale(config.gradient_dtype, state.sums.at(begin), factor, gradient);
  const std::span<float> master = floats(state.master());
  if (config.optimizer) {
    states_of_block_.clear();
    for (size_t array = 1; array < state.optimizer.size(); ++array) {
      states_of_block_.push_back(floats(state.optimizer[array]).data());
    }
    HORING_TRY(
        config.optimizer({unit,
                          begin,
                          optimizer_steps_ + 1,
                          learning_rate(config) * (group == nullptr ? 1 : group->rate_factor),
                          master,
                          gradient,
                          group == nullptr ? 0 : group->weight_decay,
                          states_of_block_}));
  } else {
    Elements elements{master, {}, gradient};
    for (size_t array = 1; array < state.optimizer.size(); ++array) {
      elements.state[array - 1] = floats(state.optimizer[array]);
    }
    Rule rule = config.rule;
    if (group != nullptr) {
      const auto change = [&](auto& one) {
        one.learning_rate *= group->rate_factor;
        one.weight_decay = group->weight_decay;
      };
      std::visit(change, rule);
    }
    paro::update(rule, optimizer_steps_ + 1, elements);
  }
  round_to(config.parameter_dtype, master, state.parameters.at(begin));
  return {};
}

ho::Status Updater::update(Shards& shards, uint32_t unit, double factor) {
  const std::vector<ParameterGroup>& groups = groups_[unit];
  const auto update_block = [&](uint64_t begin, uint64_t count) -> ho::Status {
    const uint64_t end = begin + count;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const ParameterGroup& one) {
      return one.range.end > begin;
    });
    while (begin < end) {  // inside a group, or up to the next
      const bool inside = group != groups.end() && group->range.begin <= begin;
      uint64_t until = end;
      if (group != groups.end()) {
        until = std::min(end, inside ? group->range.end : group->range.begin);
      }
      HORING_TRY(update_piece(shards, {unit, {begin, until}}, inside ? &*group : nullptr, factor));
      begin = until;
      group += inside ? 1 : 0;
    }
    return {};
  };
  ho::Status updated = in_blocks(
      shards.units[unit].master().ranges(), shards.config.units[unit].trained, update_block);
  torn_ = torn_ || !updated.ok();
  return updated;
}

void Updater::end_step(bool applied) {
  applied_ += applied ? 1 : 0;
  optimizer_steps_ += applied ? 1 : 0;
  scale_.after_step(!applied);
}

void Updater::write_to(Snapshot& snapshot) const {
  snapshot.applied_steps = applied_;
  snapshot.optimizer_steps = optimizer_steps_;
  snapshot.loss_scale = scale_.state();
}

ho::Status Updater::restore(const Snapshot& snapshot) {
  HORING_TRY(scale_.restore(snapshot.loss_scale));
  applied_ = snapshot.applied_steps;
  optimizer_steps_ = snapshot.optimizer_steps;
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
