// States on devices, moved by NCCL, train as states on the host do that libhoring moves: bit for
// bit, where the order of sums does not show.
#include <array>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "on_doubles.hpp"
#include "parity_case.hpp"
#include "run/change.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::reset_doubles;

namespace {

void must_equal(const Trained& device, const Trained& host, const std::string& what) {
  const char* const differs = device.norms != host.norms       ? "norms"
                              : device.applied != host.applied ? "steps that are applied"
                              : device.masters != host.masters ? "masters"
                                                               : nullptr;
  if (differs != nullptr) {
    throw std::runtime_error(what + ": other " + differs + " than on the host");
  }
}

// On devices as on the host, of ranks on one shape.
void check_jobs(const std::vector<Job>& jobs, Mode mode) {
  INFO("mode " << static_cast<int>(mode) << " on " << jobs.front().nodes);
  reset_doubles(mode);
  ho::test::require_job({jobs.front().nodes}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    for (const Job& job : jobs) {
      const Trained host = train(comm, job, nullptr);
      must_equal(train(comm, job, device.states()), host, letters(job.config.strategy));
    }
  });
  CHECK(left_on_doubles() == "");
}

void check_strategies(std::span<const Strategy> strategies,
                      const std::string& nodes,
                      Mode mode,
                      uint32_t steps) {
  std::vector<Job> jobs;
  for (const Strategy& strategy : strategies) {
    jobs.push_back(job_of(strategy, nodes));
    jobs.back().steps = steps;
  }
  check_jobs(jobs, mode);
}

}  // namespace

TEST_CASE("strategies of all scopes on devices train as on the host, bit for bit") {
  check_strategies(strategies_of_all_scopes(), "2x2", Mode::kEager, 2);
  const std::array some{parse_strategy("NIG").value(), parse_strategy("GGG").value()};
  check_strategies(some, "4x1", Mode::kRandom, 2);
  check_strategies(some, "1x1", Mode::kRandom, 2);
}

TEST_CASE("100 steps of all strategies on devices train as on the host, bit for bit", "[.more]") {
  for (const char* const nodes : {"2x2", "4x1", "1x4"}) {
    check_strategies(all_strategies(), nodes, Mode::kEager, 100);
    for (const Mode mode : {Mode::kRandom, Mode::kLazy}) {
      check_strategies(all_strategies(), nodes, mode, 5);
    }
  }
}

TEST_CASE("a step whose gradients overflow on one rank is left out on devices as on the host") {
  std::vector<Job> jobs;
  for (const char* const triple : {"NNN", "IIG"}) {
    jobs.push_back(job_of(parse_strategy(triple).value(), "2x2"));
    jobs.back().overflows_in = 1;
    jobs.back().config.loss_scale = {Scaling::kDynamic, 16, 2, 0.5, 10, 1, 65536};
  }
  check_jobs(jobs, Mode::kLazy);
}

