// examples/gpu on the doubles: what it computes with libparo on four devices is what it computes
// without it on one.
#include <cmath>
#include <string>
#include <vector>

#include "alone.hpp"
#include "catch.hpp"
#include "double_gpu.hpp"
#include "on_nccl.hpp"
#include "sharded.hpp"

namespace {

using ho::cuda_double::Mode;
using ho::test::DoubleGpu;

example::Settings short_training() {
  example::Settings settings;
  settings.vocabulary = 16;
  settings.width = 8;
  settings.blocks = 2;
  settings.tokens = 32;
  settings.steps = 12;
  settings.rule.learning_rate = 0.03F;
  return settings;
}

std::vector<float> losses_alone(uint32_t micro_batches) {
  ho::test::reset_doubles(Mode::kRandom);
  std::vector<float> losses;
  {
    DoubleGpu gpu(0);
    example::Settings settings = short_training();
    settings.micro_batches = micro_batches;
    losses = example::train_alone(gpu, settings);
  }
  CHECK(ho::test::left_on_doubles() == "");
  return losses;
}

}  // namespace

TEST_CASE("the example on four devices has the losses of the same training on one") {
  const std::vector<float> alone = losses_alone(8);
  REQUIRE(alone.size() == 12);
  CHECK(alone.back() < 0.7F * alone.front());
  for (const char* const strategy : {"NIG", "IIG", "GGG"}) {
    INFO(strategy);
    ho::test::reset_doubles(Mode::kRandom);
    std::vector<std::vector<float>> losses(4);
    ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
      const auto rank = static_cast<size_t>(ho_comm_rank(comm));
      DoubleGpu gpu(ho_comm_device(comm));
      losses[rank] = example::train_sharded(gpu, comm, strategy, short_training());
    });
    CHECK(ho::test::left_on_doubles() == "");
    for (const std::vector<float>& each : losses) {
      REQUIRE(each.size() == alone.size());
      for (size_t step = 0; step < alone.size(); ++step) {
        INFO("step " << step << ": " << each[step] << ", alone " << alone[step]);
        CHECK(std::abs(each[step] - alone[step]) < 1e-3F * alone[step]);
      }
    }
  }
}
