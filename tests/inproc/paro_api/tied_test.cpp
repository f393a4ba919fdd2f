// What frameworks need of a step: parameters that two units share, groups with a weight decay and
// rate of their own, steps that end early, begin anew, or have another number of micro-batches.
//
// The model is a formula: a unit's gradient follows from unit, element, rank and micro-batch, and
// from the parameters that its view shows. So a copy that is stale, a gradient that is lost or
// counted twice, and a divisor that is wrong all end in other masters than one rank comes to.
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "strategy/strategy.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

constexpr uint32_t kUnits = 5;
constexpr uint32_t kMax = 3;  // micro-batches
constexpr double kRate = 0.125;
// Unit 2 and the last share the first one's parameters.
constexpr std::array<uint32_t, kUnits> kHome{0, 1, 0, 3, 0};
constexpr std::array<size_t, kUnits> kTrained{13, 9, 0, 5, 0};
constexpr std::array<size_t, kUnits> kFrozen{0, 2, 0, 0, 0};

std::vector<Unit> units() {
  return {{"table", 13, 0},
          {"block", 9, 2},
          {"middle", 0, 0, "table"},
          {"gain", 5, 0},
          {"head", 0, 0, "table"}};
}

using Weights = std::array<std::vector<float>, kUnits>;

Weights initial() {
  Weights weights;
  for (uint32_t u = 0; u < kUnits; ++u) {
    for (size_t i = 0; i < kTrained[u]; ++i) {
      weights[u].push_back(static_cast<float>(u + 1) - 0.25F * static_cast<float>(i));
    }
  }
  return weights;
}

float slope(uint32_t unit, size_t i, uint32_t rank, uint32_t micro_batch, float weight) {
  return static_cast<float>(unit + 1) * 0.5F + static_cast<float>(i % 3) +
         static_cast<float>(rank) * 0.25F - static_cast<float>(micro_batch) + 0.125F * weight;
}

// A group's, by unit and element.
struct Setting {
  double factor = 1;
  double decay = 0;
};
using Settings = std::function<Setting(uint32_t unit, size_t i)>;

// What SGD comes to where one rank has all the data.
void step_single_rank(Weights& weights,
                      uint32_t ranks,
                      uint32_t micro_batches,
                      const Settings& settings) {
  const Weights before = weights;
  for (uint32_t home = 0; home < kUnits; ++home) {
    for (size_t i = 0; i < weights[home].size(); ++i) {
      double sum = 0;
      for (uint32_t u = 0; u < kUnits; ++u) {
        for (uint32_t k = 0; kHome[u] == home && k < micro_batches; ++k) {
          for (uint32_t rank = 0; rank < ranks; ++rank) {
            sum += static_cast<double>(slope(u, i, rank, k, before[home][i]));
          }
        }
      }
      const Setting setting = settings(home, i);
      const double gradient =
          sum / ranks / micro_batches + setting.decay * static_cast<double>(before[home][i]);
      weights[home][i] = static_cast<float>(static_cast<double>(before[home][i]) -
                                            kRate * setting.factor * gradient);
    }
  }
}

void micro_batch(Runner& runner, uint32_t rank, uint32_t k, const Weights& expected) {
  for (uint32_t u = 0; u < kUnits; ++u) {
    const auto view = runner.before_forward(u);
    expect(view.trained<float>().size() == kTrained[kHome[u]], "shows the shared unit's elements");
    runner.after_forward(u);
  }
  for (uint32_t u = kUnits; u-- > 0;) {
    const auto view = runner.before_backward(u);
    const auto weights = view.trained<float>();
    for (size_t i = 0; i < weights.size(); ++i) {
      expect(std::abs(weights[i] - expected[kHome[u]][i]) < 1e-4F, "has the present parameters");
      view.gradients<float>()[i] += slope(u, i, rank, k, weights[i]);
    }
    runner.after_backward(u);
  }
}

