// What the host knows of a step on devices, and when: step() waits for nothing that it gives to the
// device, and whatever is wrong with a step is said one step late, or by flush(), with nothing
// updated.
#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "on_doubles.hpp"

using namespace paro;
using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::must_be_ok;
using ho::test::must_have;
using ho::test::reset_doubles;

namespace {

StepOutcome flushed(StepRunner& runner) {
  return must_have(runner.flush(0)).value().outcome;
}

// On every rank of a job of four.
void on_devices(const std::string& triple,
                Mode mode,
                const std::function<void(ho_comm*, StepRunner&, Job&)>& body,
                const LossScaleSettings& scale = {Scaling::kNone}) {
  reset_doubles(mode);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy(triple).value(), "2x2");
    job.config.on_device = device.use();
    job.config.loss_scale = scale;
    job.config.timeout_ms = 60'000;
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    body(comm, *runner, job);
  });
  CHECK(left_on_doubles() == "");
}

// Masters of a job on the host after steps from 0 on.
std::vector<std::vector<float>> masters_after(ho_comm* comm, const Job& of, uint32_t steps) {
  Job job = of;
  job.config.on_device.reset();
  job.steps = steps;
  return train(comm, job, nullptr).masters;
}

void must_equal(const std::vector<std::vector<float>>& masters,
                const std::vector<std::vector<float>>& wanted) {
  if (masters != wanted) {
    throw std::runtime_error("other masters than on the host");
  }
}

void must_say(const std::string& said, const std::string& wanted) {
  if (!has(said, wanted)) {
    throw std::runtime_error("wanted '" + wanted + "', got '" + said + "'");
  }
}

// The control of the last step that was decided on.
StepControl control_of(const StepRunner& runner) {
  const Operations& operations = runner.shards().operations(Track::kReductions);
  StepControl control;
  operations.fetch_later(runner.shards().control.get(),
                         std::as_writable_bytes(std::span(&control, 1)));
  must_be_ok(operations.finish());
  return control;
}

void check_held_steps(Mode mode, std::initializer_list<const char*> triples) {
  for (const char* const triple : triples) {
    INFO(triple << ", mode " << static_cast<int>(mode));
    on_devices(triple, mode, [](ho_comm* comm, StepRunner& runner, Job& /*job*/) {
      for (uint32_t warm_up = 0; warm_up < 2; ++warm_up) {
        paro::test::run_hooks(runner);
        static_cast<void>(must_have(runner.step()));
      }
      static_cast<void>(flushed(runner));
      all_come(comm);
      if (ho_comm_rank(comm) == 0) {
        ho::cuda_double::forget_counts();
      }
      all_come(comm);
      // A wait for anything from here on would end at its deadline, with an error.
      ho::nccl_double::hold(ho_comm_rank(comm));
      paro::test::run_hooks(runner);
      const StepReport held = must_have(runner.step());
      paro::test::run_hooks(runner);
      if (held.step != 3 || held.outcome.step != 2 || held.wait_ns > held.step_ns) {
        throw std::runtime_error("the report is of another step");
      }
      if (must_have(runner.flush(1))) {
        throw std::runtime_error("the outcome is known of a step that is held");
      }
      if (ho::cuda_double::synchronizing_calls() > 0 ||
          ho::cuda_double::allocations_while_pending() > 0) {
        throw std::runtime_error("a step has calls that may wait for the device");
      }
      all_come(comm);
      ho::nccl_double::let_go(ho_comm_rank(comm));
      const StepReport next = must_have(runner.step());
      if (next.step != 4 || next.outcome.step != 3 || flushed(runner).step != 4) {
        throw std::runtime_error("the outcome is of another step");
      }
    });
  }
}

void check_abort(Mode mode) {
  on_devices("IIG", mode, [](ho_comm* comm, StepRunner& runner, Job& job) {
    static_cast<void>(train_step(runner, job, 0));
    static_cast<void>(train_step(runner, job, 1));
    static_cast<void>(flushed(runner));
    all_come(comm);
    ho::nccl_double::hold(ho_comm_rank(comm));
    paro::test::run_hooks(runner);
    static_cast<void>(must_have(runner.step()));
    all_come(comm);
    if (ho_comm_rank(comm) == 2) {
      runner.abort("the user has had enough");
    }
    must_say(runner.flush(0).status().message(), "the user has had enough");
    // What is behind the collectives runs now, over what they have not brought.
    if (control_of(runner).left_out != ho::device::kLost) {
      throw std::runtime_error("the device does not know that the step has failed");
    }
    all_come(comm);
    ho::nccl_double::let_go(ho_comm_rank(comm));
    all_come(comm);
    must_be_ok(runner.rejoin(comm));
    if (runner.updater().applied_steps() != 2) {
      throw std::runtime_error("the step counts");
    }
    static_cast<void>(train_step(runner, job, 2));
    must_equal(masters_of(runner), masters_after(comm, job, 3));
  });
}

}  // namespace

