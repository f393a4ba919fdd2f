// What happens to the others when one rank fails, leaves or gives up, and how a job goes on.

#include <chrono>
#include <latch>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "catch.hpp"
#include "job.hpp"
#include "more_time.hpp"
#include "parity_case.hpp"
#include "reserved_port.hpp"
#include "trainer.hpp"

using namespace paro::test;
using ho::test::require_job;
using ho::test::run_job;
using paro::toy::Outcome;
using paro::toy::Training;

namespace {

// Deadlines are far away: what ends early ends for another reason.
constexpr uint64_t kFarMs = 300000;

Training training_of(const char* triple, uint32_t micro_batches) {
  Training training = hard_training(paro::parse_strategy(triple).value(), micro_batches);
  training.steps = 12;
  return training;
}

// What a rank's next step says.
std::string failure_of(Trainer& trainer, uint64_t step) {
  try {
    static_cast<void>(trainer.compute(step));
    must(paro_runner_step(trainer.runner(), nullptr));
    must(paro_runner_synchronize(trainer.runner()));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The ranks find each other again, as processes do that have lost their communicators.
class NewJob {
 public:
  NewJob(const ho_comm* old, const std::string& rendezvous) {
    const int32_t rank = ho_comm_rank(old);
    const std::string host = "node" + std::to_string(ho_comm_group_of(old, rank));
    ho_comm_options options = HO_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = ho_comm_world_size(old);
    options.rendezvous = rendezvous.c_str();
    options.job_key = "a key for tests only";
    options.host_id = host.c_str();
    options.timeout_ms = kFarMs;
    ho::test::must(ho_comm_create(&options, &comm_));
  }
  NewJob(const NewJob&) = delete;
  NewJob& operator=(const NewJob&) = delete;
  ~NewJob() { ho_comm_destroy(comm_); }
  [[nodiscard]] ho_comm* get() const { return comm_; }

 private:
  ho_comm* comm_ = nullptr;
};

}  // namespace

TEST_CASE("a rank that destroys its runner in a step is named at once") {
  const Training training = training_of("IIG", 1);
  require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    // Nobody is still busy with the first step when the rank goes.
    must(paro_runner_synchronize(trainer.runner()));
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    if (ho_comm_rank(comm) == 2) {
      paro_unit_view view = PARO_UNIT_VIEW_INIT;
      must(paro_runner_before_forward(trainer.runner(), 0, &view));
      trainer.destroy();
      return;
    }
    const std::string error = failure_of(trainer, 1);
    expect(has(error, "rank 2 destroyed its runner in the middle of step 2"), error);
    expect(has(error, "aborted"), error);
    // This rank's own place: who, when, which operation of which unit.
    expect(has(error, ("rank " + std::to_string(ho_comm_rank(comm)) + ", step 2 of IIG, ").c_str()),
           error);
    expect(has(error, "unit ") && (has(error, "all_gather") || has(error, "reduce_scatter")),
           error);
    expect(failure_of(trainer, 1) == error, "returns its error again");
  });
}

TEST_CASE("an optimizer that fails breaks the job, which cannot go on from there") {
  const Training training = training_of("NIG", 1);
  const ho::test::ReservedPort address;
  require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.optimizer = PARO_OPTIMIZER_CUSTOM;
    options.custom.function = [](const paro_shard* shard, void* rank) -> int32_t {
      return *static_cast<int32_t*>(rank) == 1 && shard->step == 2 && shard->unit == 1 ? 7 : 0;
    };
    int32_t rank = ho_comm_rank(comm);
    options.custom.user = &rank;
    Trainer trainer(comm, training, options);
    static_cast<void>(trainer.step(comm, 0));
    std::string error = failure_of(trainer, 1);
    if (error.empty()) {
      error = failure_of(trainer, 2);
    }
    expect(has(error, "aborted"), error);
    expect(has(error, "the caller's optimizer returned 7"), error);
    expect(has(error, "rank 1, step 2 of NIG, update, unit 1"), error);
    const NewJob again(comm, address.text());
    expect_refusal(paro_runner_rejoin(trainer.runner(), again.get()),
                   HO_MISMATCH,
                   "rejoin: rank 1's optimizer failed in the middle of an update");
  });
}

