#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "optim/gradients.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {
namespace {

using Clock = std::chrono::steady_clock;
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

// The gradient is a sum over ranks and micro-batches of scaled losses' gradients.
double StepRunner::averaging_factor() const {
  double shares = static_cast<double>(domains_->groups().world_size()) * step_micro_batches_;
  if (config_.mistake == Mistake::kAverageTwice) {
    shares *= domains_->groups().group_size(domains_->groups().group_of(domains_->self()));
  }
  return 1 / (shares * scale_.value());
}

ho::Status StepRunner::start_agree(Transfer& transfer) {
  const double factor = averaging_factor();
  Norm norm;
  not_finite_ = {};
  block_.resize(kBlockElements);
  // World parts hold each element once, whatever copies of it there are, and lie inside what a rank
  // has of the gradients' sums at any scope of the optimizer.
  for (size_t u = 0; u < units_.size(); ++u) {
    const auto& parts = layouts_[u].trained.owned(Scope::kWorld, domains_->self());
    const uint64_t elements = config_.units[u].trained;
    HORING_TRY(in_blocks(parts, elements, [&](uint64_t begin, uint64_t count) -> ho::Status {
      const std::span<float> block(block_.data(), count);
      unscale(config_.gradient_dtype, units_[u].sums.at(begin), factor, block);
      const Norm of_block = norm_of(block);
      if (of_block.not_finite > 0) {
        note_not_finite(u, begin, block);
      }
      norm += of_block;
      return {};
    }));
  }
  agreed_ = StepSums(norm.squared, norm.not_finite, learning_rate(), signals_, loaded_, discards_);
  double* const rate = agreed_.data() + StepSums::kRate;
  constexpr size_t kRateCount = StepSums::kCount - StepSums::kRate;
  if (config_.mistake == Mistake::kNormOverGroup) {
    HORING_TRY(transfer.all_reduce(domains_->world(), rate, kRateCount));
    return transfer.all_reduce(domains_->intra(), agreed_.data(), 1);
  }
  if (config_.mistake == Mistake::kFlagInGroup) {
    HORING_TRY(transfer.all_reduce(domains_->world(), rate, kRateCount));
    HORING_TRY(transfer.all_reduce(domains_->world(), agreed_.data(), 1));
    return transfer.all_reduce(domains_->intra(), agreed_.data() + StepSums::kNotFinite, 1);
  }
  return transfer.all_reduce(domains_->world(), agreed_.data(), StepSums::kCount);
}

ho::Status StepRunner::apply_piece(const Piece& piece, const ParameterGroup* group, double factor) {
  const auto unit = static_cast<uint32_t>(piece.buffer);
  const uint64_t begin = piece.range.begin;
  const uint64_t count = piece.range.count();
  UnitState& state = units_[unit];
  const auto floats = [&](Storage& storage) {
    return std::span<float>(reinterpret_cast<float*>(storage.at(begin)), count);
  };
  const std::span<float> gradient(block_.data(), count);
  unscale(config_.gradient_dtype, state.sums.at(begin), factor, gradient);
  const std::span<float> master = floats(state.master());
  if (config_.optimizer) {
    states_of_block_.clear();
    for (size_t array = 1; array < state.optimizer.size(); ++array) {
      states_of_block_.push_back(floats(state.optimizer[array]).data());
    }
    HORING_TRY(config_.optimizer({unit,
                                  begin,
                                  optimizer_steps_ + 1,
                                  learning_rate() * (group == nullptr ? 1 : group->rate_factor),
                                  master,
                                  gradient,
                                  group == nullptr ? 0 : group->weight_decay,
                                  states_of_block_}));
  } else {
    Elements elements{master, {}, gradient};
    for (size_t array = 1; array < state.optimizer.size(); ++array) {
      elements.state[array - 1] = floats(state.optimizer[array]);
    }
    Rule rule = config_.rule;
    if (group != nullptr) {
      const auto change = [&](auto& one) {
        one.learning_rate *= group->rate_factor;
        one.weight_decay = group->weight_decay;
      };
      std::visit(change, rule);
    }
    paro::update(rule, optimizer_steps_ + 1, elements);
  }
  round_to(config_.parameter_dtype, master, state.parameters.at(begin));
  return {};
}

ho::Status StepRunner::apply(uint32_t unit, double factor) {
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
      HORING_TRY(apply_piece({unit, {begin, until}}, inside ? &*group : nullptr, factor));
      begin = until;
      group += inside ? 1 : 0;
    }
    return {};
  };
  return in_blocks(units_[unit].master().ranges(), config_.units[unit].trained, update_block);
}

