// Training through paro.h is training on one rank, whatever the strategy, groups and optimizer.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

toy::Training training_of(const char* triple, uint32_t micro_batches) {
  toy::Training training = hard_training(parse_strategy(triple).value(), micro_batches);
  training.steps = 16;  // the overflow is in step 7
  return training;
}

uint64_t held(paro_runner* runner, paro_purpose purpose) {
  paro_memory memory = PARO_MEMORY_INIT;
  must(paro_runner_memory(runner, purpose, &memory));
  if (purpose != PARO_MEMORY_SCRATCH && purpose != PARO_MEMORY_LIBRARY) {
    expect(memory.predicted_bytes == memory.now_bytes, "predicts what is held");
    expect(memory.peak_bytes >= memory.now_bytes, "has a peak");
  }
  return memory.now_bytes;
}

uint64_t sent_between_groups(paro_runner* runner) {
  uint64_t all = 0;
  for (const paro_phase phase :
       {PARO_PHASE_FORWARD, PARO_PHASE_BACKWARD, PARO_PHASE_SYNC_G, PARO_PHASE_SYNC_P}) {
    uint64_t intra = 0;
    uint64_t inter = 0;
    must(paro_runner_sent_bytes(runner, phase, &intra, &inter));
    all += inter;
  }
  return all;
}

void expect_like_single_rank(const toy::Outcome& is, const toy::Outcome& alone) {
  const std::string differs = difference(is, alone, kFloat32Tolerance);
  expect(differs.empty(), differs);
}

