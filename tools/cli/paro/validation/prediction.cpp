#include "cli/paro/validation/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "cli/paro/validation/default_mfu.hpp"

namespace paro::tool {
namespace {

constexpr double kGrid = 32;  // simulations in a published step's time
constexpr double kMaxGrid = 100 * kGrid;
constexpr double kOrderShare = 0.05;

// Of the work of all passes, the forward one: a third where the backward one is twice as long, a
// quarter where it does the forward one again.
double forward_share(Recompute recomputation) {
  switch (recomputation) {
    case Recompute::kNone:
      return 1.0 / 3;
    case Recompute::kSelective:
      return 0.3;
    case Recompute::kFull:
      break;
  }
  return 0.25;
}

PlannerRequest request_of(const PublishedTable& table, const PublishedRow& row) {
  PlannerRequest request;
  request.model = {row.parameters, row.parameters};
  request.layers = row.layers;
  request.bytes.parameter = table.parameter_bytes;
  request.bytes.gradient = table.gradient_bytes;
  const GpuCluster cluster = cluster_of(table, row);
  request.world = {cluster.nodes, cluster.gpus_per_node};
  request.links = {
      cluster.gpu_bytes_per_s, cluster.nic_bytes_per_s, cluster.nics, WorldAlgorithm::kMultiRing};
  request.micro_batches = row.accumulation;
  request.forward_share = forward_share(row.recomputation);
  request.overlap = table.overlap;
  request.effects.launch_s = kGpuEffects.launch_s;
  return request;
}

// A row is calibrated on the least.
auto calibration_order(const PublishedTable& table, const PublishedRow& row) {
  return std::tuple(
      row.gpus <= table.machine.gpus_per_node, row.gpus, -double{1} * row.accumulation);
}

// Of one computation, in one table.
bool same_computation(const PublishedRow& a, const PublishedRow& b) {
  return a.model == b.model && a.recomputation == b.recomputation;
}

}  // namespace

RowSteps::RowSteps(const PublishedTable& table, const PublishedRow& row)
    : strategy_(row.strategy),
      request_(request_of(table, row)),
      tokens_(table.sequence * row.micro_batch * row.accumulation),
      published_s_(tokens_ / row.tokens_per_s) {
  const GpuCluster cluster = cluster_of(table, row);
  auto nccl = nccl_links(cluster);
  if (nccl.ok()) {
    request_.links.protocols = std::move(nccl->protocols);
    request_.links.trees = std::move(nccl->trees);
    cluster_status_ = check(request_);
  } else {
    cluster_status_ = nccl.status();
  }
}

ho::Result<StepPath> RowSteps::simulated(size_t grid_point) {
  HORING_TRY(cluster_status_);
  if (paths_.size() <= grid_point) {
    paths_.resize(grid_point + 1);
  }
  std::optional<StepPath>& path = paths_[grid_point];
  if (!path) {
    request_.compute_s = published_s_ * static_cast<double>(grid_point) / kGrid;
    HORING_ASSIGN(path, step_path(strategy_, request_));
  }
  return *path;
}

ho::Result<double> RowSteps::at(size_t grid_point, const Effects& effects) {
  HORING_ASSIGN(const StepPath path, simulated(grid_point));
  return step_range(path.path_s, path.compute_s, path.busy_s, effects, request_.world.ranks())
      .expected_s;
}

ho::Result<double> RowSteps::expected_s(double compute_s, const Effects& effects) {
  const double position = compute_s / published_s_ * kGrid;
  const auto below = static_cast<size_t>(std::clamp(std::floor(position), 0.0, kMaxGrid));
  HORING_ASSIGN(const double least, at(below, effects));
  HORING_ASSIGN(const double most, at(below + 1, effects));
  return least + (most - least) * (position - static_cast<double>(below));
}

ho::Result<double> RowSteps::calibrated_s(const Effects& effects) {
  size_t below = 0;
  auto above = static_cast<size_t>(kGrid);  // all of the step computes: no less than published
  while (above - below > 1) {
    const size_t middle = (below + above) / 2;
    HORING_ASSIGN(const double step_s, at(middle, effects));
    (step_s > published_s_ ? above : below) = middle;
  }
  HORING_ASSIGN(const double least, at(below, effects));
  HORING_ASSIGN(const double most, at(above, effects));
  const double share = std::max((published_s_ - least) / (most - least), 0.0);
  return published_s_ / kGrid * (static_cast<double>(below) + share);
}

Validation::Validation(const std::vector<PublishedTable>& tables) {
  for (const PublishedTable& table : tables) {
    if (table.use == TableUse::kDefaultMfu) {
      by_default_mfu_.push_back(&table);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(rows_.size());
    for (const PublishedRow& row : table.rows) {
      rows_.push_back({&table, &row, RowSteps(table, row), 0});
    }
    for (size_t i = rows_.size() - table.rows.size(); i < rows_.size(); ++i) {
      const PublishedRow& row = *rows_[i].row;
      // Of equals the first one.
      const auto best =
          std::min_element(rows_.begin() + first, rows_.end(), [&](const Row& a, const Row& b) {
            return std::tuple(!same_computation(*a.row, row), calibration_order(table, *a.row)) <
                   std::tuple(!same_computation(*b.row, row), calibration_order(table, *b.row));
          });
      rows_[i].calibrated_on = static_cast<size_t>(best - rows_.begin());
    }
  }
}

ho::Result<std::vector<RowPrediction>> Validation::predict(const Effects& effects) {
  std::vector<RowPrediction> predictions;
  std::map<size_t, double> compute_s;  // for a token, by the row that it is calibrated on
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    RowSteps& calibration = rows_[row.calibrated_on].steps;
    if (compute_s.find(row.calibrated_on) == compute_s.end()) {
      HORING_ASSIGN(const double seconds, calibration.calibrated_s(effects));
      compute_s[row.calibrated_on] = seconds / calibration.tokens();
    }
    const double compute = compute_s[row.calibrated_on] * row.steps.tokens();
    HORING_ASSIGN(const double step_s, row.steps.expected_s(compute, effects));
    const double known = rows_[row.calibrated_on].row->tokens_per_s;
    predictions.push_back({row.table,
                           row.row,
                           row.calibrated_on == i,
                           row.steps.tokens() / step_s,
                           known / row.row->tokens_per_s - 1});
  }
  for (const PublishedTable* const table : by_default_mfu_) {
    for (const PublishedRow& row : table->rows) {
      HORING_ASSIGN(const DefaultMfuStep step, default_mfu_step(*table, row, effects));
      predictions.push_back(
          {table, &row, false, step.tokens_per_s, row.tokens_per_s / step.alone - 1});
    }
  }
  return predictions;
}

Score score_of(const std::vector<RowPrediction>& predictions) {
  Score score;
  for (const RowPrediction& prediction : predictions) {
    for (const RowPrediction* other = predictions.data(); other != &prediction; ++other) {
      const double published = other->row->tokens_per_s / prediction.row->tokens_per_s;
      if (other->table != prediction.table || other->row->model != prediction.row->model ||
          std::max(published, 1 / published) <= 1 + kOrderShare) {
        continue;
      }
      ++score.pairs;
      score.in_order +=
          (other->tokens_per_s > prediction.tokens_per_s) == (published > 1) ? 1U : 0U;
    }
    if (!prediction.calibrates) {
      const double error = std::abs(prediction.error());
      ++score.rows;
      score.mean += error;
      score.worst = std::max(score.worst, error);
      score.without += std::abs(prediction.without_error);
    }
  }
  if (score.rows > 0) {
    score.mean /= static_cast<double>(score.rows);
    score.without /= static_cast<double>(score.rows);
  }
  return score;
}

ho::Result<Effects> fitted(const std::vector<PublishedTable>& tables, const Effects& start) {
  std::vector<PublishedTable> fit;
  std::copy_if(tables.begin(), tables.end(), std::back_inserter(fit), [](const auto& table) {
    return table.use == TableUse::kFit;
  });
  Validation validation(fit);
  constexpr int kSlowdowns = 50;
  constexpr int kJitters = 25;
  Effects best = start;
  double least = std::numeric_limits<double>::infinity();
  for (int slowdown = 0; slowdown <= kSlowdowns; ++slowdown) {
    for (int jitter = 0; jitter <= kJitters; ++jitter) {
      const Effects effects{slowdown / 50.0, jitter / 500.0, start.launch_s};
      HORING_ASSIGN(const auto predictions, validation.predict(effects));
      const double mean = score_of(predictions).mean;
      if (mean < least) {
        least = mean;
        best = effects;
      }
    }
  }
  return best;
}

}  // namespace paro::tool
