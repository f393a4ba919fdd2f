// What one rank gets wrong in a collective call is told to all of them, and no rank is left
// waiting.
#include <array>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"
#include "paro/runner.hpp"
#include "trainer.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;

namespace {

// Deadlines are far away: what ends early ends for another reason.
constexpr uint64_t kFarMs = 300000;
constexpr int32_t kWrong = 3;

Runner runner_of(ho_comm* comm, const char* strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.alignment = 1;
  options.micro_batches = 3;
  Runner runner = Runner::create(comm, options, {{"first", 5, 2}, {"second", 4, 3}});
  runner.load(0, std::vector<float>(5, 1), std::vector<float>(2, 2));
  runner.load(1, std::vector<float>(4, 3), std::vector<float>(3, 4));
  return runner;
}

void one_step(Runner& runner, uint32_t micro_batches) {
  for (uint32_t k = 0; k < micro_batches; ++k) {
    for (uint32_t u = 0; u < 2; ++u) {
      static_cast<void>(runner.before_forward(u));
      runner.after_forward(u);
    }
    for (uint32_t u = 2; u-- > 0;) {
      runner.before_backward(u).gradients<float>()[0] += 1;
      runner.after_backward(u);
    }
  }
  expect(runner.step().applied == 1, "applies");
}

}  // namespace

TEST_CASE("a number of micro-batches out of range on one rank is a mismatch on all") {
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      Runner runner = runner_of(comm, strategy);
      const bool wrong = ho_comm_rank(comm) == kWrong;
      expect_refusal(paro_runner_set_micro_batches(runner.get(), wrong ? 4 : 2),
                     HO_MISMATCH,
                     "rank 0 has 2 micro-batches, rank 3 4");
      expect_refusal(paro_runner_set_micro_batches(runner.get(), wrong ? 0 : 2),
                     HO_MISMATCH,
                     "rank 0 has 2 micro-batches, rank 3 0");
      expect_refusal(
          paro_runner_set_micro_batches(runner.get(), 4), HO_INVALID_ARGUMENT, "takes 1 to 3");
      one_step(runner, 3);
      runner.set_micro_batches(2);
      one_step(runner, 2);
    });
  }
}

TEST_CASE("room that is wrong on one rank is a mismatch on all") {
  for (const char* strategy : {"NNN", "IIG", "GGG"}) {
    require_job({"2x2", false, kFarMs}, [&](ho_comm* comm) {
      Runner runner = runner_of(comm, strategy);
      const bool wrong = ho_comm_rank(comm) == kWrong;
      std::array<float, 6> space{};
      expect_refusal(paro_runner_read_masters(runner.get(), 0, space.data(), wrong ? 6 : 5),
                     HO_MISMATCH,
                     "rank 0 has room for 5 elements, rank 3 for 6");
      expect_refusal(paro_runner_read_frozen(runner.get(), 1, space.data(), wrong ? 2 : 3),
                     HO_MISMATCH,
                     "rank 0 has room for 3 elements, rank 3 for 2");
      expect_refusal(paro_runner_read_masters(runner.get(), wrong ? 7 : 1, space.data(), 4),
                     HO_MISMATCH,
                     "rank 0 reads unit 1, rank 3 unit 7");
      expect_refusal(paro_runner_read_masters(runner.get(), 0, wrong ? nullptr : space.data(), 5),
                     wrong ? HO_INVALID_ARGUMENT : HO_MISMATCH,
                     wrong ? "a null array for 5" : "rank 3 for 0");
      must(paro_runner_read_masters(runner.get(), 1, space.data(), 4));
      expect(space[3] == 3, "reads");
      one_step(runner, 3);
    });
  }
}
