// What the planner says of published rows. Pure.
//
// Computation is calibrated on one row of each table, model and recomputation, so that the planner
// gives that row's throughput: the row of fewest GPUs that are more than a node's (within a node
// memory often forces other micro-batches), of equals the one with most micro-batches. It is not
// scored; all other rows are. The predictor beside it knows no communication: every row has the
// calibrated row's throughput. Tables whose use is kDefaultMfu have no calibrated row
// (default_mfu.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "cli/paro/validation/published.hpp"
#include "planner/effects.hpp"
#include "planner/figures.hpp"
#include "planner/request.hpp"

namespace paro::tool {

// A row's step, by how long a step of it computes. Simulated once for each multiple of a 32nd of
// the published step, straight in between; so all effects are tried without another simulation.
class RowSteps {
 public:
  RowSteps(const PublishedTable& table, const PublishedRow& row);

  // Seconds of a step with `compute_s` of computation.
  [[nodiscard]] ho::Result<double> expected_s(double compute_s, const Effects& effects);
  // Of computation, with which the step takes as long as published.
  [[nodiscard]] ho::Result<double> calibrated_s(const Effects& effects);
  [[nodiscard]] double published_s() const { return published_s_; }
  [[nodiscard]] double tokens() const { return tokens_; }  // of a GPU in a step

 private:
  [[nodiscard]] ho::Result<StepPath> simulated(size_t grid_point);
  // Seconds of a step.
  [[nodiscard]] ho::Result<double> at(size_t grid_point, const Effects& effects);

  Strategy strategy_;
  PlannerRequest request_;
  ho::Status cluster_status_;  // of the cluster
  double tokens_;
  double published_s_;
  std::vector<std::optional<StepPath>> paths_;  // by grid point
};

struct RowPrediction {
  const PublishedTable* table = nullptr;
  const PublishedRow* row = nullptr;
  bool calibrates = false;   // itself, and the rows like it
  double tokens_per_s = 0;   // planned
  double without_error = 0;  // of the predictor without communication
  // Of tokens per second; with the default MFU, where tables and target have times, of the step.
  [[nodiscard]] double error() const {
    return table->use == TableUse::kDefaultMfu ? row->tokens_per_s / tokens_per_s - 1
                                               : tokens_per_s / row->tokens_per_s - 1;
  }
};

// Of several tables.
class Validation {
 public:
  explicit Validation(const std::vector<PublishedTable>& tables);

  [[nodiscard]] ho::Result<std::vector<RowPrediction>> predict(const Effects& effects);

 private:
  struct Row {
    const PublishedTable* table;
    const PublishedRow* row;
    RowSteps steps;
    size_t calibrated_on;  // an index of rows_
  };
  std::vector<Row> rows_;
  std::vector<const PublishedTable*> by_default_mfu_;
};

struct Score {
  size_t rows = 0;  // that are scored
  double mean = 0;  // of errors' sizes
  double worst = 0;
  double without = 0;  // mean of the predictor without communication
  // Of pairs of rows of one model whose published throughputs differ by more than 5 %.
  size_t pairs = 0;
  size_t in_order = 0;
};

// Of the scored rows; order counts calibrated ones too.
[[nodiscard]] Score score_of(const std::vector<RowPrediction>& predictions);

// Slowdown and jitter that have the least mean error on the tables that are there to be fitted: the
// best of a grid of 0.02 and 0.002. The launch stays.
[[nodiscard]] ho::Result<Effects> fitted(const std::vector<PublishedTable>& tables,
                                         const Effects& start);

}  // namespace paro::tool