double StepRunner::learning_rate() const {
  return std::visit([](const auto& rule) { return rule.learning_rate; }, config_.rule);
}

void StepRunner::set_learning_rate(double rate) {
  std::visit([rate](auto& rule) { rule.learning_rate = rate; }, config_.rule);
}

ho::Status StepRunner::between_steps(const char* what) const {
  HORING_TRY(broken_);
  if (in_step_) {
    return {ho::StatusCode::kInvalidArgument,
            std::string(what) + " in the middle of a step: call it after step()"};
  }
  return {};
}

ho::Status StepRunner::update_all(uint64_t first_slot, bool applies, double factor) {
  const auto& computations = queues_[static_cast<size_t>(Channel::kCompute)];
  ho::Status sent;  // of what units that are updated start
  for (size_t i = first_slot; i < computations.size(); ++i) {
    const uint64_t node = steps_ * plan_.actions.size() + computations[i];
    const uint32_t unit = action_of(node).unit;
    const auto since = Clock::now();
    if (applies) {
      if (const ho::Status status = apply(unit, factor); !status.ok()) {
        torn_ = true;
        return break_with(status, node);
      }
    }
    units_[unit].sums.zero();
    mark_ended(node, since);
    ++next_[static_cast<size_t>(Channel::kCompute)];
    // The ranks have agreed on this step: should a connection break now, all units are updated yet,
    // so that the ranks can rejoin.
    if (sent.ok()) {
      sent = pump();
    }
  }
  applied_ += applies ? 1 : 0;
  optimizer_steps_ += applies ? 1 : 0;
  scale_.after_step(!applies);
  return sent;
}

ho::Status StepRunner::decide(bool discards) {
  const auto agree = std::find_if(plan_.actions.begin(), plan_.actions.end(), [](const Action& a) {
    return a.act == Act::kAgree;
  });
  discards_ = discards;
  deciding_ = true;
  const ho::Status agreed =
      finish(steps_ * plan_.actions.size() + static_cast<uint64_t>(agree - plan_.actions.begin()));
  deciding_ = false;
  HORING_TRY(agreed);
  const std::string step = "step " + std::to_string(steps_ + 1);
  HORING_TRY(break_unless_ok(ends_->finish(), step));
  if (agreed_.discards() == (discards ? domains_->groups().world_size() : 0)) {
    return {};
  }
  // All ranks know it by now, so all of them come here, and nobody needs to be told by an abort.
  const uint64_t mine = discards ? 1 : 0;
  const auto all = all_gather_values(domains_->world(), {&mine, 1}, config_.timeout_ms);
  HORING_TRY(break_unless_ok(all.status(), step));
  const auto first = [&](uint64_t wanted) {
    const auto found = std::find(all->begin(), all->end(), wanted);
    const auto place = static_cast<size_t>(found - all->begin());
    return "rank " + std::to_string(world_order(domains_->groups())[place].value());
  };
  broken_ = {ho::StatusCode::kMismatch,
             "rank " + std::to_string(self().value()) + ", " + step + ": " + first(1) +
                 " calls discard after its last micro-batch, " + first(0) +
                 " ends the step; all ranks must end a step by the same call"};
  return broken_;
}

