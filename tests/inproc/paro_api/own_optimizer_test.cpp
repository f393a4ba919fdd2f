// State that an optimizer of the caller's own declares goes wherever the built-in rules' goes; and
// what ranks load and read is the same on all.
#include <array>
#include <cmath>

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

constexpr std::array<const char*, 2> kStates{"first_moment", "second_moment"};
constexpr std::array<const char*, 2> kOtherOrder{"second_moment", "first_moment"};

// AdamW as hard_training() has it, with its moments where the library keeps them.
template <size_t kFirst, size_t kSecond>
int32_t adamw(const paro_shard* shard, void* elements) {
  const double t = static_cast<double>(shard->step);
  const double m_scale = 1 - std::pow(0.9, t);
  const double v_scale = 1 - std::pow(0.95, t);
  for (uint64_t i = 0; i < shard->count; ++i) {
    const double g = static_cast<double>(shard->gradient[i]);
    const double w = static_cast<double>(shard->master[i]);
    const double m = 0.9 * static_cast<double>(shard->states[kFirst][i]) + 0.1 * g;
    const double v = 0.95 * static_cast<double>(shard->states[kSecond][i]) + 0.05 * g * g;
    shard->states[kFirst][i] = static_cast<float>(m);
    shard->states[kSecond][i] = static_cast<float>(v);
    shard->master[i] = static_cast<float>(
        w - shard->learning_rate * (0.01 * w + m / m_scale / (std::sqrt(v / v_scale) + 1e-6)));
  }
  *static_cast<uint64_t*>(elements) += shard->count;
  return shard->state_count == kStates.size() ? 0 : 1;
}

toy::Training training_of(const char* triple) {
  toy::Training training = hard_training(parse_strategy(triple).value(), 1);
  training.steps = 12;
  return training;
}

void use_adamw(paro_runner_options& options, uint64_t& elements) {
  options.optimizer = PARO_OPTIMIZER_CUSTOM;
  options.custom = {adamw<0, 1>, &elements, 0.01, kStates.data(), kStates.size()};
}

}  // namespace

TEST_CASE("declared state goes through changes of strategy and checkpoints") {
  for (const char* nodes : {"2x2", "3+1"}) {
    const ho::test::TemporaryFolder folder;
    const toy::Training training = training_of("NIG");
    const toy::Outcome alone = train_single_rank(4, training);
    require_job({nodes}, [&](ho_comm* comm) {
      std::string letters;
      uint64_t elements = 0;
      paro_runner_options options = options_of(training, letters);
      use_adamw(options, elements);
      Trainer trainer(comm, training, options);
      toy::Outcome outcome;
      for (uint64_t s = 0; s < 6; ++s) {
        if (s == 2) {
          must(paro_runner_change_strategy(trainer.runner(), "GGG", 0));
        }
        if (s == 4) {
          must(paro_runner_change_strategy(trainer.runner(), "NNN", 0));
        }
        outcome.steps.push_back(trainer.step(comm, s));
      }
      paro_memory memory = PARO_MEMORY_INIT;
      must(paro_runner_memory(trainer.runner(), PARO_MEMORY_OPTIMIZER, &memory));
      uint64_t trained = 0;
      for (const toy::UnitCounts& unit : trainer.model().units()) {
        trained += unit.trained;
      }
      expect(memory.now_bytes >= 3 * sizeof(float) * trained &&
                 memory.now_bytes == memory.predicted_bytes,
             "counts masters and both states");
      must(paro_runner_save(trainer.runner(), folder.root().c_str(), nullptr));
      trainer.destroy();

      const toy::Training other = training_of("IIG");
      options = options_of(other, letters);
      use_adamw(options, elements);
      // By their names, in whatever order this run declares them.
      options.custom.function = adamw<1, 0>;
      options.custom.states = kOtherOrder.data();
      Trainer resumed(comm, other, options);
      paro_checkpoint* checkpoint = nullptr;
      must(paro_checkpoint_open(folder.root().c_str(), &checkpoint));
      must(paro_runner_restore(resumed.runner(), checkpoint, nullptr));
      for (uint64_t s = 6; s < training.steps; ++s) {
        outcome.steps.push_back(resumed.step(comm, s));
      }
      outcome.masters = resumed.masters();
      const std::string differs = difference(outcome, alone, kFloat32Tolerance);
      expect(differs.empty(), differs);
      must(paro_runner_check_drift(resumed.runner()));

      // Another set of states is not taken for this one.
      options.custom.state_count = 1;
      Trainer fewer(comm, other, options);
      expect_refusal(paro_runner_restore(fewer.runner(), checkpoint, nullptr),
                     HO_INVALID_ARGUMENT,
                     "first_moment");
      paro_checkpoint_close(checkpoint);
    });
  }
}

TEST_CASE("states need names of their own") {
  require_job({"2x1"}, [](ho_comm* comm) {
    const paro_unit unit{"line", 4, 0, nullptr};
    paro_runner* runner = nullptr;
    uint64_t elements = 0;
    paro_runner_options options = PARO_RUNNER_OPTIONS_INIT;
    use_adamw(options, elements);
    for (const char* second : {"master", "frozen", "first_moment", "a/b", ""}) {
      const std::array<const char*, 2> names{"first_moment", second};
      options.custom.states = names.data();
      expect_refusal(paro_runner_create(comm, &options, &unit, 1, &runner),
                     HO_INVALID_ARGUMENT,
                     "custom.states[1]");
    }
    options.custom.states = nullptr;
    expect_refusal(
        paro_runner_create(comm, &options, &unit, 1, &runner), HO_INVALID_ARGUMENT, "null array");
    const std::array<const char*, 2> names{"first_moment",
                                           ho_comm_rank(comm) == 0 ? "one" : "another"};
    options.custom.states = names.data();
    expect_refusal(paro_runner_create(comm, &options, &unit, 1, &runner),
                   HO_MISMATCH,
                   "custom.states[1]: one and another;");
  });
}

