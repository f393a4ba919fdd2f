#include "bench/perf/measure.hpp"
#include "catch.hpp"
#include "cli/subcommands/statistics.hpp"

namespace ho::perf {
namespace {

TEST_CASE("bus factors are those of nccl-tests") {
  CHECK(harness::bus_factor(harness::Collective::kAllGather, 16) == 15.0 / 16);
  CHECK(harness::bus_factor(harness::Collective::kReduceScatter, 4) == 3.0 / 4);
  CHECK(harness::bus_factor(harness::Collective::kAllReduce, 16) == 30.0 / 16);
}

TEST_CASE("counts are per rank, but in all for all_reduce") {
  const Case gather{.collective = harness::Collective::kAllGather, .dtype = DType::kFloat32};
  const Case reduce{.collective = harness::Collective::kAllReduce, .dtype = DType::kFloat64};
  CHECK(count_for(gather, 64, 16) == 1);
  CHECK(count_for(gather, 63, 16) == 0);
  CHECK(count_for(reduce, 64, 16) == 8);
}

TEST_CASE("boundary bytes are all but the node's own, of the smallest node") {
  CHECK(harness::boundary_bytes(harness::Collective::kAllGather, 1600, {4, 4, 4, 4}) == 1200);
  CHECK(harness::boundary_bytes(harness::Collective::kAllReduce, 1600, {4, 4, 4, 4}) == 2400);
  CHECK(harness::boundary_bytes(harness::Collective::kReduceScatter, 400, {1, 3}) == 300);
  CHECK(harness::boundary_bytes(harness::Collective::kAllReduce, 400, {1, 3}) == 400);
  CHECK(harness::boundary_bytes(harness::Collective::kAllGather, 1600, {8}) == 0);
}

TEST_CASE("a share is claimed after 20 operations and a tenth of a second's bytes") {
  constexpr double kLimit = 100e6;
  CHECK(claims_share(20, 500e3, kLimit));
  CHECK_FALSE(claims_share(19, 500e6, kLimit));
  CHECK_FALSE(claims_share(20, 499e3, kLimit));
  CHECK(claims_share(1000, 10e3, kLimit));
}

TEST_CASE("percentiles are of the nearest rank") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) {
    values.push_back(i);
  }
  CHECK(percentile(values, 0.50) == 50);
  CHECK(percentile(values, 0.99) == 99);
  CHECK(percentile({3.0}, 0.99) == 3);
  CHECK(percentile({1.0, 2.0}, 0.5) == 1);
}

}  // namespace
}  // namespace ho::perf
