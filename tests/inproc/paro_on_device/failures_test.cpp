// Whatever fails of a runner on devices: all ranks have one cause, in time, and nothing is left.
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "on_doubles.hpp"
#include "sanitizers.hpp"

using namespace paro;
using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::reset_doubles;

namespace {

constexpr uint64_t kSoonMs = ho::test::kThreadSanitizer ? 3000 : 1000;

// What each rank's steps end with, by rank. `before` is called on each rank in turn when all have
// had a step.
std::vector<std::string> errors_of(const std::string& triple,
                                   uint64_t timeout_ms,
                                   const std::function<void(ho_comm*)>& before,
                                   const std::function<void(StepRunner&, const Job&)>& body) {
  std::vector<std::string> errors(4);
  const auto thrown = ho::test::run_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy(triple).value(), "2x2");
    job.config.timeout_ms = timeout_ms;
    job.config.on_device = device.use();
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    static_cast<void>(train_step(*runner, job, 0));
    ho::test::must_be_ok(runner->synchronize());
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    before(comm);
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    try {
      body(*runner, job);
    } catch (const std::exception& error) {
      errors[static_cast<size_t>(ho_comm_rank(comm))] = error.what();
    }
  });
  for (const std::string& each : thrown) {
    CHECK(each == "");
  }
  return errors;
}

void steps(StepRunner& runner, const Job& job) {
  for (uint32_t step = 1; step < 4; ++step) {
    static_cast<void>(train_step(runner, job, step));
  }
}

// As a framework that leaves all of its work to the stream, here none.
void hooks_of_micro_batch(StepRunner& runner) {
  const auto units = static_cast<uint32_t>(runner.config().units.size());
  for (uint32_t unit = 0; unit < units; ++unit) {
    static_cast<void>(ho::test::must_have(runner.before_forward(unit)));
    ho::test::must_be_ok(runner.after_forward(unit));
  }
  for (uint32_t unit = units; unit-- > 0;) {
    static_cast<void>(ho::test::must_have(runner.before_backward(unit)));
    ho::test::must_be_ok(runner.after_backward(unit));
  }
}

void check_one_cause(const std::vector<std::string>& errors, const std::string& cause) {
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(has(errors[rank], cause));
  }
}

}  // namespace

TEST_CASE("a call of NCCL that fails in a step is one cause on all ranks") {
  for (const char* const call : {"ncclAllGather", "ncclReduceScatter"}) {
    INFO(call);
    reset_doubles(Mode::kRandom);
    const auto errors = errors_of(
        "IIG",
        0,
        [&](ho_comm* comm) {
          if (ho_comm_rank(comm) == 0) {
            ho::nccl_double::fail_call(call, 3, ho::nccl::kSystemError);
          }
        },
        steps);
    check_one_cause(errors, std::string(call) + ": unhandled system error");
    CHECK(left_on_doubles() == "");
  }
}

TEST_CASE("a call of the driver that fails in a step is one cause on all ranks") {
  for (const char* const call : {"launch", "copy_async", "event_record", "joint_work"}) {
    for (const uint64_t k : {1U, 20U}) {
      INFO(call << " #" << k);
      reset_doubles(Mode::kEager);
      const auto errors = errors_of(
          "GGG",
          0,
          [&](ho_comm* comm) {
            if (ho_comm_rank(comm) == 0) {
              ho::cuda_double::fail_call(call, k, ho::device::kInvalidValue);
            }
          },
          steps);
      check_one_cause(
          errors,
          std::string(call) == "joint_work" ? "unhandled cuda error" : "CUDA_ERROR_INVALID_VALUE");
      CHECK(left_on_doubles() == "");
    }
  }
}

TEST_CASE("memory that one rank lacks while ranks are connected is one cause on all ranks") {
  reset_doubles(Mode::kEager);
  std::vector<std::string> errors(4);
  const auto thrown = ho::test::run_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy("IIG").value(), "2x2");
    job.config.on_device = device.use();
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    if (ho_comm_rank(comm) == 0) {
      ho::cuda_double::fail_call("memory_allocate", 1, ho::device::kOutOfDeviceMemory);
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    const auto made = StepRunner::create(
        comm, ho::test::must_have(nodes_of(comm)), job.config, device.memory(), 20'000);
    errors[static_cast<size_t>(ho_comm_rank(comm))] = made.status().message();
  });
  CHECK(thrown == std::vector<std::string>(4));
  check_one_cause(errors, "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a step that one rank alone ends early is a mismatch on all ranks") {
  reset_doubles(Mode::kRandom);
  std::atomic<int> in_step = 0;
  const auto errors = errors_of(
      "IIG",
      20'000,
      [](ho_comm*) {},
      [&](StepRunner& runner, const Job&) {
        hooks_of_micro_batch(runner);
        if (runner.self().value() == 2) {
          while (in_step < 3) {
            std::this_thread::yield();
          }
          // The others wait for the outcome by then; where they do not yet, this is the easier
          // case.
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          throw std::runtime_error(runner.step_early().status().message());
        }
        hooks_of_micro_batch(runner);
        ++in_step;
        static_cast<void>(ho::test::must_have(runner.step()));
        throw std::runtime_error(runner.flush(0).status().message());
      });
  check_one_cause(errors, "rank 2 calls step_early after 1 micro-batches");
  CHECK(left_on_doubles() == "");
}

