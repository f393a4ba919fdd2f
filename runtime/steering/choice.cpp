#include "steering/choice.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planner/planner.hpp"
#include "run/agreement.hpp"
#include "run/budget.hpp"

namespace paro::steering {
namespace {

ho::Status unsupported(const std::string& why) {
  return {ho::StatusCode::kUnsupported, why};
}

ho::Result<WorldShape> shape_of(const ho_comm* comm, const ho::GroupMap& groups) {
  const uint32_t size = groups.group_size(ho::GroupIndex(0));
  for (uint32_t group = 1; group < groups.group_count(); ++group) {
    if (groups.group_size(ho::GroupIndex(group)) != size) {
      return unsupported("groups are of different sizes, and the planner's formulas take one");
    }
  }
  for (uint32_t rank = 0; rank < groups.world_size(); ++rank) {
    if (ho_comm_group_of(comm, static_cast<int32_t>(rank)) !=
        static_cast<int32_t>(groups.group_of(ho::GlobalRank(rank)).value())) {
      return unsupported("groups are not the nodes, whose links are measured");
    }
  }
  return WorldShape{groups.group_count(), size};
}

// Bytes per second of this rank's links.
ho::Result<std::vector<uint64_t>> rates_here(const ho_comm* comm, bool between_nodes) {
  size_t count = 0;
  HORING_TRY(checked(ho_comm_link_rates(comm, nullptr, 0, &count)));
  std::vector<ho_link_rate> rates(count);
  HORING_TRY(checked(ho_comm_link_rates(comm, rates.data(), rates.size(), &count)));
  std::vector<uint64_t> found;
  for (const ho_link_rate& rate : rates) {
    if ((rate.rail >= 0) == between_nodes) {
      found.push_back(static_cast<uint64_t>(rate.bytes_per_second));
    }
  }
  return found;
}

// Of every rank, ascending.
ho::Result<std::vector<uint64_t>> rates_of_all(ho_comm* comm, bool between_nodes) {
  HORING_ASSIGN(std::vector<uint64_t> mine, rates_here(comm, between_nodes));
  const std::vector<uint64_t> counts{mine.size()};
  HORING_ASSIGN(const auto all_counts, all_gather_values(comm, counts));
  constexpr uint64_t kNoLink = ~uint64_t{0};
  constexpr uint64_t kMaxLinks = 1U << 16U;
  const uint64_t most = *std::max_element(all_counts.begin(), all_counts.end());
  if (most > kMaxLinks) {
    return ho::Status(ho::StatusCode::kProtocol,
                      "a rank reports " + std::to_string(most) + " links");
  }
  mine.resize(most, kNoLink);
  if (mine.empty()) {
    return mine;
  }
  HORING_ASSIGN(std::vector<uint64_t> all, all_gather_values(comm, mine));
  std::erase(all, kNoLink);
  std::sort(all.begin(), all.end());
  return all;
}

// With what pads them to equal parts of all ranks, as NCCL's collectives want them.
std::vector<UnitShape> padded(std::vector<UnitShape> units, uint64_t multiple) {
  for (UnitShape& unit : units) {
    unit.trained = (unit.trained + multiple - 1) / multiple * multiple;
    unit.frozen = (unit.frozen + multiple - 1) / multiple * multiple;
  }
  return units;
}

// The model part of the request: layers of equal size, and one unit that others share, as large as
// what is shared is on average.
void set_model(const std::vector<UnitShape>& units, PlannerRequest& request) {
  size_t sharing = 0;
  for (const UnitShape& unit : units) {
    request.model.parameters += static_cast<double>(unit.trained + unit.frozen);
    request.model.trainable += static_cast<double>(unit.trained);
    if (unit.shares) {
      const UnitShape& home = units[*unit.shares];
      request.model.shared += static_cast<double>(home.trained + home.frozen);
      request.model.shared_trainable += static_cast<double>(home.trained);
      ++sharing;
    }
  }
  if (request.model.shared == 0) {  // of units without elements
    sharing = 0;
  }
  const size_t own = units.size() - sharing - (sharing == 0 ? 0 : 1);
  request.layers = static_cast<uint32_t>(std::clamp<size_t>(own, 1, kMaxLayers));
  request.sharing_units = static_cast<uint32_t>(std::min<size_t>(sharing, kMaxLayers));
  if (sharing > kMaxLayers) {
    request.model.shared *= double{kMaxLayers} / static_cast<double>(sharing);
    request.model.shared_trainable *= double{kMaxLayers} / static_cast<double>(sharing);
  }
}

}  // namespace

PlannerRequest request_of(const RunnerConfig& config,
                          const MeasuredLinks& measured,
                          double compute_s) {
  PlannerRequest request;
  const uint64_t multiple = config.on_device ? measured.world.ranks() * config.alignment : 1;
  set_model(padded(config.units, multiple), request);
  constexpr double kFloatBytes = 4;
  const auto own_states = config.optimizer ? static_cast<double>(config.optimizer_states.size())
                                           : static_cast<double>(state_count(config.rule));
  request.bytes = {static_cast<double>(ho::size_bytes(config.parameter_dtype)),
                   static_cast<double>(ho::size_bytes(sent_dtype(config))),
                   kFloatBytes * (1 + own_states),
                   static_cast<double>(ho::size_bytes(sum_dtype(config))),
                   config.gradient_dtype == sent_dtype(config)
                       ? 0.0
                       : static_cast<double>(ho::size_bytes(config.gradient_dtype))};
  request.world = measured.world;
  request.links = measured.links;
  request.micro_batches = config.micro_batches;
  request.prefetch = std::min(config.prefetch, unit_count(request));
  request.bucket_bytes = config.bucket_bytes;
  request.compute_s = compute_s;
  return request;
}

ho::Result<MeasuredLinks> measure_links(ho_comm* comm, const ho::GroupMap& groups) {
  HORING_ASSIGN(const WorldShape world, shape_of(comm, groups));  // the same on all ranks
  HORING_TRY(checked(ho_comm_measure_links(comm)));
  HORING_ASSIGN(const auto intra, rates_of_all(comm, false));
  HORING_ASSIGN(const auto inter, rates_of_all(comm, true));
  if ((world.group_size > 1 && (intra.empty() || intra.front() == 0)) ||
      (world.group_count > 1 && (inter.empty() || inter.front() == 0))) {
    return ho::Status(ho::StatusCode::kConnection,
                      "a link carried nothing while it was measured; horing doctor shows which");
  }
  MeasuredLinks measured{world, {}};
  // Inside nodes links differ by what processors do meanwhile; between them the slowest counts for
  // all.
  measured.links.intra_bytes_per_s =
      intra.empty() ? 0 : static_cast<double>(intra[(intra.size() - 1) / 2]);
  measured.links.inter_bytes_per_s = inter.empty() ? 0 : static_cast<double>(inter.front());
  measured.links.nics_per_group = std::max(1, ho_comm_rail_count(comm));
  return measured;
}

Candidate candidate(const Strategy& strategy,
                    const RunnerConfig& config,
                    bool frozen_as_parameters) {
  return {strategy, frozen_as_parameters ? strategy.parameters : config.frozen};
}

ho::Status check_possible(const StepRunner& runner,
                          const Candidate& wanted,
                          uint64_t budget_bytes) {
  HORING_ASSIGN(
      const uint64_t bytes,
      most_bytes(
          runner.shards(), runner.plan().shape, wanted.strategy, wanted.frozen, runner.groups()));
  return budget_bytes == 0 || bytes <= budget_bytes
             ? ho::Status()
             : ho::Status(ho::StatusCode::kOutOfMemory,
                          letters(wanted.strategy) + " needs " + std::to_string(bytes) +
                              " bytes on the fullest rank, the budget is " +
                              std::to_string(budget_bytes));
}

ho::Status check_any_possible(const StepRunner& runner,
                              uint64_t budget_bytes,
                              bool frozen_as_parameters) {
  for (const Strategy& strategy : all_strategies()) {
    const Candidate one = candidate(strategy, runner.config(), frozen_as_parameters);
    if (check_possible(runner, one, budget_bytes).ok()) {
      return {};
    }
  }
  return {ho::StatusCode::kOutOfMemory,
          "no strategy is possible with a budget of " + std::to_string(budget_bytes) + " bytes"};
}

ho::Result<std::optional<Strategy>> better_strategy(const StepRunner& runner,
                                                    const MeasuredLinks& measured,
                                                    const Question& question) {
  const RunnerConfig& config = runner.config();
  const PlannerRequest request = request_of(config, measured, question.compute_s);
  HORING_TRY(check(request));
  std::optional<double> present;  // seconds of a step
  std::vector<StrategyFigures> figures;
  std::vector<size_t> possible;
  for (const Strategy& strategy : all_strategies()) {
    const Candidate one = candidate(strategy, config, question.frozen_as_parameters);
    if (!check_possible(runner, one, question.budget_bytes).ok()) {
      continue;
    }
    HORING_ASSIGN(const StrategyFigures one_s, figures_of(strategy, request));
    if (strategy == config.strategy) {
      present = one_s.time.step_s;
    }
    possible.push_back(figures.size());
    figures.push_back(one_s);
  }
  if (possible.empty()) {
    return std::optional<Strategy>();
  }
  const StrategyFigures& best = figures[in_order(std::move(possible), figures).front()];
  const bool worth_it = !present || best.time.step_s <= (1 - kMinGain) * *present;
  return worth_it ? std::optional<Strategy>(best.strategy) : std::nullopt;
}

}  // namespace paro::steering