TEST_CASE("hooks and step return while the device can do nothing of what they give it") {
  check_held_steps(Mode::kRandom, {"NNN", "GGG"});
  check_held_steps(Mode::kLazy, {"IIG"});
}

TEST_CASE("hooks and step return with each strategy and order of a held device", "[.more]") {
  check_held_steps(Mode::kRandom, {"IIG"});
  check_held_steps(Mode::kLazy, {"NNN", "GGG"});
}

TEST_CASE("a step's report has the outcome of the one before, and flush its own on any rank") {
  const LossScaleSettings dynamic{Scaling::kDynamic, 16, 2, 0.5, 10, 1, 65536};
  on_devices(
      "IIG",
      Mode::kRandom,
      [&](ho_comm* comm, StepRunner& runner, Job& job) {
        job.overflows_in = 1;
        std::vector<StepOutcome> host;
        {
          HostMemory memory;
          RunnerConfig config = job.config;
          config.on_device.reset();
          const auto on_host = make_runner(comm, config, memory);
          load_initial(*on_host);
          for (uint32_t step = 0; step < 5; ++step) {
            const StepReport report = train_step(*on_host, job, step);
            host.push_back(report.outcome);
            if (report.outcome.step != report.step ||
                flushed(*on_host).norm != report.outcome.norm) {
              throw std::runtime_error("on the host the outcome is of another step");
            }
          }
        }
        // The second step overflows, which is known when the third has been run with its scale.
        constexpr std::array kScales{16.0, 16.0, 16.0, 8.0, 8.0};
        StepOutcome before{};
        for (uint32_t step = 0; step < 5; ++step) {
          const StepReport report = train_step(runner, job, step);
          const StepOutcome& outcome = report.outcome;
          if (outcome.step != step || outcome.applied != before.applied ||
              outcome.norm != before.norm || report.loss_scale != kScales.at(step)) {
            throw std::runtime_error("the report is not of the step before");
          }
          before = host.at(step);
          if (ho_comm_rank(comm) == 3) {
            const StepOutcome present = flushed(runner);
            if (present.step != step + 1 || present.applied != before.applied ||
                present.norm != before.norm) {
              throw std::runtime_error("what was flushed is not of the step");
            }
          }
        }
        if (runner.updater().scale().value() != 8) {
          throw std::runtime_error("a step that was run with an older scale counts");
        }
      },
      dynamic);
}

TEST_CASE("a save has the loss scale that follows from its step, and so has who goes on") {
  const LossScaleSettings dynamic{Scaling::kDynamic, 16, 2, 0.5, 10, 1, 65536};
  on_devices(
      "IIG",
      Mode::kRandom,
      [](ho_comm*, StepRunner& runner, Job& job) {
        job.overflows_in = 1;
        static_cast<void>(train_step(runner, job, 0));
        static_cast<void>(train_step(runner, job, 1));
        static_cast<void>(flushed(runner));
        const double before = runner.updater().scale().value();
        const Snapshot snapshot = must_have(runner.between_steps().snapshot_without_units());
        if (before != 16 || snapshot.loss_scale.value != 8 || snapshot.applied_steps != 1 ||
            runner.updater().scale().value() != 8) {
          throw std::runtime_error("another loss scale, or other steps, than the step's");
        }
      },
      dynamic);
}

TEST_CASE("learning rates that differ on devices are named after the step, which changes nothing") {
  for (const bool by_flush : {true, false}) {
    on_devices("IIG", Mode::kRandom, [&](ho_comm* comm, StepRunner& runner, Job& job) {
      static_cast<void>(train_step(runner, job, 0));
      static_cast<void>(train_step(runner, job, 1));
      if (ho_comm_rank(comm) == 2) {
        runner.set_learning_rate(0.5);
      }
      static_cast<void>(train_step(runner, job, 2));
      runner.set_learning_rate(0.01);  // what counts is what the step had
      std::string said;
      if (by_flush) {
        said = runner.flush(0).status().message();
      } else {
        run_hooks(runner);
        said = runner.step().status().message();
      }
      must_say(said, "step 3: the ranks do not have the same learning rate");
      must_say(said, "rank 0 has 0.01, rank 2 has 0.5");
      all_come(comm);
      must_be_ok(runner.rejoin(comm));
      if (runner.updater().applied_steps() != 2) {
        throw std::runtime_error("the step counts");
      }
      must_equal(masters_of(runner), masters_after(comm, job, 2));
    });
  }
}

