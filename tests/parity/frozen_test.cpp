// Whatever is split over what: a view has its own unit's parameters. Units are of equal size, so
// that no other unit's would be noticed by their size.
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "run/step_runner.hpp"

using namespace paro;

namespace {

constexpr uint32_t kUnits = 4;
constexpr uint64_t kElements = 64;
constexpr uint32_t kSteps = 4;

// Trained values begin as a unit's number and sink by 1/2^10 in each step: exact in fp32.
float trained_value(uint32_t unit, uint32_t step) {
  return static_cast<float>(unit) - static_cast<float>(step) / 1024.0F;
}

float frozen_value(uint32_t unit) {
  return 100.0F + static_cast<float>(unit);
}

// "" or what a view has instead of `wanted`.
std::string wrong(const void* values, float wanted, const std::string& what) {
  const auto* const floats = static_cast<const float*>(values);
  for (uint64_t i = 0; i < kElements; ++i) {
    if (floats[i] != wanted) {
      std::ostringstream text;
      text << what << ", element " << i << ": " << floats[i] << " instead of " << wanted << "\n";
      return text.str();
    }
  }
  return "";
}

std::string wrong(const UnitView& view, uint32_t unit, uint32_t step) {
  const std::string where = "step " + std::to_string(step) + ", unit " + std::to_string(unit);
  return wrong(view.trained, trained_value(unit, step), where + ", trained") +
         wrong(view.frozen, frozen_value(unit), where + ", frozen");
}

// Trains on this rank: the first complaint, of a view or of the runner.
std::string train(ho_comm* comm, const RunnerConfig& config) {
  HostMemory memory;
  auto runner = StepRunner::create(comm, nodes_of(comm).value(), config, memory);
  std::string complaint = runner.status().message();
  const auto note = [&](const std::string& text) { complaint += complaint.empty() ? text : ""; };
  for (uint32_t u = 0; u < kUnits && complaint.empty(); ++u) {
    const std::vector<float> trained(kElements, trained_value(u, 0));
    const std::vector<float> frozen(kElements, frozen_value(u));
    note((*runner)->between_steps().load(u, trained, frozen).message());
  }
  const auto visit = [&](bool forward, uint32_t unit, uint32_t step) {
    const auto view = forward ? (*runner)->before_forward(unit) : (*runner)->before_backward(unit);
    note(view.status().message());
    if (!view.ok()) {
      return;
    }
    note(wrong(*view, unit, step));
    for (uint64_t i = 0; !forward && i < kElements; ++i) {
      static_cast<float*>(view->gradients)[i] += 1;
    }
    note((forward ? (*runner)->after_forward(unit) : (*runner)->after_backward(unit)).message());
  };
  // Goes on after a wrong view: the other ranks need not have one.
  for (uint32_t step = 0; step < kSteps && runner.ok() && (*runner)->broken().ok(); ++step) {
    for (uint32_t u = 0; u < kUnits; ++u) {
      visit(true, u, step);
    }
    for (uint32_t u = kUnits; u-- > 0;) {
      visit(false, u, step);
    }
    note((*runner)->step().status().message());
  }
  if (runner.ok()) {
    note((*runner)->synchronize().message());
  }
  return complaint;
}

RunnerConfig config_of(const Strategy& strategy, Scope frozen) {
  RunnerConfig config;
  config.strategy = strategy;
  config.frozen = frozen;
  config.units.assign(kUnits, {"unit", kElements, kElements});
  config.rule = Sgd{1.0 / 1024, 0, 0};
  config.loss_scale.scaling = Scaling::kNone;
  config.timeout_ms = 60000;
  return config;
}

void check_views(const char* nodes, const std::vector<RunnerConfig>& configs) {
  ho::test::JobOptions options;
  options.groups = nodes;
  std::vector<std::vector<std::string>> found(ho::GroupMap::parse(nodes)->world_size());
  ho::test::require_job(options, [&](ho_comm* comm) {
    for (const RunnerConfig& config : configs) {
      found[static_cast<size_t>(ho_comm_rank(comm))].push_back(train(comm, config));
    }
  });
  for (size_t i = 0; i < configs.size(); ++i) {
    for (size_t rank = 0; rank < found.size(); ++rank) {
      INFO(letters(configs[i].strategy)
           << ", frozen " << letter(configs[i].frozen) << " on " << nodes << ", rank " << rank);
      CHECK(found[rank][i] == "");
    }
  }
}

}  // namespace

TEST_CASE("views are right where frozen parameters are split like optimizer state", "[frozen]") {
  std::vector<RunnerConfig> configs;
  for (const Strategy& strategy : all_strategies()) {
    configs.push_back(config_of(strategy, strategy.optimizer));
  }
  check_views("3+1", configs);
}

TEST_CASE("views are right with frozen parameters at every scope", "[more]") {
  std::vector<RunnerConfig> configs;
  for (const Strategy& strategy : all_strategies()) {
    for (const Scope frozen : {Scope::kReplicated, Scope::kGroup, Scope::kWorld}) {
      configs.push_back(config_of(strategy, frozen));
    }
  }
  for (const char* nodes : {"3+1", "1+1+2"}) {
    check_views(nodes, configs);
  }
}