// w -= rate * gradient, and how many elements it saw.
struct Descent {
  uint64_t elements = 0;
  static int32_t update(const paro_shard* shard, void* user) {
    static_cast<Descent*>(user)->elements += shard->count;
    const auto rate = static_cast<float>(shard->learning_rate);
    for (uint64_t i = 0; i < shard->count; ++i) {
      shard->master[i] -= rate * shard->gradient[i];
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("strategies train like one rank") {
  for (const auto& [triple, micro_batches] :
       {std::pair<const char*, uint32_t>{"NIG", 1}, {"IIG", 4}, {"GGG", 2}}) {
    const toy::Training training = training_of(triple, micro_batches);
    const toy::Outcome alone = train_single_rank(4, training);
    require_job({"2x2"}, [&](ho_comm* comm) {
      Trainer trainer(comm, training);
      expect_like_single_rank(trainer.train(comm), alone);
      must(paro_runner_check_drift(trainer.runner()));
      expect(held(trainer.runner(), PARO_MEMORY_STATES) > 0, "holds states");
      expect(held(trainer.runner(), PARO_MEMORY_LIBRARY) > 0, "has communicators");
      expect(sent_between_groups(trainer.runner()) > 0, "sends between groups");
      expect(paro_runner_applied_steps(trainer.runner()) == training.steps - 1,
             "applied all steps but the one that overflows");
    });
  }
}

TEST_CASE("a step that is left out says where a gradient was not finite") {
  toy::Training training = training_of("IIG", 1);
  training.model.poison = toy::Poison{1, 3, 2};
  training.steps = 3;
  ho::test::CaughtStderr caught;
  require_job({"2x2"}, [&](ho_comm* comm) {
    const toy::Outcome outcome = Trainer(comm, training).train(comm);
    expect(outcome.steps[0].applied && outcome.steps[2].applied, "applies the others");
    expect(!outcome.steps[1].applied && !std::isfinite(outcome.steps[1].norm),
           "has the norm as it is: " + std::to_string(outcome.steps[1].norm));
  });
  const std::string log = caught.end();
  INFO(log);
  const std::string wanted = "step 2 is left out on all ranks: rank ";
  REQUIRE(log.find(wanted) != std::string::npos);
  CHECK(log.find(" computed an infinity in the gradient of unit 2 (") != std::string::npos);
  CHECK(log.find(wanted, log.find(wanted) + 1) == std::string::npos);  // one rank says it
}

TEST_CASE("groups need not be nodes") {
  toy::Training training = training_of("III", 2);
  training.steps = 10;
  const toy::Outcome alone = train_single_rank(4, training);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("paro_api_groups_" + std::to_string(::getpid())))
          .string();
  std::ofstream(path) << "# across the nodes\n0 3\n2 1\n";
  require_job({"2x2"}, [&](ho_comm* comm) {
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.group_size = 4;
    uint64_t whole = 0;
    {
      Trainer trainer(comm, training, options);
      whole = held(trainer.runner(), PARO_MEMORY_OPTIMIZER);
      expect_like_single_rank(trainer.train(comm), alone);
    }
    options.group_size = 1;
    {
      Trainer trainer(comm, training, options);
      expect(held(trainer.runner(), PARO_MEMORY_OPTIMIZER) > 3 * whole, "splits over one rank");
      expect_like_single_rank(trainer.train(comm), alone);
    }
    options.group_size = 0;
    options.group_file = path.c_str();
    Trainer trainer(comm, training, options);
    expect(held(trainer.runner(), PARO_MEMORY_OPTIMIZER) > whole, "splits over two ranks");
    expect_like_single_rank(trainer.train(comm), alone);
  });
  std::filesystem::remove(path);
}

TEST_CASE("an optimizer of the caller's own does what the built-in one does") {
  toy::Training training = training_of("NIG", 1);
  training.runner.rule = Sgd{0.1, 0, 0};
  const toy::Outcome alone = train_single_rank(4, training);
  require_job({"2x2"}, [&](ho_comm* comm) {
    const toy::Outcome built_in = Trainer(comm, training).train(comm);
    Descent descent;
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.optimizer = PARO_OPTIMIZER_CUSTOM;
    options.custom = {&Descent::update, &descent, 0.1, nullptr, 0};
    Trainer trainer(comm, training, options);
    const toy::Outcome own = trainer.train(comm);
    expect_like_single_rank(own, alone);
    for (size_t unit = 0; unit < own.masters.size(); ++unit) {
      for (size_t i = 0; i < own.masters[unit].size(); ++i) {
        // A compiler may join multiplication and subtraction in one of the two.
        expect(std::abs(own.masters[unit][i] - built_in.masters[unit][i]) < 1e-5F,
               "unit " + std::to_string(unit) + " differs at " + std::to_string(i));
      }
    }
    uint64_t once = 0;
    for (const toy::UnitCounts& unit : trainer.model().units()) {
      once += unit.trained;
    }
    uint64_t seen = descent.elements;
    ho::test::must(
        ho_all_reduce(comm, &seen, &seen, 1, HO_UINT64, HO_SUM, nullptr, nullptr, nullptr));
    expect(seen == once * (training.steps - 1), "sees each element once a step, and no padding");
  });
}

TEST_CASE("a learning rate can change between steps") {
  toy::Training training = training_of("IIG", 1);
  training.steps = 4;
  require_job({"2x2"}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    must(paro_runner_set_learning_rate(trainer.runner(), 0));
    const auto before = trainer.masters();
    static_cast<void>(trainer.step(comm, 1));
    expect(trainer.masters() == before, "a rate of 0 changes nothing");
    expect_refusal(paro_runner_set_learning_rate(trainer.runner(), std::nan("")),
                   HO_INVALID_ARGUMENT,
                   "learning_rate");
    expect_refusal(paro_runner_set_learning_rate(trainer.runner(), -1),
                   HO_INVALID_ARGUMENT,
                   "learning_rate is -1");
  });
}

namespace {

void train_a_sum(horing::Communicator& comm) {
  RunnerOptions options;
  options.strategy = "zero2";
  options.alignment = 1;  // both ranks own elements
  options.custom_learning_rate = 0.5;
  options.custom = [](const Shard& shard) {
    if (shard.step == 3) {
      throw std::domain_error("no third step");
    }
    for (size_t i = 0; i < shard.master.size(); ++i) {
      shard.master[i] -= static_cast<float>(shard.learning_rate) * shard.gradient[i];
    }
  };
  Runner made = Runner::create(comm, options, {{"line", 5, 2}});
  Runner runner = std::move(made);
  std::string refused;
  try {
    made.step();  // NOLINT(bugprone-use-after-move): what a mistake comes to
  } catch (const Error& error) {
    refused = error.what();
  }
  expect(refused.find("runner") != std::string::npos, "refuses a moved-from runner: " + refused);
  runner.load(0, std::vector<float>{1, 2, 3, 4, 5}, std::vector<float>{6, 7});
  for (int step = 1; step <= 3; ++step) {
    const auto view = runner.before_forward(0);
    expect(view.trained<float>().size() == 5 && view.frozen<float>()[1] == 7, "shows the unit");
    expect(view.gradients<float>().empty(), "has no gradients yet");
    runner.after_forward(0);
    for (float& gradient : runner.before_backward(0).gradients<float>()) {
      gradient += 2;
    }
    runner.after_backward(0);
    if (step == 3) {
      std::string thrown;
      try {
        runner.step();
      } catch (const std::domain_error& error) {
        thrown = error.what();
      } catch (const Error&) {
        thrown = "another rank's";  // which was faster
      }
      expect(thrown == "no third step" || thrown == "another rank's", "throws: " + thrown);
      return;
    }
    expect(runner.step().applied == 1, "applies");
    std::vector<float> masters(5);
    runner.read_masters(0, masters);
    expect(masters[4] == 5 - static_cast<float>(step), "each step takes 1 away");
  }
}

}  // namespace

TEST_CASE("every step leaves a line, and metrics") {
  const ho::test::TemporaryFolder folder;
  toy::Training training = training_of("IIG", 2);
  training.steps = 4;
  require_job({"2x2"}, [&](ho_comm* comm) {
    const std::string rank = std::to_string(ho_comm_rank(comm));
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    const std::string lines = folder.path("steps-%r.jsonl");
    const std::string metrics = folder.path("%r.prom");
    options.step_log = lines.c_str();
    options.metrics_file = metrics.c_str();
    options.drift_interval = 2;
    Trainer trainer(comm, training, options);
    static_cast<void>(trainer.train(comm));
    std::ifstream file(folder.path("steps-" + rank + ".jsonl"));
    uint64_t sent = 0;
    uint64_t steps = 0;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      expect(json["step"] == ++steps && json["strategy"] == "IIG", "counts steps: " + line);
      expect(json["drift_checked"] == (steps % 2 == 0), "knows of drift checks");
      const auto& part = json["seconds"];
      const double known = part["compute"].get<double>() + part["exposed"].get<double>() +
                           part["update"].get<double>() + part["hooks"].get<double>();
      const double all = known + part["other"].get<double>();
      expect(part["compute"] > 0 && std::abs(part["step"].get<double>() - all) < 1e-9,
             "splits all of its time: " + line);
      expect(json["memory_bytes"]["states"] == json["memory_bytes"]["predicted"], "has memory");
      sent += json["sent_bytes"]["inter"].get<uint64_t>();
    }
    expect(steps == training.steps, "has a line for every step");
    // All but what the last step was still moving when its line was written.
    must(paro_runner_synchronize(trainer.runner()));
    const uint64_t all = sent_between_groups(trainer.runner());
    expect(sent > all / 2 && sent <= all, "counts bytes");
    std::ifstream prometheus(folder.path(rank + ".prom"));
    std::string first;
    std::getline(prometheus, first);
    expect(first.starts_with("# HELP paro_strategy_info"), "has metrics: " + first);
    const std::string nowhere = folder.path("no/steps");
    options.step_log = nowhere.c_str();
    paro_runner* none = nullptr;
    const paro_unit unit{"u", 1, 0, nullptr};
    expect_refusal(paro_runner_create(comm, &options, &unit, 1, &none), HO_SYSTEM, "PARO_STEP_LOG");
  });
}

