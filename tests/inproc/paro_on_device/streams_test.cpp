// A runner's four streams: computation is not held by collectives that it does not need, and
// whatever one stream needs of another it waits for.
#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "on_doubles.hpp"
#include "run/agreement.hpp"
#include "scoped_variable.hpp"

using namespace paro;
using namespace paro::test;
using ho::cuda_double::Mode;
using ho::test::left_on_doubles;
using ho::test::must_be_ok;
using ho::test::must_have;
using ho::test::reset_doubles;

namespace {

// Uses what a view has as a framework does that leaves all of its work to its stream.
class AsyncFramework {
 public:
  explicit AsyncFramework(StepRunner& runner)
      : runner_(runner), ledger_(runner.shards().ledger.memory()) {
    uint64_t most = 0;
    for (const UnitShape& unit : runner.config().units) {
      most = std::max({most, unit.trained, unit.frozen});
    }
    seen_ = must_have(ledger_.allocate(Purpose::kScratch, most * sizeof(float)));
  }
  void forward(uint32_t unit) {
    look_at(unit, must_have(runner_.before_forward(unit)));
    must_be_ok(runner_.after_forward(unit));
  }
  void backward(uint32_t unit) {
    const UnitView view = must_have(runner_.before_backward(unit));
    look_at(unit, view);
    if (view.gradients != nullptr) {
      operations().add(ho::DType::kFloat32,
                       view.gradients,
                       ho::DType::kFloat32,
                       view.trained,
                       shape(unit).trained);
    }
    must_be_ok(runner_.after_backward(unit));
  }
  void micro_batch() {
    const auto units = static_cast<uint32_t>(runner_.config().units.size());
    for (uint32_t unit = 0; unit < units; ++unit) {
      forward(unit);
    }
    for (uint32_t unit = units; unit-- > 0;) {
      backward(unit);
    }
  }

 private:
  [[nodiscard]] const Operations& operations() const { return ledger_.operations(); }
  [[nodiscard]] const UnitShape& shape(uint32_t unit) const {
    const auto& units = runner_.config().units;
    return units[home_of(units, unit)];
  }
  void look_at(uint32_t unit, const UnitView& view) const {
    for (const auto& [from, count] :
         {std::pair(view.trained, shape(unit).trained), {view.frozen, shape(unit).frozen}}) {
      if (from != nullptr) {
        operations().copy(seen_.get(), from, count * sizeof(float));
      }
    }
  }

  StepRunner& runner_;
  Ledger ledger_;
  Buffer seen_;
};

// Of units that all have the same of everything: each wait is for memory that is used indeed.
Job job_of_equal_units(const std::string& triple) {
  Job job = job_of(parse_strategy(triple).value(), "2x2");
  job.config.units = {{"first", 128, 64}, {"second", 128, 64}, {"third", 128, 64}};
  job.config.bucket_bytes = 0;
  job.config.timeout_ms = 5000;
  return job;
}

// Two steps, of whose second the k-th wait for an event is left out on each rank (0: none), rank by
// rank, from its second micro-batch to its end. What they wait for is of the same step, of which no
// rank has seen anything end. How many a rank has.
uint64_t train_without_wait(const std::string& triple, uint64_t k) {
  reset_doubles(Mode::kEager);
  std::atomic<uint64_t> waits = 0;
  const auto thrown = ho::test::run_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of_equal_units(triple);
    job.config.on_device = device.use();
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    AsyncFramework framework(*runner);
    framework.micro_batch();
    framework.micro_batch();
    static_cast<void>(must_have(runner->step()));
    all_come(comm);
    ho::nccl_double::hold(ho_comm_rank(comm));
    framework.micro_batch();
    for (int32_t turn = 0; turn < ho_comm_world_size(comm); ++turn) {
      all_come(comm);
      if (turn == ho_comm_rank(comm)) {
        const uint64_t before = ho::cuda_double::calls("stream_wait_event");
        ho::cuda_double::drop_wait(k);
        framework.micro_batch();
        static_cast<void>(must_have(runner->step()));
        ho::cuda_double::drop_wait(0);
        waits = ho::cuda_double::calls("stream_wait_event") - before;
      }
    }
    all_come(comm);
    ho::nccl_double::let_go(ho_comm_rank(comm));
  });
  CHECK((k > 0 || thrown == std::vector<std::string>(4)));
  return waits;
}

// All of a strategy's waits, where there are none that have collectives begin one at a time.
void check_waits(const Strategy& strategy) {
  const ho::test::ScopedVariable in_order("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  const std::string triple = letters(strategy);
  const uint64_t waits = train_without_wait(triple, 0);
  CHECK(left_on_doubles() == "");
  CHECK(waits > 0);
  for (uint64_t k = 1; k <= waits; ++k) {
    INFO(triple << ", wait " << k << " of " << waits);
    static_cast<void>(train_without_wait(triple, k));
    CHECK(ho::cuda_double::dropped_waits() > 0);
    CHECK_FALSE(ho::cuda_double::take_violations().empty());
  }
}

}  // namespace

TEST_CASE("computation goes on while reductions are held that it does not need") {
  reset_doubles(Mode::kRandom);
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of(parse_strategy("NIG").value(), "2x2");
    job.config.on_device = device.use();
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    static_cast<void>(train_step(*runner, job, 0));
    must_be_ok(runner->synchronize());
    all_come(comm);
    ho::nccl_double::hold(ho_comm_rank(comm));
    AsyncFramework framework(*runner);
    for (uint32_t unit = 0; unit < 5; ++unit) {
      framework.forward(unit);
    }
    framework.backward(4);
    if (ho::cuda_double::joint_work(ho_comm_rank(comm)) == 0) {
      throw std::runtime_error("no reduction was launched");
    }
    if (!device.computed_within(std::chrono::seconds(20))) {
      throw std::runtime_error("computation waits for a reduction that is held");
    }
    all_come(comm);
    ho::nccl_double::let_go(ho_comm_rank(comm));
    for (uint32_t unit = 4; unit-- > 0;) {
      framework.backward(unit);
    }
    static_cast<void>(must_have(runner->step_early()));
  });
  CHECK(left_on_doubles() == "");
}

TEST_CASE("any wait between streams that is left out is noticed") {
  check_waits(parse_strategy("IIG").value());
}

TEST_CASE("any wait between streams of any strategy that is left out is noticed", "[.more]") {
  for (const Strategy& strategy : all_strategies()) {
    check_waits(strategy);
  }
}

TEST_CASE("ranks that would launch a step in different orders are refused on all of them") {
  const Job job = job_of(parse_strategy("IIG").value(), "1x2");
  const StepPlan plan =
      build_step_plan({job.config.strategy, job.config.frozen, job.config.units, 2, 1}).value();
  const StepStreams right = streams_of(plan);
  StepStreams other = right;
  std::swap(other.launches[3], other.launches[4]);
  const auto errors = ho::test::run_job({job.nodes}, [&](ho_comm* comm) {
    must_be_ok(same_launches(comm, plan, right, 20'000));
    const bool first = ho_comm_rank(comm) == 0;
    must_be_ok(same_launches(comm, plan, first ? right : other, 20'000));
  });
  for (const std::string& error : errors) {
    CHECK(has(error, "ranks 0 and 1 launch a step of IIG in different orders, from launch 3 on"));
  }
}