// All ranks have the sums that say that rates differ, so all of them come here. An abort would
// reach some of them before they do.
ho::Status StepRunner::refuse_rates(const std::string& step) {
  const auto mine = std::bit_cast<uint64_t>(learning_rate());
  const auto all = all_gather_values(domains_->world(), {&mine, 1}, config_.timeout_ms);
  HORING_TRY(break_unless_ok(all.status(), step + ", comparing learning rates"));
  const std::vector<ho::GlobalRank> ranks = world_order(domains_->groups());
  const auto text = [&](size_t place) {
    std::array<char, 32> rate{};  // the shortest that tells it from all others
    std::to_chars(rate.data(), rate.data() + rate.size(), std::bit_cast<double>((*all)[place]));
    return "rank " + std::to_string(ranks[place].value()) + " has " + rate.data();
  };
  const auto other =
      std::find_if(all->begin(), all->end(), [&](uint64_t rate) { return rate != all->front(); });
  broken_ = {ho::StatusCode::kMismatch,
             "rank " + std::to_string(self().value()) + ", " + step +
                 ": the ranks do not have the same learning rate: " + text(0) + ", " +
                 text(static_cast<size_t>(other - all->begin()) % all->size()) +
                 "; set the same on all ranks"};
  return broken_;
}

ho::Result<StepReport> StepRunner::step() {
  HORING_TRY(broken_);
  const auto start = Clock::now();
  const auto waited = counted_.wait_ns;
  const auto& computations = queues_[static_cast<size_t>(Channel::kCompute)];
  const size_t slots = 2 * config_.units.size() * plan_.shape.micro_batches;
  if (computing_ ||
      next_[static_cast<size_t>(Channel::kCompute)] != steps_ * computations.size() + slots) {
    HORING_TRY(expect(Act::kUpdate, 0, true));
    return ho::Status(ho::StatusCode::kInvalidArgument, "step() before any micro-batch");
  }
  HORING_TRY(decide(false));
  if (!agreed_.all_have_rate(learning_rate(), domains_->groups().world_size())) {
    return refuse_rates("step " + std::to_string(steps_ + 1));
  }
  if (agreed_.any_loaded()) {
    HORING_TRY(compare_loads());
  }
  double norm = std::sqrt(agreed_.squared_norm());
  const bool applies = agreed_.all_finite() && std::isfinite(norm);
  if (!applies) {
    const ho::Result<double> told = tell_left_out();
    HORING_TRY(break_unless_ok(told.status(),
                               "telling why step " + std::to_string(steps_ + 1) + " is left out"));
    norm = *told;
  }
  const double factor = averaging_factor() * clip_factor(norm, config_.max_norm);
  const double scale = scale_.value();
  const auto updating = Clock::now();
  HORING_TRY(update_all(slots, applies, factor));
  const auto ns = [](Clock::duration duration) {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  };
  StepReport report = counted_;
  counted_ = {};
  report.update_ns = ns(Clock::now() - updating);
  report.hook_ns += ns(updating - start) - (report.wait_ns - waited);
  const auto end = Clock::now();
  report.step_ns = ns(end - step_since_);
  step_since_ = end;
  report.step = ++steps_;
  report.micro_batches = std::exchange(step_micro_batches_, plan_.shape.micro_batches);
  report.applied = applies;
  report.norm = norm;
  report.loss_scale = scale;
  report.signalled = agreed_.any_signals();
  in_step_ = false;
  own_not_finite_ = {};
  if (config_.drift_interval > 0 && steps_ % config_.drift_interval == 0) {
    HORING_TRY(check_drift());
  }
  return report;
}

ho::Status StepRunner::synchronize() {
  HORING_TRY(broken_);
  for (ActionId id = 0; steps_ > 0 && id < plan_.actions.size(); ++id) {
    if (plan_.actions[id].phase == Phase::kSyncP) {
      HORING_TRY(finish((steps_ - 1) * plan_.actions.size() + id));
    }
  }
  return {};
}

}  // namespace paro
