// A file that somebody writes while a job runs changes its strategy, or nothing; links that are not
// what they were make it look for a better one.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;
using ho::test::TemporaryFolder;

namespace {

constexpr uint64_t kSteps = 10;

toy::Training training_of(const std::string& triple) {
  toy::Training training = hard_training(parse_strategy(triple).value(), 1);
  training.steps = kSteps;
  return training;
}

// As an operator should: whoever reads it sees all of it or none.
void put(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new", std::ios::binary) << text;
  std::filesystem::remove_all(path);
  std::filesystem::rename(path + ".new", path);
}

struct Steered {
  toy::Outcome outcome;
  std::vector<std::string> strategies;  // after each step, the same on all ranks
  uint64_t predicted_bytes = 0;         // at the end, on the fullest rank
};

using Prepare = std::function<void(paro_runner_options&)>;
// What a rank does before a step.
using Meanwhile = std::function<void(int rank, uint64_t step)>;

// Trains on 2x2, from IIG.
Steered train(const std::string& file, const Meanwhile& meanwhile, const Prepare& prepare = {}) {
  Steered steered;
  std::mutex guard;
  require_job({"2x2"}, [&](ho_comm* comm) {
    const toy::Training training = training_of("IIG");
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.frozen = PARO_AS_PARAMETERS;
    options.strategy_file = file.c_str();
    if (prepare) {
      prepare(options);
    }
    Trainer trainer(comm, training, options);
    const bool first = ho_comm_rank(comm) == 0;
    for (uint64_t s = 0; s < kSteps; ++s) {
      meanwhile(ho_comm_rank(comm), s);
      const toy::StepOutcome step = trainer.step(comm, s);
      char now[4] = {};
      must(paro_runner_strategy(trainer.runner(), now, sizeof now));
      const std::scoped_lock lock(guard);
      if (steered.strategies.size() <= s) {
        steered.strategies.emplace_back(now);
      }
      expect(steered.strategies[s] == now, "all ranks change at one step");
      if (first) {
        steered.outcome.steps.push_back(step);
      }
    }
    must(paro_runner_check_drift(trainer.runner()));
    const auto masters = trainer.masters();
    paro_memory memory = PARO_MEMORY_INIT;
    must(paro_runner_memory(trainer.runner(), PARO_MEMORY_STATES, &memory));
    const std::scoped_lock lock(guard);
    steered.predicted_bytes = std::max(steered.predicted_bytes, memory.predicted_bytes);
    if (first) {
      steered.outcome.masters = masters;
    }
  });
  return steered;
}

// While rank 0 does something to the file before it computes a step.
Steered train_steered(const std::string& file,
                      const std::map<uint64_t, std::function<void()>>& deeds,
                      const Prepare& prepare = {}) {
  const auto deed = [&](int rank, uint64_t step) {
    if (rank == 0 && deeds.contains(step)) {
      deeds.at(step)();
    }
  };
  return train(file, deed, prepare);
}

void check_like_one_rank(const Steered& steered) {
  const toy::Training training = training_of("NNN");
  CHECK(difference(steered.outcome, train_single_rank(4, training), kFloat32Tolerance).empty());
}

int32_t descend(const paro_shard* shard, void* /*user*/) {
  for (uint64_t i = 0; i < shard->count; ++i) {
    shard->master[i] -= static_cast<float>(shard->learning_rate) * shard->gradient[i];
  }
  return 0;
}

}  // namespace

