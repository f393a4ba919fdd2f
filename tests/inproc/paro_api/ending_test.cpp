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
constexpr uint32_t kMax = 3;  // micro-batches

RunnerOptions options_for(const char* strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.alignment = 1;
  options.micro_batches = kMax;
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
    micro_batches(runner, kMax);
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

namespace {

// Deadlines are far away: what ends early ends for another reason.
constexpr uint64_t kFarMs = 300000;

using End = ho_status (*)(paro_runner*);
ho_status step(paro_runner* runner) {
  return paro_runner_step(runner, nullptr);
}
ho_status step_early(paro_runner* runner) {
  return paro_runner_step_early(runner, nullptr);
}

// A rank that ends otherwise than the others.
struct Other {
  int32_t rank;
  uint32_t micro_batches;
  End end;
};
struct Ending {
  Other other;
  uint32_t micro_batches;  // of the others
  End end;
  std::vector<const char*> texts;
};

// What a rank is told, be it in a hook or at the end.
std::string reported(Runner& runner, uint32_t count, End end) {
  try {
    micro_batches(runner, count);
  } catch (const Error& error) {
    return std::string(ho_status_name(error.status())) + ": " + error.what();
  }
  const ho_status status = end(runner.get());
  return status == HO_OK ? "nothing"
                         : std::string(ho_status_name(status)) + ": " + paro_last_error_message();
}

void expect_reported(ho_comm* comm, const char* strategy, const Ending& ending) {
  const int32_t rank = ho_comm_rank(comm);
  Runner runner = runner_of(comm, options_for(strategy));
  micro_batches(runner, kMax);
  runner.step();
  const bool other = rank == ending.other.rank;
  const std::string text = reported(runner,
                                    other ? ending.other.micro_batches : ending.micro_batches,
                                    other ? ending.other.end : ending.end);
  expect(text.starts_with(ho_status_name(HO_MISMATCH)), std::string(strategy) + ": " + text);
  expect(text.find("rank " + std::to_string(rank) + ", step 2: ") != std::string::npos, text);
  for (const char* part : ending.texts) {
    expect(text.find(part) != std::string::npos, std::string(part) + " in " + text);
  }
  expect(runner.applied_steps() == 1, "nothing was updated");
  // What was under way does not keep the ranks from going on.
  must(paro_runner_rejoin(runner.get(), comm));
  micro_batches(runner, 2);
  expect(runner.step_early().applied == 1, "goes on");
  std::vector<float> masters(5);
  runner.read_masters(0, masters);
  expect(masters[4] == -1, "two steps of 1: " + std::to_string(masters[4]));
}

}  // namespace

TEST_CASE("ranks that end a step differently are all told at once, and by whom") {
  const std::vector<Ending> endings{
      {{1, 1, step_early},
       2,
       step_early,
       {"rank 0 has begun micro-batch 2", "rank 1 calls step_early after 1 micro-batches"}},
      {{0, 1, step_early},
       kMax,
       step,
       {"rank 0 calls step_early after 1 micro-batches", "rank 1 has begun micro-batch 2"}},
      {{2, 2, paro_runner_discard},
       2,
       step_early,
       {"rank 0 calls step_early after 2 micro-batches",
        "rank 2 calls discard after 2 micro-batches"}},
      {{3, kMax, step},
       2,
       paro_runner_discard,
       {"rank 0 calls discard after 2 micro-batches", "rank 3 has begun micro-batch 3"}},
      {{3, kMax, paro_runner_discard},
       kMax,
       step,
       {"rank 3 calls discard after its last micro-batch, rank 0 ends the step"}}};
  for (const char* strategy : {"NNN", "NIG", "IIG", "GGG"}) {
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      for (const Ending& ending : endings) {
        expect_reported(comm, strategy, ending);
      }
    });
  }
}

TEST_CASE(
    "a step that is dropped leaves nothing behind, and dropping nothing needs no other rank") {
  for (const char* strategy : {"NNN", "NIG", "IIG", "GGG"}) {
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      Runner runner = runner_of(comm, options_for(strategy));
      for (uint32_t count = 1; count <= kMax; ++count) {
        micro_batches(runner, count, 100);
        runner.discard();
        if (ho_comm_rank(comm) == 1) {
          runner.discard();
        }
      }
      micro_batches(runner, kMax);
      const paro_step_report report = runner.step();
      expect(report.step == 1 && report.applied == 1, "is the first step");
      std::vector<float> masters(7);
      runner.read_masters(2, masters);
      expect(masters == std::vector<float>(7, 0), "has its own gradient alone");
    });
  }
}