TEST_CASE("after an abort the ranks go on from the last step with another communicator") {
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy("IIG").value(), "2x2");
    const Trained undisturbed = train(comm, job, nullptr);
    job.config.on_device = device.use();
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    static_cast<void>(train_step(*runner, job, 0));
    // One is in the middle of a step, whose collectives others have not begun.
    if (ho_comm_rank(comm) == 1) {
      static_cast<void>(runner->before_forward(0));
    } else if (ho_comm_rank(comm) == 2) {
      runner->abort("the user has had enough");
    }
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    ho::test::must_be_ok(runner->rejoin(comm));
    static_cast<void>(train_step(*runner, job, 1));
    static_cast<void>(train_step(*runner, job, 2));
    if (masters_of(*runner) != undisturbed.masters) {
      throw std::runtime_error("other masters than without the abort");
    }
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a rank that leaves in the middle of a step is named on all others in time") {
  reset_doubles(Mode::kRandom);
  const auto errors = errors_of(
      "IIG",
      0,
      [](ho_comm*) {},
      [](StepRunner& runner, const Job& job) {
        if (runner.self().value() == 3) {
          static_cast<void>(runner.before_forward(0));
          throw std::runtime_error("rank 3 destroyed its runner, it says itself");
        }
        steps(runner, job);
      });
  check_one_cause(errors, "rank 3 destroyed its runner");
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a rank that does not go on is noticed at the deadline of what waits for it") {
  reset_doubles(Mode::kEager);
  const auto errors = errors_of(
      "IIG",
      kSoonMs,
      [](ho_comm*) {},
      [](StepRunner& runner, const Job& job) {
        if (runner.self().value() == 2) {
          ho::Status status;
          while ((status = runner.shards().domains->status()).ok()) {
            std::this_thread::yield();
          }
          throw std::runtime_error(status.message());
        }
        steps(runner, job);
      });
  check_one_cause(errors, "has not ended within");
  CHECK(left_on_doubles() == "");
}

TEST_CASE("a rank whose own work holds its stream has the cause in time, and no rejoin") {
  reset_doubles(Mode::kRandom);
  std::array<ho_comm*, 4> comms{};
  const auto errors = errors_of(
      "IIG",
      kSoonMs,
      [&](ho_comm* comm) { comms[static_cast<size_t>(ho_comm_rank(comm))] = comm; },
      [&](StepRunner& runner, const Job&) {
        ho::cuda_double::JointWork held(2, [](const ho::cuda_double::Translate&) {});
        const bool holds = runner.self().value() == 0;
        if (holds) {
          const auto current = ho::test::must_have(
              ho::device::CurrentContext::enter(*runner.config().on_device->device));
          void* const stream = runner.shards().ledger.operations().stream();
          std::string circle;
          static_cast<void>(
              held.enqueue(static_cast<ho::device::StreamHandle>(stream), "its own", {}, circle));
        }
        std::string said;
        try {
          run_hooks(runner);
          static_cast<void>(ho::test::must_have(runner.step()));
          static_cast<void>(ho::test::must_have(runner.flush(0)));
        } catch (const std::exception& error) {
          said = error.what();
        }
        if (holds) {  // all the time
          const ho::Status rejoined = runner.rejoin(comms[0]);
          held.give_up(0);
          if (!has(rejoined.message(), "rejoin: ") ||
              !has(rejoined.message(), "the device was not through with its stream")) {
            said = "rejoin: " + rejoined.to_string();
          }
        }
        throw std::runtime_error(said);
      });
  check_one_cause(errors, "has not ended within");
  CHECK(left_on_doubles() == "");
}

TEST_CASE("ranks with states on devices and on the host, and unequal groups, are refused") {
  reset_doubles();
  const auto refused = [](const std::string& nodes, uint32_t ranks_on_device) {
    return ho::test::run_job({nodes}, [&](ho_comm* comm) {
      const RankDevice device(comm);
      HostMemory host;
      RunnerConfig config = job_of(Strategy(), nodes).config;
      const bool on_device = static_cast<uint32_t>(ho_comm_rank(comm)) < ranks_on_device;
      if (on_device) {
        config.on_device = device.use();
      }
      static_cast<void>(make_runner(comm, config, on_device ? device.memory() : host));
    });
  };
  for (const std::string& error : refused("1x3", 2)) {
    CHECK(has(error, "ranks 0 and 2 differ in: place: PARO_PLACE_DEVICE and PARO_PLACE_HOST"));
  }
  for (const std::string& error : refused("3+1", 4)) {
    CHECK(has(error, "groups of one size"));
  }
  CHECK(left_on_doubles() == "");
}