TEST_CASE(
    "a file changes the strategy at one step of all ranks, and what is wrong with it nothing") {
  const TemporaryFolder folder;
  const std::string file = folder.path("strategy");
  put(file, "NNN\n");  // of a job before this one
  const auto text = [&](const std::string& content) {
    return [&, content] { put(file, content); };
  };
  const Steered steered = train_steered(file,
                                        {{1, text("GGG or so\x1b[2J")},
                                         {2, text("GGG\n")},
                                         {3, text("strategy = ggg\nbudget=100000000")},
                                         {4,
                                          [&] {
                                            std::filesystem::remove(file);
                                            std::filesystem::create_directory(file);
                                          }},
                                         {5, text("NNN\nbudget=1000\n")},
                                         {6, text("# as if it mattered\n\nnig\n")},
                                         {7, text("budget=1000")},
                                         {8, text(std::string(100000, 'N'))},
                                         {9, [&] { std::filesystem::remove(file); }}});
  const std::vector<std::string> wanted{
      "IIG", "IIG", "GGG", "GGG", "GGG", "GGG", "NIG", "NIG", "NIG", "NIG"};
  CHECK(steered.strategies == wanted);
  check_like_one_rank(steered);
}

TEST_CASE("a budget in the file chooses a strategy where that is asked for") {
  const TemporaryFolder folder;
  const std::string file = folder.path("strategy");
  // Above what GGG needs and below what any strategy with whole parameters does.
  uint64_t budget = 0;
  const auto bytes_of = [&](const char* strategy) {
    return train_steered(file, {{1, [&] { put(file, strategy); }}}).predicted_bytes;
  };
  budget = (bytes_of("GGG") + bytes_of("IIG")) / 2;
  const auto automatic = [](paro_runner_options& options) {
    options.auto_strategy = 1;
    options.auto_interval = 0;
  };
  const auto lower = [&] { put(file, "budget=" + std::to_string(budget)); };
  const auto impossible = [&] { put(file, "budget=7"); };
  const Steered steered = train_steered(file, {{3, lower}, {6, impossible}}, automatic);
  CHECK(steered.strategies[2] == "IIG");
  CHECK(steered.strategies[3] != "IIG");
  CHECK(steered.strategies[9] == steered.strategies[3]);
  CHECK(steered.predicted_bytes <= budget);
  check_like_one_rank(steered);
  // However links seem to change, training goes on as if nothing had been.
  const Steered watched = train_steered(file, {}, [](paro_runner_options& options) {
    options.auto_strategy = 1;
    options.auto_interval = 2;
  });
  check_like_one_rank(watched);
}

TEST_CASE("links that seem to have slowed down are measured before anything is changed") {
  // One rank is late, more and more: to the others links take longer.
  ho::test::CaughtStderr caught;
  const auto delay = [&](int rank, uint64_t step) {
    if (rank == 3 && step >= 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(8U << step));
    }
  };
  const Steered steered = train("", delay, [](paro_runner_options& options) {
    options.auto_strategy = 1;
    options.auto_interval = 1;
  });
  const std::string log = caught.end();
  INFO(log);
  const size_t requested = log.find("ns per byte");
  REQUIRE(requested != std::string::npos);
  CHECK(log.find("links carry ", requested) != std::string::npos);
  check_like_one_rank(steered);
}

TEST_CASE("an optimizer of the framework's own is steered too") {
  const TemporaryFolder folder;
  const std::string file = folder.path("strategy");
  const Steered steered =
      train_steered(file,
                    {{2, [&] { put(file, "III"); }}, {4, [&] { put(file, "GGG"); }}},
                    [](paro_runner_options& options) {
                      options.optimizer = PARO_OPTIMIZER_CUSTOM;
                      options.custom = {descend, nullptr, 0.01, nullptr, 0};
                    });
  CHECK(steered.strategies[1] == "IIG");
  CHECK(steered.strategies[3] == "III");
  CHECK(steered.strategies[4] == "GGG");
}

TEST_CASE("options of steering that cannot work are refused") {
  require_job({"1x1"}, [&](ho_comm* comm) {
    const toy::Training training = training_of("NNN");
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.auto_strategy = 2;
    const paro_unit unit{"one", 16, 0, nullptr};
    paro_runner* runner = nullptr;
    expect_refusal(paro_runner_create(comm, &options, &unit, 1, &runner),
                   HO_INVALID_ARGUMENT,
                   "auto_strategy is 2");
  });
}
