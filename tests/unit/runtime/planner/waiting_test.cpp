// What a rank waits for that other dimensions of parallelism send: by hand.
#include "planner/waiting.hpp"

#include <algorithm>

#include "catch.hpp"
#include "planner/batch.hpp"
#include "planner/nccl.hpp"
#include "requests.hpp"

namespace paro {
namespace {

constexpr double kUs = 1e-6;
constexpr double kMB = 1e6;
constexpr WorldShape kFourNodes{4, 8};
constexpr double kNvlink = 0.82 * 450e9;  // what NCCL gets of 450 GB/s with SIMPLE,
constexpr double kNic = 0.96 * 50e9;      // and of 400 Gbit/s
constexpr double kLl128 = 0.92;           // of both with LL128

Links of_nccl() {
  Links links{450e9, 50e9, 8, WorldAlgorithm::kMultiRing};
  links.protocols = nccl_links({4, 8, 450e9, "nvlink", 8, 50e9, "infiniband"})->protocols;
  return links;
}

double seconds(const DimensionTraffic& traffic, double launch_s = 0) {
  return dimension_s(traffic, kFourNodes, of_nccl(), 1, launch_s);
}

// The faster protocol: what a call takes to start, and its bytes.
double faster(double simple_s, double ll128_s, double bytes_s) {
  return std::min(simple_s + bytes_s, ll128_s + bytes_s / kLl128);
}

}  // namespace

TEST_CASE("tensor parallelism waits for collectives of a node, one after the other") {
  // Of 32 MB each rank sends 7/8, in 7 steps.
  const DimensionTraffic traffic{.dimension = "tp",
                                 .bytes = 3 * 28 * kMB,
                                 .pattern = Pattern::kGather,
                                 .calls = 3,
                                 .ranks = 8};
  const double call_s = faster((8.4 + 7 * 3.4) * kUs, (14 + 7 * 1.9) * kUs, 28 * kMB / kNvlink);
  CHECK(seconds(traffic) == Approx(3 * call_s));
  CHECK(seconds(traffic, 7 * kUs) == Approx(3 * (call_s + 7 * kUs)));
}

TEST_CASE("context parallelism passes keys and values around a circle of two nodes") {
  // 16 links, two of them between nodes, of which a block passes all but one; one NIC each way.
  const DimensionTraffic traffic{
      .dimension = "cp", .bytes = 30 * kMB, .pattern = Pattern::kCircle, .calls = 1, .ranks = 16};
  CHECK(seconds(traffic) ==
        Approx(faster(
            (8.4 + 13 * 3.4 + 2 * 14) * kUs, (14 + 13 * 1.9 + 2 * 4) * kUs, 30 * kMB / kNic)));
}

TEST_CASE("a circle over several levels waits for the slowest of its links") {
  // 4 ranks of tensor parallelism, so that of each node's 8 ranks and each pod's 4 nodes two and
  // all are in the circle. Four circles leave a pod at once, whose 32 NICs get a sixteenth.
  Links links;
  links.levels = {level("node", 8, 450e9, 1), level("pod", 4, 50e9, 8), level("site", 2, 50e9, 32)};
  links.levels[0].latency_s = 3 * kUs;
  links.levels[1].latency_s = 14 * kUs;
  links.levels[2].latency_s = 20 * kUs;
  links.levels[2].start_s = 9 * kUs;
  links.levels[2].oversubscription = 16;
  const DimensionTraffic traffic{.dimension = "cp",
                                 .bytes = 30 * kMB,
                                 .pattern = Pattern::kCircle,
                                 .calls = 1,
                                 .ranks = 16,
                                 .stride = 4};
  const auto circle_s = [&] { return dimension_s(traffic, {8, 8}, links, 1, 0); };
  // 16 links, 8 of them between nodes and 2 of these between pods; a block passes all but one.
  const double latencies_s = (9 + 7 * 3 + 6 * 14 + 2 * 20) * kUs;
  CHECK(circle_s() == Approx(latencies_s + 30 * kMB / 25e9));
  links.levels[2].oversubscription = 1;  // a NIC for each circle, in a pod and out of it
  CHECK(circle_s() == Approx(latencies_s + 30 * kMB / 50e9));
  links.levels[1].nics = 1;  // of which two circles of a node have half each
  CHECK(circle_s() == Approx(latencies_s + 30 * kMB / 12.5e9));
  links.levels[0].rate = 10e9;
  CHECK(circle_s() == Approx(latencies_s + 30 * kMB / 10e9));
}

TEST_CASE("experts' tokens go straight to their ranks, those of other nodes by all NICs") {
  // 16 ranks in two nodes: of a rank's 16 blocks of 1 MB eight go to the other node, and the eight
  // ranks' by eight NICs.
  DimensionTraffic traffic{.dimension = "ep", .bytes = 15 * kMB, .calls = 1, .ranks = 16};
  CHECK(seconds(traffic) == Approx(faster((8.4 + 14) * kUs, (14 + 4) * kUs, 8 * kMB / kNic)));
  // In one node no block leaves it.
  traffic.bytes = 7 * kMB;
  traffic.ranks = 8;
  CHECK(seconds(traffic) == Approx(faster((8.4 + 3.4) * kUs, (14 + 1.9) * kUs, 7 * kMB / kNvlink)));
  // One rank of each of two nodes: all eight pairs at once, a NIC each.
  traffic.ranks = 2;
  traffic.stride = 8;
  CHECK(seconds(traffic) == Approx(faster((8.4 + 14) * kUs, (14 + 4) * kUs, 7 * kMB / kNic)));
}

TEST_CASE("a stage waits for what the one before sends") {
  const DimensionTraffic traffic{
      .dimension = "pp", .bytes = 32 * kMB, .calls = 2, .ranks = 2, .stride = 16};
  CHECK(seconds(traffic) == Approx(2 * faster((8.4 + 14) * kUs, (14 + 4) * kUs, 16 * kMB / kNic)));
  // A quarter of a node's ranks, each by one of its NICs.
  DimensionTraffic few = traffic;
  few.at_once = 0.25;
  CHECK(seconds(few) == seconds(traffic));
  // By rates alone: eight ranks have a quarter of a NIC each, two of them one, four half of one.
  const Links two_nics{450e9, 50e9, 2, WorldAlgorithm::kHoRing};
  const auto of_part = [&](double at_once) {
    DimensionTraffic part = traffic;
    part.at_once = at_once;
    return dimension_s(part, kFourNodes, two_nics, 1, 0);
  };
  CHECK(of_part(1) == Approx(32 * kMB / 12.5e9));
  CHECK(of_part(0.5) == Approx(32 * kMB / 25e9));
  CHECK(of_part(0.25) == Approx(32 * kMB / 50e9));
  CHECK(of_part(0.125) == Approx(32 * kMB / 50e9));
}

TEST_CASE("by rates alone a call takes its own time and its bytes") {
  Links links{450e9, 50e9, 8, WorldAlgorithm::kHoRing};
  links.intra_call_s = 20 * kUs;
  links.inter_call_s = 100 * kUs;
  const DimensionTraffic tensor{
      .dimension = "tp", .bytes = 28 * kMB, .pattern = Pattern::kGather, .calls = 1, .ranks = 8};
  const DimensionTraffic stages{
      .dimension = "pp", .bytes = 16 * kMB, .calls = 1, .ranks = 2, .stride = 16};
  CHECK(dimension_s(tensor, kFourNodes, links, 2, 0) == Approx(20 * kUs + 56 * kMB / 450e9));
  CHECK(dimension_s(stages, kFourNodes, links, 2, 0) == Approx(100 * kUs + 32 * kMB / 50e9));
  // Half as good are the links between nodes.
  const auto waiting = [&](const DimensionTraffic& traffic) {
    return waiting_seconds({{traffic}, kFourNodes, links, 0.5}, 2, 10, 0);
  };
  CHECK(waiting(tensor).usual == Approx(1.5 * 10 * (20 * kUs + 56 * kMB / 450e9)));
  CHECK(waiting(tensor).on_half_links == waiting(tensor).usual);
  CHECK(waiting(stages).on_half_links == Approx(2 * waiting(stages).usual));
}

TEST_CASE("larger micro-batches wait for fewer starts") {
  PlannerRequest request;
  request.compute_s = 8;
  request.sequences = 8;
  request.micro_batch = 1;
  request.micro_batches = 8;
  request.others = {
      {{.dimension = "tp", .bytes = 28 * kMB, .pattern = Pattern::kGather, .calls = 1, .ranks = 8}},
      kFourNodes,
      of_nccl()};
  set_waiting(request);
  const double starts_s = (8.4 + 7 * 3.4) * kUs;  // SIMPLE is faster for as many bytes
  const double bytes_s = 8 * 28 * kMB / kNvlink;
  CHECK(request.waiting_s == Approx(8 * starts_s + bytes_s));
  CHECK(request.compute_s == Approx(8 + request.waiting_s));
  CHECK(request.half_links_more_s == 0);
  StrategyFigures figures;
  figures.micro_batches = 2;
  const PlannerRequest larger = with_batch_of(figures, request);
  CHECK(larger.micro_batch == 4);
  CHECK(larger.waiting_s == Approx(2 * starts_s + bytes_s));
  CHECK(larger.compute_s == Approx(8 + larger.waiting_s));
}

}  // namespace paro
