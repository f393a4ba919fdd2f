// A runner's steps in virtual time, against the critical path of its step plan: what computation
// does not hide there, it does not hide on the streams either.
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "on_doubles.hpp"
#include "scoped_variable.hpp"
#include "step/critical_path.hpp"
#include "step/traffic.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::must_be_ok;
using ho::test::must_have;
using ho::test::require_job;
namespace cuda_double = ho::cuda_double;
namespace nccl_double = ho::nccl_double;

namespace {

constexpr int64_t kForwardNs = 10'000;
constexpr int64_t kBackwardNs = 2 * kForwardNs;
constexpr uint32_t kSteps = 6;  // until they take one time

// Of devices 0 and 1 in one group, 2 and 3 in the other.
struct ByteTimes {
  int64_t intra_ns = 0;  // a byte
  int64_t inter_ns = 0;
  [[nodiscard]] int64_t collective_ns(Act act, size_t bytes, bool inter) const {
    const int64_t ns = static_cast<int64_t>(bytes) * (inter ? inter_ns : intra_ns);
    return bytes <= kAgreeBytes ? 0 : act == Act::kAllReduce ? 2 * ns : ns;
  }
};

// Without buckets, and with parts of one size.
Job job_of_units(const std::string& triple) {
  Job job = job_of(parse_strategy(triple).value(), "2x2");
  job.config.units = {{"first", 128, 64}, {"second", 256, 64}, {"third", 128, 64}};
  job.config.bucket_bytes = 0;
  return job;
}

uint64_t bytes_of(const RunnerConfig& config, const Action& action) {
  const UnitShape& unit = config.units[action.unit];
  switch (action.content) {
    case Content::kParameters:
      return unit.trained * ho::size_bytes(config.parameter_dtype);
    case Content::kFrozen:
      return unit.frozen * ho::size_bytes(config.parameter_dtype);
    case Content::kGradients:
      return unit.trained * ho::size_bytes(config.gradient_dtype);
    case Content::kNorm:
      break;
  }
  return kAgreeBytes;
}

// In nanoseconds.
std::vector<ActionCost> costs_of(const StepPlan& plan,
                                 const RunnerConfig& config,
                                 ByteTimes times) {
  std::vector<ActionCost> costs;
  for (const Action& action : plan.actions) {
    int64_t ns = 0;
    if (is_collective(action.act)) {
      // Between groups each rank has what the ranks of its number have in the others.
      const uint64_t bytes = bytes_of(config, action) / (action.domain == Domain::kInter ? 2 : 1);
      ns = times.collective_ns(action.act, bytes, action.domain != Domain::kIntra);
    } else if (action.act != Act::kUpdate) {
      ns = action.act == Act::kForward ? kForwardNs : kBackwardNs;
    }
    costs.push_back({static_cast<double>(ns)});
  }
  return costs;
}

void reset_timed(ByteTimes times) {
  cuda_double::Config cuda;
  cuda.mode = cuda_double::Mode::kTimed;
  cuda.devices = 4;
  cuda.one_model = true;
  cuda.rates = {1e9, 1e9};  // all but collectives and computation takes no time
  cuda_double::reset(cuda);
  nccl_double::Config nccl;
  nccl.takes_ns = [times](const std::string& call, size_t bytes, const std::set<int>& devices) {
    const bool inter = *devices.begin() / 2 != *devices.rbegin() / 2;
    return times.collective_ns(
        call == "ncclAllReduce" ? Act::kAllReduce : Act::kGather, bytes, inter);
  };
  nccl_double::reset(nccl);
}

// A framework's work, on its stream.
void compute(const StepRunner& runner, int64_t takes_ns, std::vector<int64_t>& ended_ns) {
  const auto current =
      must_have(ho::device::CurrentContext::enter(*runner.config().on_device->device));
  std::string circle;
  cuda_double::JointWork work(
      1,
      [&](const cuda_double::Translate&) { ended_ns.push_back(cuda_double::now_ns()); },
      takes_ns);
  void* const stream = runner.shards().ledger.operations().stream();
  if (work.enqueue(static_cast<ho::device::StreamHandle>(stream), "computation", {}, circle) !=
      ho::device::kSuccess) {
    throw std::runtime_error("computation was refused: " + circle);
  }
}

struct Steps {
  double between_ns = 0;  // of one and the next, in the middle
  CriticalPath path;
};

Steps run_steps(const std::string& triple, ByteTimes times, Begins begins) {
  reset_timed(times);
  Steps result;
  require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    Job job = job_of_units(triple);
    job.config.on_device = device.use();
    const auto runner = make_runner(comm, job.config, device.memory());
    load_initial(*runner);
    const auto units = static_cast<uint32_t>(job.config.units.size());
    std::vector<int64_t> ended_ns;
    for (uint32_t step = 0; step < kSteps; ++step) {
      for (uint32_t micro_batch = 0; micro_batch < job.config.micro_batches; ++micro_batch) {
        for (uint32_t unit = 0; unit < units; ++unit) {
          static_cast<void>(must_have(runner->before_forward(unit)));
          compute(*runner, kForwardNs, ended_ns);
          must_be_ok(runner->after_forward(unit));
        }
        for (uint32_t unit = units; unit-- > 0;) {
          static_cast<void>(must_have(runner->before_backward(unit)));
          compute(*runner, kBackwardNs, ended_ns);
          must_be_ok(runner->after_backward(unit));
        }
      }
      all_come(comm);  // what a rank waits for in step() was enqueued on all of them
      cuda_double::wait_by_queries(true);
      static_cast<void>(must_have(runner->step()));
      cuda_double::wait_by_queries(false);
    }
    all_come(comm);
    cuda_double::wait_by_queries(true);
    must_be_ok(runner->synchronize());
    cuda_double::wait_by_queries(false);
    all_come(comm);
    if (ho_comm_rank(comm) == 0) {
      const size_t in_step = ended_ns.size() / kSteps;
      result.between_ns = static_cast<double>(ended_ns[(kSteps - 1) * in_step - 1] -
                                              ended_ns[(kSteps - 2) * in_step - 1]);
      const StepPlan& plan = runner->plan();
      result.path =
          critical_path(plan, streams_of(plan), costs_of(plan, job.config, times), begins);
    }
  });
  return result;
}

void require_path(const std::string& triple, ByteTimes times, Begins begins) {
  const bool in_order = begins == Begins::kInOrder;
  INFO(triple << " at " << times.intra_ns << " and " << times.inter_ns << " ns a byte, "
              << (in_order ? "in order" : "one at a time"));
  const ho::test::ScopedVariable variable("NCCL_LAUNCH_ORDER_IMPLICIT", in_order ? "1" : "0");
  const Steps steps = run_steps(triple, times, begins);
  const double exposed_ns = steps.between_ns - steps.path.compute_s;
  CHECK(exposed_ns == Approx(steps.path.exposed_s()).epsilon(0.05).margin(1));
}

}  // namespace

TEST_CASE("steps on streams take what the critical path of their plan takes") {
  require_path("NIG", {4, 16}, Begins::kInOrder);
  require_path("IIG", {4, 16}, Begins::kInOrder);
  require_path("IIG", {20, 80}, Begins::kOneAtATime);
}

TEST_CASE("steps on streams take what their plan says with all strategies", "[.more]") {
  for (const Begins begins : {Begins::kInOrder, Begins::kOneAtATime}) {
    for (const Strategy& strategy : all_strategies()) {
      for (const ByteTimes& times : {ByteTimes{4, 16}, {20, 80}, {100, 20}}) {
        require_path(letters(strategy), times, begins);
      }
    }
  }
}