TEST_CASE("learning rates that differ stop the step on every rank, before anything is updated") {
  for (const char* strategy : {"NNN", "NIG", "GGG"}) {
    const Training training = training_of(strategy, 1);
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      std::string letters;
      Trainer trainer(comm, training, options_of(training, letters));
      static_cast<void>(trainer.step(comm, 0));
      const auto disagree = [&](uint64_t step) {
        const bool other = ho_comm_rank(comm) == 2;
        must(paro_runner_set_learning_rate(trainer.runner(), other ? 0.0100000001 : 0.01));
        static_cast<void>(trainer.compute(step));
        const std::string address =
            "rank " + std::to_string(ho_comm_rank(comm)) + ", step " + std::to_string(step + 1) +
            ": the ranks do not have the same learning rate: rank 0 has 0.01, "
            "rank 2 has 0.0100000001; set the same on all ranks";
        expect_refusal(paro_runner_step(trainer.runner(), nullptr), HO_MISMATCH, address);
        expect_refusal(paro_runner_synchronize(trainer.runner()), HO_MISMATCH, address);
        expect(paro_runner_applied_steps(trainer.runner()) == step, "nothing was updated");
      };
      disagree(1);
      // Nobody was told by an abort: the communicator is as good as before.
      must(paro_runner_rejoin(trainer.runner(), comm));
      must(paro_runner_set_learning_rate(trainer.runner(), 0.01));
      static_cast<void>(trainer.step(comm, 1));
      expect(paro_runner_applied_steps(trainer.runner()) == 2, "and the ranks go on");
      disagree(2);
      trainer.destroy();
      // By now an abort would be the decision on the whole job.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      ho::test::must(ho_barrier(comm, nullptr, nullptr));
    });
  }
}

TEST_CASE("timeout_ms is how long calls between steps wait for a rank that does not come") {
  using Call = ho_status (*)(paro_runner*);
  const Call calls[] = {
      [](paro_runner* runner) { return paro_runner_check_drift(runner); },
      [](paro_runner* runner) { return paro_runner_change_strategy(runner, "GGG", 0); }};
  for (const Call call : calls) {
    const Training training = training_of("IIG", 1);
    std::latch others(3);
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      std::string letters;
      paro_runner_options options = options_of(training, letters);
      options.timeout_ms = 300;
      Trainer trainer(comm, training, options);
      if (ho_comm_rank(comm) == 3) {
        others.wait();
        return;
      }
      const ho_status status = call(trainer.runner());
      others.count_down();
      expect(status == HO_TIMEOUT, "is a timeout");
      expect(has(paro_last_error_message(), "within 300 ms"), "of the runner");
    });
  }
}

TEST_CASE("after an abort the ranks rejoin and still train like one rank") {
  for (const char* triple : {"IIG", "NNG", "GGG"}) {
    const Training training = training_of(triple, 4);
    const Outcome alone = paro::toy::train_single_rank(4, training);
    const ho::test::ReservedPort address;
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      Trainer trainer(comm, training);
      Outcome outcome;
      for (uint64_t step = 0; step < 5; ++step) {
        outcome.steps.push_back(trainer.step(comm, step));
      }
      if (ho_comm_rank(comm) == 3) {
        // Gradients of a whole step are under way.
        static_cast<void>(trainer.compute(5));
        must(paro_runner_abort(trainer.runner(), "enough for today"));
      }
      const std::string error = failure_of(trainer, 5);
      expect(has(error, "enough for today") || ho_comm_rank(comm) == 3, error);
      const NewJob again(comm, address.text());
      must(paro_runner_rejoin(trainer.runner(), again.get()));
      expect(paro_runner_applied_steps(trainer.runner()) == 5, "knows where it was");
      for (uint64_t step = 5; step < training.steps; ++step) {
        outcome.steps.push_back(trainer.step(again.get(), step));
      }
      must(paro_runner_check_drift(trainer.runner()));
      outcome.masters = trainer.masters();
      const std::string differs = difference(outcome, alone, kFloat32Tolerance);
      expect(differs.empty(), differs);
    });
  }
}