void expect_weights(Runner& runner, const Weights& expected, const std::string& what) {
  for (uint32_t u = 0; u < kUnits; ++u) {
    std::vector<float> masters(kTrained[u]);
    runner.read_masters(u, masters);
    for (size_t i = 0; i < masters.size(); ++i) {
      expect(std::abs(masters[i] - expected[u][i]) < 1e-4F,
             what + ": unit " + std::to_string(u) + ", element " + std::to_string(i) + " is " +
                 std::to_string(masters[i]) + ", not " + std::to_string(expected[u][i]));
    }
  }
}

RunnerOptions options_for(const std::string& strategy, uint64_t bucket_bytes) {
  RunnerOptions options;
  options.strategy = strategy;
  options.alignment = 2;
  options.micro_batches = kMax;
  options.bucket_bytes = bucket_bytes;
  options.optimizer = PARO_OPTIMIZER_SGD;
  options.sgd = {kRate, 0, 0};
  return options;
}

Runner loaded(ho_comm* comm, const RunnerOptions& options) {
  Runner runner = Runner::create(comm, options, units());
  const Weights weights = initial();
  for (uint32_t u = 0; u < kUnits; ++u) {
    runner.load(u, weights[u], std::vector<float>(kFrozen[u], 1));
  }
  return runner;
}

// Full, early, anew, of two, and a full one again.
void train(ho_comm* comm, const RunnerOptions& options, const Settings& settings) {
  Runner runner = loaded(comm, options);
  Weights expected = initial();
  const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
  const auto ranks = static_cast<uint32_t>(ho_comm_world_size(comm));
  const auto some = [&](uint32_t count) {
    for (uint32_t k = 0; k < count; ++k) {
      micro_batch(runner, rank, k, expected);
    }
  };
  const auto done = [&](const paro_step_report& report, uint32_t count, const char* what) {
    expect(report.applied == 1, "applies");
    step_single_rank(expected, ranks, count, settings);
    expect_weights(runner, expected, options.strategy + ", " + what);
  };
  some(kMax);
  done(runner.step(), kMax, "a full step");
  for (uint32_t count = 1; count <= kMax; ++count) {
    some(count);
    done(runner.step_early(), count, "an early step");
  }
  for (uint32_t count = 0; count <= kMax; ++count) {
    some(count);
    runner.discard();
    expect_weights(runner, expected, options.strategy + ", nothing");
  }
  some(kMax);
  done(runner.step(), kMax, "after what was dropped");
  runner.set_micro_batches(2);
  some(2);
  done(runner.step(), 2, "a step of two");
  runner.change_strategy(options.strategy == "GGG" ? "NII" : "GGG");
  some(1);
  done(runner.step_early(), 1, "an early step of two, under another strategy");
  runner.set_micro_batches(kMax);
  some(kMax);
  done(runner.step(), kMax, "the last");
  runner.check_drift();
  for (int purpose = PARO_MEMORY_PARAMETERS; purpose < PARO_MEMORY_SCRATCH; ++purpose) {
    const paro_memory memory = runner.memory(static_cast<paro_purpose>(purpose));
    expect(memory.now_bytes == memory.predicted_bytes, "predicts what is held");
  }
}

// Every other strategy with buckets, from the first or from the second on.
void train_all(const char* nodes, bool bucketed) {
  require_job({nodes}, [&](ho_comm* comm) {
    bool buckets = bucketed;
    for (const Strategy& strategy : all_strategies()) {
      const auto options = options_for(letters(strategy), buckets ? 4096 : 0);
      train(comm, options, [](uint32_t, size_t) { return Setting(); });
      buckets = !buckets;
    }
  });
}

using Jobs = std::vector<std::pair<const char*, std::vector<const char*>>>;  // nodes, strategies

