// Steps that end after fewer micro-batches than there are: what becomes of them, and what ranks are
// told that end them differently.
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

constexpr uint32_t kUnits = 3;
constexpr uint32_t kMost = 3;  // micro-batches

RunnerOptions options_for(const char* strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.alignment = 1;
  options.micro_batches = kMost;
  options.optimizer = PARO_OPTIMIZER_SGD;
  options.sgd = {1, 0, 0};
  return options;
}

Runner runner_of(ho_comm* comm, const RunnerOptions& options) {
  Runner runner = Runner::create(comm, options, {{"first", 5, 2}, {"second", 4, 3}, {"third", 7}});
  for (const auto& [unit, trained, frozen] :
       {std::tuple<uint32_t, size_t, size_t>{0, 5, 2}, {1, 4, 3}, {2, 7, 0}}) {
    runner.load(unit, std::vector<float>(trained, 1), std::vector<float>(frozen, 2));
  }
  return runner;
}

void micro_batches(Runner& runner, uint32_t count, float gradient = 1) {
  for (uint32_t k = 0; k < count; ++k) {
    for (uint32_t u = 0; u < kUnits; ++u) {
      static_cast<void>(runner.before_forward(u));
      runner.after_forward(u);
    }
    for (uint32_t u = kUnits; u-- > 0;) {
      for (float& one : runner.before_backward(u).gradients<float>()) {
        one += gradient;
      }
      runner.after_backward(u);
    }
  }
}

}  // namespace

TEST_CASE("a step log has each step's number of micro-batches") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x1"}, [&](ho_comm* comm) {
    RunnerOptions options = options_for("IIG");
    options.step_log = folder.path("steps-%r.jsonl");
    Runner runner = runner_of(comm, options);
    micro_batches(runner, kMost);
    runner.step();
    micro_batches(runner, 1);
    runner.step_early();
    micro_batches(runner, 2);
    runner.discard();
    runner.set_micro_batches(2);
    micro_batches(runner, 2);
    runner.step();
    micro_batches(runner, 1);
    runner.step_early();
    std::ifstream file(folder.path("steps-" + std::to_string(ho_comm_rank(comm)) + ".jsonl"));
    std::vector<int> counts;
    for (std::string line; std::getline(file, line);) {
      counts.push_back(nlohmann::json::parse(line)["micro_batches"]);
    }
    expect(counts == std::vector<int>{3, 1, 2, 1}, "has the numbers");
  });
}
