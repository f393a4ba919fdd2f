// Who is named when a step is left out: the rank that computed what is not finite, or the sum.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/dtype.hpp"
#include "catch.hpp"
#include "caught_stderr.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "reduce/reduce.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

constexpr uint32_t kUnits = 3;
constexpr uint32_t kMicroBatches = 2;
constexpr size_t kElements = 37;

struct At {
  uint32_t rank;
  uint64_t step;
  uint32_t micro_batch;
  uint32_t unit;
  size_t element;
};
using GradientAt = std::function<float(const At& at)>;

template <typename View>
void add(const View& view, ho_dtype dtype, size_t element, float value) {
  if (dtype == HO_FLOAT32) {
    view.template gradients<float>()[element] += value;
    return;
  }
  uint16_t narrow = 0;
  ho::narrow(static_cast<ho::DType>(dtype), &narrow, &value, 1);
  view.template gradients<uint16_t>()[element] = narrow;  // there were zeros
}

// The log of steps whose gradients are `gradient_at`; all of them are left out.
std::string log_of(const RunnerOptions& input,
                   uint64_t steps,
                   const GradientAt& gradient_at,
                   bool tied = false) {
  RunnerOptions options = input;
  options.alignment = 2;
  options.micro_batches = kMicroBatches;
  ho::test::CaughtStderr caught;
  require_job({"2x2"}, [&](ho_comm* comm) {
    const auto rank = static_cast<uint32_t>(ho_comm_rank(comm));
    Runner runner = Runner::create(
        comm,
        options,
        {{"first", kElements},
         {"second", kElements},
         {.name = "third", .trained = tied ? 0 : kElements, .shares = tied ? "first" : ""}});
    for (uint64_t step = 0; step < steps; ++step) {
      for (uint32_t k = 0; k < kMicroBatches; ++k) {
        for (uint32_t u = 0; u < kUnits; ++u) {
          static_cast<void>(runner.before_forward(u));
          runner.after_forward(u);
        }
        for (uint32_t u = kUnits; u-- > 0;) {
          const auto view = runner.before_backward(u);
          for (size_t i = 0; i < kElements; ++i) {
            add(view, options.gradient_dtype, i, gradient_at({rank, step, k, u, i}));
          }
          runner.after_backward(u);
        }
      }
      const paro_step_report report = runner.step();
      expect(report.applied == 0 && !std::isfinite(report.norm), "is left out");
    }
  });
  return caught.end();
}

bool has(const std::string& log, const std::string& text) {
  return log.find(text) != std::string::npos;
}

// In step s rank s computes a number that is not finite, in the last micro-batch of unit 1.
GradientAt planted(float value) {
  return [value](const At& at) {
    const bool here = at.rank == at.step && at.micro_batch + 1 == kMicroBatches && at.unit == 1;
    return here && at.element >= 11 ? value : 1.0F;
  };
}

}  // namespace

TEST_CASE("a gradient that is not finite is blamed on the rank that computed it") {
  for (const char* strategy : {"NNN", "NIG", "IIG", "GGG"}) {
    for (const uint64_t bucket_bytes : {uint64_t{0}, uint64_t{4096}}) {
      RunnerOptions options;
      options.strategy = strategy;
      options.bucket_bytes = bucket_bytes;
      const std::string log = log_of(options, 4, planted(NAN));
      INFO(strategy << ", buckets of " << bucket_bytes << "\n" << log);
      // Where gradients are not split, a rank's micro-batches are added up first.
      const std::string when =
          strategy[1] == 'N' ? "in the sum of its micro-batches" : "micro-batch 1";
      for (int rank = 0; rank < 4; ++rank) {
        CHECK(has(log,
                  "step " + std::to_string(rank + 1) + " is left out on all ranks: rank " +
                      std::to_string(rank) +
                      " computed a NaN in the gradient of unit 1 (second), element 11, " + when +
                      "; look at that rank's loss and data\n"));
      }
      CHECK_FALSE(has(log, "loss scaling"));
    }
  }
}

TEST_CASE("an infinity of 16 bits is blamed on its rank too, and the scaling named") {
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    RunnerOptions options;
    options.strategy = strategy;
    options.gradient_dtype = HO_FLOAT16;
    options.loss_scale.scaling = PARO_SCALING_STATIC;
    const std::string log = log_of(options, 4, planted(-INFINITY));
    INFO(strategy << "\n" << log);
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(has(log,
                "rank " + std::to_string(rank) +
                    " computed an infinity in the gradient of unit 1 (second), element 11"));
    }
    CHECK(has(log, "; with float16 take dynamic loss scaling\n"));
  }
}

TEST_CASE("of several ranks the first in time is named") {
  RunnerOptions options;
  options.strategy = "GGG";
  // Backward comes to the last unit first.
  const std::string log = log_of(options, 1, [](const At& at) {
    const bool early = at.rank == 2 && at.micro_batch == 0 && at.unit == 2;
    const bool late = at.rank == 1 && at.micro_batch == 0 && at.unit == 1;
    const bool last = at.rank == 0 && at.micro_batch == 1;
    return early || late || last ? NAN : 1.0F;
  });
  INFO(log);
  CHECK(has(log,
            "rank 2 computed a NaN in the gradient of unit 2 (third), element 0, micro-batch 0, "
            "the first of 3 ranks that did so;"));
}

TEST_CASE("where all ranks' gradients are finite and their sum is not, that is said") {
  for (const char* strategy : {"NNN", "NIG", "IIG", "GGG"}) {
    RunnerOptions options;
    options.strategy = strategy;
    const std::string log = log_of(options, 1, [](const At& at) {
      const bool large = at.unit == 2 && at.element == 30 && at.micro_batch == 0;
      return large ? std::numeric_limits<float>::max() : 0.0F;
    });
    INFO(strategy << "\n" << log);
    CHECK(has(log,
              "step 1 is left out on all ranks: the gradients of all ranks are finite, their sum "
              "overflowed in unit 2 (third), element 30;"));
    CHECK_FALSE(has(log, "computed"));
    CHECK_FALSE(has(log, "loss scaling"));
  }
}

TEST_CASE("of units that share parameters both are named: it may be their sum that overflowed") {
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    RunnerOptions options;
    options.strategy = strategy;
    const auto gradient_at = [](const At& at) {
      const bool large = at.rank == 1 && at.unit != 1 && at.element == 5 && at.micro_batch == 0;
      return large ? std::numeric_limits<float>::max() : 0.0F;
    };
    const std::string log = log_of(options, 1, gradient_at, true);
    INFO(strategy << "\n" << log);
    CHECK(has(log,
              "unit 0 (first) with those added of unit 2 (third), which shares its parameters, "
              "element 5"));
  }
}