TEST_CASE("sizes that do not divide, frozen and tied units train on devices as on one rank") {
  std::vector<toy::Training> trainings{hard_training(parse_strategy("NIG").value(), 1),
                                       bucketed_training(parse_strategy("IIG").value(), 2),
                                       tied_training(parse_strategy("GGG").value(), 1)};
  std::vector<toy::Outcome> alone;
  for (toy::Training& training : trainings) {
    training.steps = 4;
    alone.push_back(train_single_rank(4, training));
  }
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    for (size_t i = 0; i < trainings.size(); ++i) {
      toy::Training mine = trainings[i];
      mine.runner.on_device = device.use();
      const toy::Outcome outcome = ho::test::must_have(
          train_sharded(comm, ho::test::must_have(nodes_of(comm)), mine, {}, &device.memory()));
      const std::string differs = difference(outcome, alone[i], kFloat32Tolerance);
      if (!differs.empty()) {
        throw std::runtime_error(to_string(mine) + ": " + differs);
      }
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("early ends, dropped steps and other strategies on devices are as on the host") {
  const auto run = [](ho_comm* comm, const RankDevice* device) {
    Job job = job_of(parse_strategy("NIG").value(), "2x2");
    HostMemory host;
    if (device != nullptr) {
      job.config.on_device = device->use();
    }
    auto runner = make_runner(comm, job.config, device != nullptr ? device->memory() : host);
    load_initial(*runner);
    run_micro_batches(*runner, job, 0, 1);
    static_cast<void>(ho::test::must_have(runner->step_early()));
    run_micro_batches(*runner, job, 1, 1);
    ho::test::must_be_ok(runner->discard());
    run_micro_batches(*runner, job, 2, 2);
    ho::test::must_be_ok(runner->discard());
    static_cast<void>(train_step(*runner, job, 3));
    ho::test::must_be_ok(
        change_strategy(runner, NewStrategy{parse_strategy("GGG").value(), Scope::kWorld, 0}));
    static_cast<void>(train_step(*runner, job, 4));
    ho::test::must_be_ok(runner->set_micro_batches(1));
    static_cast<void>(train_step(*runner, job, 5));
    return masters_of(*runner);
  };
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    if (run(comm, &device) != run(comm, nullptr)) {
      throw std::runtime_error("other masters than on the host");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("an early end on devices rounds sums of 16-bit gradients once, as on the host") {
  const auto run = [](ho_comm* comm, const RankDevice* device) {
    Job job = job_of(parse_strategy("IGG").value(), "2x2");
    job.config.units = {{"first", 64, 0, {}}, {"second", 1024, 0, {}}, {"third", 64, 0, {}}};
    job.config.gradient_dtype = ho::DType::kBfloat16;
    job.config.bucket_bytes = 0;
    job.config.micro_batches = 40;  // so many that 16 bits do not hold their sums
    HostMemory host;
    if (device != nullptr) {
      job.config.on_device = device->use();
    }
    const auto runner = make_runner(comm, job.config, device != nullptr ? device->memory() : host);
    load_initial(*runner);
    run_micro_batches(*runner, job, 0, 36);
    static_cast<void>(ho::test::must_have(runner->step_early()));
    return ho::test::must_have(runner->flush(0)).value().outcome.norm;
  };
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    if (run(comm, &device) != run(comm, nullptr)) {
      throw std::runtime_error("another norm than on the host");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a checkpoint of states on devices is read by a job on the host, and the other way") {
  for (const bool from_device : {true, false}) {
    INFO("saved on " << (from_device ? "devices" : "the host"));
    reset_doubles(Mode::kRandom);
    const ho::test::TemporaryFolder folder;
    Job job = job_of(parse_strategy("IIG").value(), "2x2");
    std::vector<std::vector<float>> saved;
    ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
      const RankDevice device(comm);
      const Trained mine = train(comm,
                                 job,
                                 from_device ? device.states() : nullptr,
                                 [&](StepRunner& runner, ho_comm* /*comm*/) {
                                   save(runner, folder.root());
                                   static_cast<void>(train_step(runner, job, job.steps));
                                 });
      if (ho_comm_rank(comm) == 0) {
        saved = mine.masters;
      }
    });
    job.config.strategy = parse_strategy("NNG").value();
    job.config.frozen = Scope::kReplicated;
    ho::test::require_job({"4x1"}, [&](ho_comm* comm) {
      const RankDevice device(comm);
      HostMemory host;
      RunnerConfig config = job.config;
      if (!from_device) {
        config.on_device = device.use();
      }
      const auto runner = make_runner(comm, config, from_device ? host : device.memory());
      restore(*runner, folder.root());
      ho::test::must_be_ok(runner->between_steps().check_drift());
      if (masters_of(*runner) != saved) {
        throw std::runtime_error("other masters than were saved");
      }
      static_cast<void>(train_step(*runner, job, job.steps));
    });
    CHECK(left_on_doubles() == "");
  }
}