TEST_CASE("frozen parameters can be read whole, wherever they lie") {
  require_job({"3+1"}, [](ho_comm* comm) {
    for (const ho_dtype dtype : {HO_FLOAT32, HO_BFLOAT16}) {
      for (const paro_scope scope : {PARO_REPLICATED, PARO_GROUP, PARO_WORLD}) {
        RunnerOptions options;
        options.alignment = 1;
        options.strategy = "IIG";
        options.frozen = scope;
        options.parameter_dtype = dtype;
        Runner runner = Runner::create(comm, options, {{"line", 2, 7}, {"none", 3, 0}});
        const std::vector<float> values{1, 2, 3, 4, 5, 6, 7};
        runner.load(0, std::vector<float>{8, 9}, values);
        runner.load(1, std::vector<float>(3), {});
        std::vector<float> read(7);
        runner.read_frozen(0, read);
        runner.read_frozen(1, {});
        expect(read == values, "reads what was loaded");
        runner.change_strategy("GGG");
        runner.read_frozen(0, read);
        expect(read == values, "after a change of strategy too");
      }
    }
  });
}

TEST_CASE("the C++ layer saves, restores and changes strategy") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x1"}, [&](ho_comm* comm) {
    RunnerOptions options;
    options.alignment = 1;
    Runner runner = Runner::create(comm, options, {{"line", 5, 2}});
    runner.load(0, std::vector<float>{1, 2, 3, 4, 5}, std::vector<float>{6, 7});
    SaveOptions save;
    save.in_background = true;
    save.job_state = "here";
    save.rank_state = {std::byte(ho_comm_rank(comm))};
    save.tensors = {{"tail", 0, false, 3, {2}}};
    runner.save(folder.root(), save);
    runner.wait_save();
    runner.load(0, std::vector<float>(5), std::vector<float>(2));
    runner.change_strategy("zero3");
    expect(runner.strategy() == "GGG", "has changed");
    const Checkpoint checkpoint = Checkpoint::open(folder.root());
    expect(checkpoint.job_state() == "here" && checkpoint.world_size() == 2, "has a state");
    expect(checkpoint.rank_state(1) == std::vector<std::byte>{std::byte(1)}, "of ranks too");
    expect(checkpoint.rank_state(7).empty(), "which not all have");
    runner.restore(checkpoint);
    std::vector<float> masters(5);
    runner.read_masters(0, masters);
    expect(masters == std::vector<float>{1, 2, 3, 4, 5}, "is as it was");
    expect(runner.before_forward(0).frozen<float>()[1] == 7, "frozen parameters too");
    bool thrown = false;
    try {
      runner.save(folder.root());
    } catch (const Error& error) {
      thrown = error.status() == HO_INVALID_ARGUMENT &&
               std::string(error.what()).find("save in the middle of a step") != std::string::npos;
    }
    expect(thrown, "does not save in the middle of a step");
    expect_refusal(paro_runner_change_strategy(runner.get(), "NNN", 0),
                   HO_INVALID_ARGUMENT,
                   "change_strategy in the middle of a step");
  });
}

TEST_CASE("the C++ layer trains, and throws") {
  require_job({"2x1"}, [](ho_comm* comm) {
    ho_comm* copy = nullptr;
    must(ho_comm_split(comm, 0, ho_comm_rank(comm), &copy));
    horing::Communicator owned(copy);
    train_a_sum(owned);
    bool thrown = false;
    try {
      static_cast<void>(strategy_letters("zero9"));
    } catch (const horing::Error& error) {
      thrown = error.status() == HO_INVALID_ARGUMENT;
    }
    expect(thrown, "refuses a strategy");
    expect(strategy_letters("hsdp") == "III", "knows names");
  });
}