TEST_CASE("an optimizer never sees padding") {
  require_job({"2x2"}, [](ho_comm* comm) {
    RunnerOptions options;
    options.strategy = "NII";
    options.alignment = 10000;
    options.custom_learning_rate = 1;
    uint64_t most = 0;
    options.custom = [&most](const Shard& shard) {
      most = std::max<uint64_t>(most, shard.first_element + shard.master.size());
    };
    Runner runner = Runner::create(comm, options, {{"line", 5, 0}});
    runner.load(0, std::vector<float>(5, 1));
    static_cast<void>(runner.before_forward(0));
    runner.after_forward(0);
    static_cast<void>(runner.before_backward(0));
    runner.after_backward(0);
    static_cast<void>(runner.step());
    expect(most == 0 || most == 5, "reaches to element " + std::to_string(most));
  });
}

namespace {

void one_step(Runner& runner, uint32_t units) {
  for (uint32_t u = 0; u < units; ++u) {
    static_cast<void>(runner.before_forward(u));
    runner.after_forward(u);
  }
  for (uint32_t u = units; u-- > 0;) {
    static_cast<void>(runner.before_backward(u));
    runner.after_backward(u);
  }
  static_cast<void>(runner.step());
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what ranks load is compared at the next step, and before parts of it are given away") {
  const ho::test::TemporaryFolder folder;
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    require_job({"2x2"}, [&](ho_comm* comm) {
      RunnerOptions options;
      options.strategy = strategy;
      options.alignment = 1;
      const std::vector<Unit> units{{"first", 6, 1}, {"second", 5, 3}};
      const auto mine = static_cast<float>(ho_comm_rank(comm) == 2);
      {
        Runner runner = Runner::create(comm, options, units);
        const auto load = [&](float second) {
          runner.load(0, std::vector<float>(6, 1), std::vector<float>(1));
          runner.load(1, std::vector<float>(5, 2), std::vector<float>{1, 2, second});
        };
        load(mine);
        // So is what would give away parts of them before.
        std::vector<float> whole(5);
        for (const std::string& early : {refusal_of([&] { runner.read_masters(1, whole); }),
                                         refusal_of([&] { runner.save(folder.path("early")); }),
                                         refusal_of([&] { runner.change_strategy("III"); })}) {
          expect(early.find("ranks 0 and 2 were given different values for unit 1 (second)") !=
                     std::string::npos,
                 "is told early: " + early);
        }
        const std::string text = refusal_of([&] { one_step(runner, 2); });
        expect(text.find("ranks 0 and 2 were given different values for unit 1 (second)") !=
                   std::string::npos,
               "is told: " + text);
        expect(runner.applied_steps() == 0, "nothing was updated");
        must(paro_runner_rejoin(runner.get(), comm));
        load(7);
        one_step(runner, 2);
        // What a checkpoint takes the place of is not compared any more.
        runner.save(folder.path("checkpoints"));
        load(mine);
        runner.restore(Checkpoint::open(folder.path("checkpoints")));
        one_step(runner, 2);
        // Between later steps too: here by ranks that do not load at all.
        if (mine != 0) {
          runner.load(0, std::vector<float>(6, 1), std::vector<float>(1));
        }
        const std::string late = refusal_of([&] { one_step(runner, 2); });
        expect(late.find("unit 0 (first)") != std::string::npos, "is told later: " + late);
      }
      options.unchecked_loads = true;
      Runner trusting = Runner::create(comm, options, units);
      trusting.load(0, std::vector<float>(6, mine), std::vector<float>(1));
      one_step(trusting, 2);
    });
  }
}

TEST_CASE("ranks that read different units are refused, and go on") {
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    require_job({"2x2"}, [&](ho_comm* comm) {
      RunnerOptions options;
      options.strategy = strategy;
      options.alignment = 1;
      Runner runner = Runner::create(comm, options, {{"first", 5, 2}, {"second", 5, 2}});
      runner.load(1, std::vector<float>(5, 3), std::vector<float>(2, 4));
      const uint32_t unit = ho_comm_rank(comm) == 3 ? 0 : 1;
      std::vector<float> values(5);
      const std::string text = refusal_of([&] { runner.read_masters(unit, values); });
      expect(text.find("read_masters of unit " + std::to_string(unit) +
                       ": rank 0 reads unit 1, rank 3 unit 0") != std::string::npos,
             "is refused: " + text);
      expect(std::string(ho_last_error_message()) == text, "ho_last_error_message has it too");
      std::vector<float> frozen(2);
      expect(!refusal_of([&] { runner.read_frozen(unit, frozen); }).empty(), "frozen ones too");
      runner.read_masters(1, values);
      runner.read_frozen(1, frozen);
      expect(values == std::vector<float>(5, 3) && frozen[1] == 4, "goes on");
    });
  }
}
