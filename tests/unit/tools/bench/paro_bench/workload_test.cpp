// A model brought to the size of an emulated cluster.
#include "bench/paro_bench/workload.hpp"

#include "catch.hpp"

namespace paro::bench {
namespace {

WorkloadSpec seven_billion() {
  WorkloadSpec spec;
  spec.model = *parse_model("llama-7b");
  return spec;
}

}  // namespace

TEST_CASE("states and computation shrink so that their ratio stays") {
  WorkloadSpec spec = seven_billion();
  const Workload load = *workload_of(spec, 1);
  CHECK(load.units.size() == kMaxUnits);
  CHECK(load.trained == Approx(7e9 / 2000).epsilon(1e-5));
  // 10 GB/s become 25 MB/s, so bytes shrink 2000-fold and rates 400-fold.
  CHECK(load.time_scale == Approx(0.2));
  // 6 operations for each parameter and token.
  const double real_s = 6 * 7e9 * 2048 * 10 / (312e12 * 0.4);
  CHECK(load.compute_s() == Approx(real_s * 0.2));
  CHECK(load.forward_share() == Approx(1.0 / 3));
  // What a state takes on the links, over what computation takes, is as it was.
  const double there = 2 * 7e9 / 10e9 / real_s;
  const double here = 2 * load.trained / 25e6 / load.compute_s();
  CHECK(here == Approx(there).epsilon(1e-4));
  spec.scale /= 2;
  CHECK(workload_of(spec, 1)->compute_s() == Approx(real_s * 0.1));
}

TEST_CASE("gradients pass through what is frozen, at half the price of what is trained") {
  WorkloadSpec spec = seven_billion();
  const double all_s = workload_of(spec, 1)->compute_s();
  spec.model = *parse_model("llama-7b,trainable=7e6");
  const Workload load = *workload_of(spec, 1);
  CHECK(load.frozen == Approx((7e9 - 7e6) / 2000).epsilon(1e-3));
  CHECK(load.compute_s() == Approx(all_s * (4 + 2e-3) / 6));
  CHECK(load.forward_share() == Approx(0.5).epsilon(1e-3));
}

TEST_CASE("computation alone grows with its factor") {
  const WorkloadSpec spec = seven_billion();
  const Workload load = *workload_of(spec, 1);
  const Workload longer = *workload_of(spec, 4);
  CHECK(longer.compute_s() == Approx(4 * load.compute_s()));
  CHECK(longer.trained == load.trained);
}

TEST_CASE("units are the layers where these are few, or what is asked for") {
  WorkloadSpec spec = seven_billion();
  spec.units = 3;
  CHECK(workload_of(spec, 1)->units.size() == 3);
  spec.units = 0;
  spec.model = *parse_model("params=1e6,layers=2");
  CHECK(workload_of(spec, 1)->units.size() == 2);
}

TEST_CASE("a scale at which nothing is left, or too much, is refused") {
  WorkloadSpec spec = seven_billion();
  spec.scale = 1e-12;
  CHECK_FALSE(workload_of(spec, 1).ok());
  spec.scale = 1;
  CHECK_FALSE(workload_of(spec, 1).ok());
  spec.scale = 1.0 / 2000;
  CHECK_FALSE(workload_of(spec, 1e6).ok());
}

}  // namespace paro::bench