TEST_CASE("values that one rank alone was given on devices are noticed before they are used") {
  on_devices("NIG", Mode::kRandom, [](ho_comm* comm, StepRunner& runner, Job& job) {
    static_cast<void>(train_step(runner, job, 0));
    must_be_ok(runner.synchronize());
    if (ho_comm_rank(comm) == 1) {
      must_be_ok(runner.between_steps().load(2, std::vector<float>(128, 1.0F), {}));
    }
    run_micro_batches(runner, job, 1, 2);
    const ho::Status stepped = runner.step().status();
    must_say(stepped.ok() ? runner.flush(0).status().message() : stepped.message(),
             "were given different values for unit 2");
    if (control_of(runner).left_out != ho::device::kRefused) {
      throw std::runtime_error("the step was taken");
    }
  });
}

TEST_CASE("a step that ranks end and one drops is named on all, and changes nothing") {
  on_devices("IIG", Mode::kRandom, [](ho_comm* comm, StepRunner& runner, Job& job) {
    static_cast<void>(train_step(runner, job, 0));
    run_micro_batches(runner, job, 1, 2);
    std::string said;
    if (ho_comm_rank(comm) == 2) {
      said = runner.discard().message();
    } else {
      static_cast<void>(must_have(runner.step()));
      said = runner.flush(0).status().message();
    }
    must_say(said, "rank 2 calls discard after its last micro-batch, rank 0 ends the step");
    if (control_of(runner).left_out != ho::device::kRefused) {
      throw std::runtime_error("the step was taken");
    }
  });
}

TEST_CASE("an abort of a step that was given to the device changes nothing, and ranks go on") {
  check_abort(Mode::kEager);  // as early as can be
  check_abort(Mode::kLazy);   // as late
}

TEST_CASE("an abort of a step that the device has at any time begun changes nothing", "[.more]") {
  check_abort(Mode::kRandom);
}

TEST_CASE("a step that has ended when something fails counts after the ranks have rejoined") {
  on_devices("NIG", Mode::kRandom, [](ho_comm* comm, StepRunner& runner, Job& job) {
    static_cast<void>(train_step(runner, job, 0));
    static_cast<void>(train_step(runner, job, 1));
    // Some ranks have heard of it, some not.
    if (ho_comm_rank(comm) % 2 == 0) {
      static_cast<void>(flushed(runner));
    } else if (control_of(runner).steps != 2) {
      throw std::runtime_error("the step was not taken");
    }
    all_come(comm);
    if (ho_comm_rank(comm) == 1) {
      runner.abort("the user has had enough");
    }
    all_come(comm);
    must_be_ok(runner.rejoin(comm));
    if (runner.updater().applied_steps() != 2 || flushed(runner).step != 2) {
      throw std::runtime_error("the step does not count");
    }
    static_cast<void>(train_step(runner, job, 2));
    must_equal(masters_of(runner), masters_after(comm, job, 3));
  });
}

TEST_CASE("a copy of the outcome that does not come is an error at its deadline") {
  reset_doubles(Mode::kRandom);
  const auto errors = ho::test::run_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy("IIG").value(), "2x2");
    job.config.on_device = device.use();
    job.config.timeout_ms = 1000;
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    static_cast<void>(train_step(*runner, job, 0));
    must_be_ok(runner->synchronize());
    all_come(comm);
    if (ho_comm_rank(comm) == 3) {  // it does not end the step
      run_hooks(*runner);
      while (runner->shards().domains->status().ok()) {
        std::this_thread::yield();
      }
      throw std::runtime_error(runner->shards().domains->status().message());
    }
    run_hooks(*runner);
    static_cast<void>(must_have(runner->step()));
    throw std::runtime_error(runner->flush(0).status().message());
  });
  for (const std::string& error : errors) {
    CHECK(has(error, "has not ended within 1000 ms"));
  }
  CHECK(left_on_doubles() == "");
}
