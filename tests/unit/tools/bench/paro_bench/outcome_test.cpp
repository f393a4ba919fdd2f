// What follows from measured steps.
#include "bench/paro_bench/outcome.hpp"

#include "catch.hpp"
#include "cli/subcommands/statistics.hpp"

namespace paro::bench {
namespace {

Outcome outcome(std::string_view name, double step_s, double predicted_s, uint64_t bytes) {
  Outcome made;
  made.system = parse_systems(name)->front();
  made.planned.emplace().time.step_s = predicted_s;
  Sample sample;
  sample.times.step = step_s;
  sample.memory.predicted[Purpose::kParameters] = bytes;
  sample.memory.actual = sample.memory.predicted;
  made.samples = {sample, sample, sample};
  return made;
}

std::optional<double> tau(std::vector<double> a, std::vector<double> b, double tie) {
  return kendall_tau_b(a, b, tie);
}

}  // namespace

TEST_CASE("a median is the middle one, or the mean of the two") {
  CHECK(ho::median({3, 1, 2}) == 2);
  CHECK(ho::median({4, 1, 3, 2}) == 2.5);
  CHECK(ho::median({7}) == 7);
}

TEST_CASE("an outcome tells medians and the span") {
  Outcome some = outcome("IIG", 2, 2, 10);
  some.samples[0].times.step = 9;
  some.samples[2].times.step = 1;
  some.samples[1].times.exposed = 5;
  CHECK(some.times().step == 2);
  CHECK(some.times().exposed == 0);
  CHECK(some.least_step_s() == 1);
  CHECK(some.most_step_s() == 9);
  CHECK_FALSE(some.processors_busy().has_value());
  some.samples[0].processors_busy = 0.25;
  some.samples[2].processors_busy = 0.75;
  CHECK(some.processors_busy() == 0.5);
}

TEST_CASE("Kendall's tau-b tells the same order, the opposite one, and ties") {
  CHECK(tau({1, 2, 3}, {10, 20, 30}, 0) == Approx(1));
  CHECK(tau({1, 2, 3}, {30, 20, 10}, 0) == Approx(-1));
  CHECK(tau({1, 2, 3, 4}, {1, 2, 4, 3}, 0) == Approx(4.0 / 6));
  // One of three pairs is tied in one of the two.
  CHECK(tau({1, 1.01, 3}, {1, 2, 3}, 0.03) == Approx(2 / std::sqrt(2.0 * 3)));
  CHECK_FALSE(tau({1, 1.01, 1.02}, {1, 2, 3}, 0.03).has_value());
  CHECK_FALSE(tau({}, {}, 0).has_value());
}

TEST_CASE("of steps that take as long by plan that which stays so on worse links is taken") {
  std::vector<Outcome> outcomes{
      outcome("ddp", 3, 3, 200), outcome("IGG", 2, 1, 150), outcome("IIG", 1, 1.02, 160)};
  outcomes[1].planned->time.half_links_s = 4;
  outcomes[2].planned->time.half_links_s = 2;
  REQUIRE(comparisons(outcomes, 1).size() == 1);
  CHECK(comparisons(outcomes, 1)[0].recommended->system.name == "IIG");
}

TEST_CASE("a baseline is held against what the plan takes in its memory") {
  const std::vector<Outcome> outcomes{outcome("zero3", 8, 8, 100),
                                      outcome("IIG", 2, 1, 150),
                                      outcome("GGG", 4, 3, 100),
                                      outcome("GIG", 1, 5, 90),
                                      outcome("GGG/ring", 1, 1, 100),
                                      outcome("ddp", 3, 3, 200),
                                      outcome("hsdp", 3, 3, 10)};
  const auto all = comparisons(outcomes, 1);
  REQUIRE(all.size() == 2);  // nothing fits hsdp's
  CHECK(all[0].baseline->system.name == "zero3");
  CHECK(all[0].recommended->system.name == "GGG");  // by plan, not by what was measured
  CHECK(all[0].ratio() == Approx(2));
  CHECK(all[1].recommended->system.name == "IIG");
  CHECK(all[1].ratio() == Approx(1.5));
  CHECK(comparisons(outcomes, 4).empty());
}

}  // namespace paro::bench
