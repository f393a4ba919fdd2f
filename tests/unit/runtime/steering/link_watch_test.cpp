#include "steering/link_watch.hpp"

#include "catch.hpp"

using namespace paro;
using namespace paro::steering;

namespace {

// Half of the bytes inside nodes, half between.
StepReport step_of(uint64_t bytes, uint64_t collective_ns) {
  StepReport report;
  report.sent = {bytes / 2, bytes / 2};
  report.collective_ns = collective_ns;
  report.compute_ns = 3'000'000;
  return report;
}

// What it says after so many such steps.
bool changed(LinkWatch& watch, uint32_t steps, const StepReport& report) {
  bool found = false;
  for (uint32_t i = 0; i < steps; ++i) {
    found = watch.after_step(report).has_value();
  }
  return found;
}

}  // namespace

TEST_CASE("links count as changed from twice a byte's time on") {
  LinkWatch watch(4);
  CHECK_FALSE(changed(watch, 4, step_of(1000, 5000)));
  CHECK_FALSE(changed(watch, 4, step_of(1000, 9900)));
  CHECK_FALSE(changed(watch, 4, step_of(3000, 9900)));
  CHECK_FALSE(changed(watch, 3, step_of(1000, 10100)));
  const auto found = watch.after_step(step_of(1000, 10100));
  REQUIRE(found.has_value());
  CHECK(found->before_ns_per_byte == 5);
  CHECK(found->now_ns_per_byte == 10.1);
  CHECK(watch.compute_s() == 0.003);
  watch.begin_anew();
  CHECK_FALSE(changed(watch, 4, step_of(1000, 10100)));
  CHECK(changed(watch, 4, step_of(1000, 5000)));
}

TEST_CASE("nothing is said of steps without bytes, or where nobody asks") {
  LinkWatch watch(1);
  CHECK_FALSE(changed(watch, 3, step_of(0, 1000)));
  LinkWatch never(0);
  CHECK_FALSE(changed(never, 5, step_of(1000, 5000)));
  CHECK_FALSE(changed(never, 5, step_of(1000, 50000)));
}