void train_with_groups(const Jobs& jobs) {
  const Settings settings = [](uint32_t unit, size_t i) {
    if (unit == 0 && i >= 3 && i < 8) {
      return Setting{0.5, 0.25};
    }
    return unit == 1 ? Setting{0, 0} : Setting{1, unit == 3 && i < 4 ? 0 : 0.125};
  };
  for (const auto& job : jobs) {
    require_job({job.first}, [&](ho_comm* comm) {
      for (const char* strategy : job.second) {
        RunnerOptions options = options_for(strategy, 4096);
        options.sgd.weight_decay = 0.125;
        options.parameter_groups = {
            {0, 0, 3, 5, 0.5, 0.25}, {3, 0, 0, 4, 1, 0}, {1, 0, 0, 9, 0, 0}};
        train(comm, options, settings);
        // The caller's own gets them with its pieces.
        options.custom_learning_rate = kRate;
        options.custom = [](const Shard& shard) {
          const bool group = shard.unit == 1 || (shard.unit == 3 && shard.first_element < 4);
          const double decay = group || shard.weight_decay > 0 ? shard.weight_decay : 0.125;
          for (size_t i = 0; i < shard.master.size(); ++i) {
            const double gradient = static_cast<double>(shard.gradient[i]) +
                                    decay * static_cast<double>(shard.master[i]);
            shard.master[i] -= static_cast<float>(shard.learning_rate * gradient);
          }
        };
        train(comm, options, settings);
      }
    });
  }
}

}  // namespace

TEST_CASE("shared parameters train in all strategies, with any number of micro-batches in a step") {
  train_all("2x2", false);
  train_all("3+1", true);
}

// With tools/test --full.
TEST_CASE("shared parameters train in all strategies, the other half of them with buckets",
          "[.more]") {
  train_all("2x2", true);
  train_all("3+1", false);
}

TEST_CASE("parameter groups have a rate and a weight decay of their own") {
  train_with_groups({{"2x2", {"NNN", "IIG"}}, {"3+1", {"NIG", "GGG"}}});
}

TEST_CASE("parameter groups have a rate of their own, the other half of the jobs", "[.more]") {
  train_with_groups({{"2x2", {"NIG", "GGG"}}, {"3+1", {"NNN", "IIG"}}});
}

TEST_CASE("units that cannot share parameters, and impossible groups, are refused") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const auto refusal = [&](const RunnerOptions& options, const std::vector<Unit>& input) {
      try {
        static_cast<void>(Runner::create(comm, options, input));
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    const auto expect_in = [](const std::string& text, const char* wanted) {
      expect(text.find(wanted) != std::string::npos, std::string(wanted) + " in " + text);
    };
    const RunnerOptions options = options_for("IIG", 0);
    expect_in(refusal(options, {{"head", 0, 0, "table"}, {"table", 4, 0}}),
              "paro_unit 0 (head).shares");
    expect_in(refusal(options, {{"table", 4, 0}, {"head", 4, 0, "table"}}), "set both to 0");
    expect_in(refusal(options, {{"a", 4, 0}, {"b", 0, 0, "a"}, {"c", 0, 0, "b"}}),
              "paro_unit 2 (c).shares is \"b\": paro_unit 1 (b) shares those of \"a\" itself");
    expect_in(refusal(options, {{"a", 4, 0}, {"a", 5, 0}, {"b", 0, 0, "a"}}),
              "paro_unit 2 (b).shares is \"a\": paro_unit 0 and paro_unit 1 both have this name");
    // What messages call a unit without a name is not its name.
    const std::array<paro_unit, 3> unnamed{
        {{nullptr, 4, 0, nullptr}, {"named", 4, 0, nullptr}, {nullptr, 0, 0, "unnamed"}}};
    paro_runner* runner = nullptr;
    expect_refusal(
        paro_runner_create(comm, nullptr, unnamed.data(), unnamed.size(), &runner),
        HO_INVALID_ARGUMENT,
        "paro_unit 2 (whose name is NULL).shares is \"unnamed\": takes the name of a unit "
        "before it; a unit whose name is NULL cannot be shared");
    const std::vector<std::pair<paro_parameter_group, const char*>> bad{
        {{5, 0, 0, 1, 1, 0}, "of unit 5"},
        {{0, 0, 3, 2, 1, 0}, "elements 3 to 5"},
        {{0, 0, UINT64_MAX, 2, 1, 0}, "which has 4"},
        {{0, 0, 0, 0, 1, 0}, "elements 0 to 0"},
        {{0, 0, 0, 1, -1, 0}, "of unit 0 (table): learning_rate_factor -1"},
        {{0, 0, 0, 1, 1, NAN}, "weight_decay"}};
    for (const auto& [group, text] : bad) {
      RunnerOptions wrong = options;
      wrong.parameter_groups = {group};
      expect_in(refusal(wrong, {{"table", 4, 0}}), text);
    }
    RunnerOptions twice = options;
    twice.parameter_groups = {{0, 0, 0, 3, 1, 0}, {0, 0, 2, 2, 1, 0}};
    expect_in(refusal(twice, {{"table", 4, 0}}), "two have element 2");
    RunnerOptions other = options;
    other.parameter_groups = {{0, 0, 0, ho_comm_rank(comm) == 0 ? 3U : 2U, 1, 0}};
    expect_in(refusal(other, {{"table", 4, 0}}),
              "differ in: parameter_groups[0]: unit 0, first_element 0, count 3, "
              "learning_rate_factor 1, weight_decay 0 and unit 0, first_element 0, count 2,");
  });
}