namespace {

struct RailEnd {
  std::vector<std::string> errors;
  std::set<std::string> causes;
  bool other_late = false;  // than rank 5, as may be where the machine is slow
};

// Rank 5 comes late. Only the ranks of its rail have deadlines that pass; what ends the others is
// what these tell. Nothing of the caller's ends.
RailEnd end_of_rail(std::chrono::milliseconds time) {
  const Training training = training_of("NIG", 1);
  std::latch others(15);
  std::mutex mutex;
  RailEnd end;
  end.errors = run_job({"4x4", false, kFarMs}, [&](ho_comm* comm) {
    const int32_t rank = ho_comm_rank(comm);
    ho_comm* sibling = nullptr;
    ho::test::must(ho_comm_split(comm, 0, rank, &sibling));
    std::string letters;
    paro_runner_options options = options_of(training, letters);
    options.timeout_ms = rank % 4 == 1 && rank != 5 ? static_cast<uint64_t>(time.count()) : kFarMs;
    std::optional<Trainer> trainer;
    std::string error;
    try {
      trainer.emplace(comm, training, options);
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    if (rank == 5) {
      others.wait();
    }
    error = trainer ? failure_of(*trainer, 0) : error;
    if (rank != 5) {
      others.count_down();
    }
    const size_t cause = error.find("rank 5 has not entered");
    const bool named = cause != std::string::npos;
    {
      const std::lock_guard lock(mutex);
      end.other_late |= !trainer || (!named && error.starts_with("timeout: "));
      end.causes.insert(named ? error.substr(cause, error.find(';', cause) - cause) : "");
    }
    expect(named && error.starts_with("timeout: "), error);
    ho::test::must(ho_barrier(sibling, nullptr, nullptr));
    ho::test::must(ho_barrier(comm, nullptr, nullptr));
    ho_comm_destroy(sibling);
    must(paro_runner_rejoin(trainer->runner(), comm));
  });
  return end;
}

}  // namespace

TEST_CASE("a rail that times out ends the runner on all ranks with one cause, and nothing else") {
  RailEnd end;
  (void)ho::test::with_more_time(std::chrono::seconds(1), [&end](std::chrono::milliseconds time) {
    end = end_of_rail(time);
    return !end.other_late;
  });
  CHECK(end.errors == std::vector<std::string>(16));
  CHECK(end.causes.size() == 1);
}

TEST_CASE("ranks rejoin under their old numbers or not at all") {
  const Training training = training_of("IIG", 1);
  require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    ho_comm* turned = nullptr;
    ho::test::must(ho_comm_split(comm, 0, -ho_comm_rank(comm), &turned));
    expect_refusal(paro_runner_rejoin(trainer.runner(), turned),
                   HO_MISMATCH,
                   "rank 0 of the new communicator was rank 3");
    ho_comm_destroy(turned);
    // A rejoin that failed leaves a broken runner, which another one mends.
    expect_refusal(paro_runner_synchronize(trainer.runner()), HO_ABORTED, "rejoin() failed");
    must(paro_runner_rejoin(trainer.runner(), comm));
    static_cast<void>(trainer.step(comm, 1));
  });
}

TEST_CASE("a runner destroyed right after a step leaves the others their parameters") {
  for (const char* letters : {"NIG", "IIG", "NGG"}) {
    const Training training = training_of(letters, 1);
    for (int leaving = 0; leaving < 4; ++leaving) {
      require_job({"3+1", false, kFarMs}, [&](ho_comm* comm) {
        Trainer trainer(comm, training);
        static_cast<void>(trainer.compute(0));
        must(paro_runner_step(trainer.runner(), nullptr));
        if (ho_comm_rank(comm) == leaving) {
          trainer.destroy();
          return;
        }
        // Not before the leaving rank is through, had it nothing to wait for.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        must(paro_runner_synchronize(trainer.runner()));
      });
    }
  }
}

TEST_CASE("a rank that is gone between steps is noticed at once") {
  const Training training = training_of("GGG", 1);
  require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
    Trainer trainer(comm, training);
    static_cast<void>(trainer.step(comm, 0));
    if (ho_comm_rank(comm) == 1) {
      trainer.destroy();
      return;
    }
    const std::string error = failure_of(trainer, 1);
    expect(has(error, "peer lost") || has(error, "aborted"), error);
    expect(has(error, "step 2 of GGG") && has(error, "unit "), error);
  });
}