TEST_CASE("ends of steps that cannot be are refused") {
  require_job({"2x2"}, [](ho_comm* comm) {
    const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
    Runner runner = loaded(comm, options_for("NIG", 0));
    expect_refusal(paro_runner_step_early(runner.get(), nullptr),
                   HO_INVALID_ARGUMENT,
                   "before any micro-batch");
    expect_refusal(
        paro_runner_set_micro_batches(runner.get(), kMax + 1), HO_INVALID_ARGUMENT, "takes 1 to 3");
    expect_refusal(paro_runner_set_micro_batches(runner.get(), rank == 3 ? 1 : 2),
                   HO_MISMATCH,
                   "rank 0 has 2 micro-batches, rank 3 1");
    static_cast<void>(runner.before_forward(0));
    expect_refusal(paro_runner_discard(runner.get()), HO_INVALID_ARGUMENT, "in the middle of");
    expect_refusal(paro_runner_set_micro_batches(runner.get(), 1),
                   HO_INVALID_ARGUMENT,
                   "set_micro_batches in the middle of a step");
    runner.after_forward(0);
    expect_refusal(paro_runner_step_early(runner.get(), nullptr),
                   HO_INVALID_ARGUMENT,
                   "in the middle of micro-batch 0");
  });
}

TEST_CASE("what a unit shares is loaded and read at the unit that has it") {
  require_job({"2x1"}, [](ho_comm* comm) {
    Runner runner = loaded(comm, options_for("IIG", 0));
    std::vector<float> values(13, 1);
    const auto refusal = [&](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    const auto expect_reported = [](const std::string& text, const std::string& call) {
      expect(text.find(call + ": unit 4 (head) shares the parameters of unit 0 (table) and has no "
                              "elements of its own: call it for that unit") != std::string::npos,
             text);
    };
    expect_reported(refusal([&] { runner.load(4, values); }), "load");
    expect_reported(refusal([&] { runner.read_masters(4, values); }), "read_masters");
    // With no values nothing is loaded, so ranks need not do the same.
    if (ho_comm_rank(comm) == 0) {
      runner.load(4, {});
    }
    const Weights expected = initial();
    for (uint32_t k = 0; k < kMax; ++k) {
      micro_batch(runner, static_cast<uint32_t>(ho_comm_rank(comm)), k, expected);
    }
    expect(runner.step().applied == 1, "the step compares what was loaded");
  });
}
