// Collectives worked out by hand.
#include "cost/collective.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"

namespace ho::cost {
namespace {

constexpr double kUs = 1e-6;
constexpr double kMB = 1e6;

// Nodes of NVLink and NICs, and pods of nodes.
Cluster cluster_of(uint32_t ranks, uint32_t nodes, uint32_t pods, double nics) {
  Level node;
  node.name = "node";
  node.size = ranks;
  node.rate = 100e9;
  node.latency_s = 3.4 * kUs;
  Level pod = node;
  pod.name = "pod";
  pod.size = nodes;
  pod.rate = 10e9;
  pod.nics = nics;
  pod.latency_s = 14 * kUs;
  pod.start_s = 8.4 * kUs;
  Level site = pod;
  site.name = "site";
  site.size = pods;
  site.nics = nics * nodes;
  site.latency_s = 20 * kUs;
  return {node, pod, site};
}

Work all_of(const Cluster& cluster, const Call& call) {
  return work_of(cluster, all_ranks(cluster), call);
}

TEST_CASE("NCCL's rings, two nodes of four ranks and NICs") {
  const Cluster cluster = cluster_of(4, 2, 1, 4);
  // The circle has 8 links, 2 of them between nodes. An all-reduce of 8 MB passes 14 links, at
  // worst all but two neighbours inside a node: 10 and 4. Each rank sends 14 parts of 1 MB in all,
  // on one of the four rings to the other node: 3/4 of 14 MB inside, and 14 MB for each node.
  const Call call{Collective::kAllReduce, Algorithm::kMultiRing, 8 * kMB};
  const Work work = all_of(cluster, call);
  CHECK(work.levels[0].steps == 10);
  CHECK(work.levels[0].bytes == Approx(10.5 * kMB));
  CHECK(work.levels[1].steps == 4);
  CHECK(work.levels[1].bytes == Approx(14 * kMB));
  CHECK(work.levels[1].flows == 4);
  CHECK(work.levels[1].block == Approx(0.25 * kMB));
  CHECK(seconds_of(cluster, all_ranks(cluster), call) ==
        Approx(8.4 * kUs + 10 * 3.4 * kUs + 4 * 14 * kUs + 350 * kUs));
  // One ring of them leaves by one NIC.
  CHECK(seconds_of(cluster, all_ranks(cluster), {call.collective, Algorithm::kRing, 8 * kMB}) ==
        Approx(8.4 * kUs + 10 * 3.4 * kUs + 4 * 14 * kUs + 1400 * kUs));
}

TEST_CASE("flat rings are no more than a group has ranks, however many NICs it has") {
  for (const Collective collective : {Collective::kAllGather, Collective::kAllReduce}) {
    const Call call{collective, Algorithm::kMultiRing, 8 * kMB};
    const Cluster as_many = cluster_of(4, 2, 1, 4);
    const Cluster more = cluster_of(4, 2, 1, 16);
    CHECK(all_of(more, call).levels[1].flows == 4);
    CHECK(seconds_of(more, all_ranks(more), call) == seconds_of(as_many, all_ranks(as_many), call));
    // Of a rank in each group there is one ring, on one NIC of its own, or on a quarter of one.
    const Cluster one = cluster_of(4, 2, 1, 1);
    const auto rail_rate = [&](const Cluster& cluster) {
      const Members rail = *between_groups(cluster, 4);
      return rate_of(cluster, rail, 1, work_of(cluster, rail, call).levels[1]);
    };
    CHECK(rail_rate(more) == 10e9);
    CHECK(rail_rate(as_many) == 10e9);
    CHECK(rail_rate(one) == 2.5e9);
  }
}

TEST_CASE("NCCL's trees, nodes of eight ranks and NICs") {
  const auto work = [](uint32_t ranks, uint32_t nodes) {
    return all_of(cluster_of(ranks, nodes, 1, 8), {Collective::kAllReduce, Algorithm::kTree, kMB});
  };
  // Up and down: two levels of four nodes, a chain of eight ranks in each.
  CHECK(work(8, 4).levels[0].steps == 14);
  CHECK(work(8, 4).levels[1].steps == 4);
  CHECK(work(8, 5).levels[1].steps == 6);
  // Inside one tree a node has three neighbours of 1/2 MB, in the other one; of two nodes each has
  // the other, in both trees; of three the middle one has two in one of them.
  CHECK(work(8, 4).levels[1].bytes == 2 * kMB);
  CHECK(work(8, 3).levels[1].bytes == 1.5 * kMB);
  CHECK(work(8, 2).levels[1].bytes == kMB);
  // A rank in the middle of a chain passes sums on and results back.
  CHECK(work(8, 4).levels[0].bytes == 2 * kMB);
  CHECK(work(2, 4).levels[0].bytes == kMB);
  CHECK(work(1, 4).levels[0].bytes == 0);
  const Cluster four = cluster_of(8, 4, 1, 8);
  CHECK(seconds_of(four, all_ranks(four), {Collective::kAllReduce, Algorithm::kTree, kMB}) ==
        Approx(8.4 * kUs + 14 * 3.4 * kUs + 4 * 14 * kUs + 25 * kUs));
  CHECK(std::isinf(
      seconds_of(four, all_ranks(four), {Collective::kAllGather, Algorithm::kTree, kMB})));
}

TEST_CASE("an all-to-all between all pairs at once, two nodes of four ranks and NICs") {
  const Cluster cluster = cluster_of(4, 2, 1, 4);
  // Each of 8 ranks has 1 MB for each: 3 MB stay inside, 4 x 4 MB leave a node by four NICs.
  const Call call{Collective::kAllToAll, Algorithm::kPairs, 8 * kMB};
  const Work work = all_of(cluster, call);
  CHECK(work.levels[0].bytes == 3 * kMB);
  CHECK(work.levels[0].steps == 0);
  CHECK(work.levels[1].bytes == 16 * kMB);
  CHECK(work.levels[1].flows == 4);
  CHECK(work.levels[1].block == 1 * kMB);
  CHECK(seconds_of(cluster, all_ranks(cluster), call) == Approx(8.4 * kUs + 14 * kUs + 400 * kUs));
  // Among the ranks of a node, and between two of two nodes, as the other three of each do.
  CHECK(seconds_of(cluster, {4, 1, 1, 1, 1, 1, 1, 1}, call) == Approx(3.4 * kUs + 60 * kUs));
  CHECK(seconds_of(cluster, {1, 2, 1, 1, 1, 1, 1, 1}, call) ==
        Approx(8.4 * kUs + 14 * kUs + 400 * kUs));
  CHECK(std::isinf(
      seconds_of(cluster, all_ranks(cluster), {Collective::kAllGather, Algorithm::kPairs, kMB})));
}

TEST_CASE("a circle through three levels passes each boundary once") {
  const Cluster cluster = cluster_of(2, 2, 2, 2);
  const Work gather = all_of(cluster, {Collective::kAllGather, Algorithm::kRing, 8 * kMB});
  // 8 links: 4 inside nodes, of which one is left out, 2 inside pods, 2 between pods.
  CHECK(gather.levels[0].steps == 3);
  CHECK(gather.levels[1].steps == 2);
  CHECK(gather.levels[2].steps == 2);
  CHECK(gather.levels[2].bytes == Approx(7 * kMB));
  // Two neighbours are left out of two circles: nodes of two ranks have one link.
  const Work reduce = all_of(cluster, {Collective::kAllReduce, Algorithm::kRing, 8 * kMB});
  CHECK(reduce.levels[0].steps == 7);
  CHECK(reduce.levels[1].steps == 3);
  CHECK(reduce.levels[2].steps == 4);
}

TEST_CASE("HO-Ring's groups may be nodes or pods") {
  const Cluster cluster = cluster_of(4, 2, 4, 4);
  Call call{Collective::kAllGather, Algorithm::kHoRing, 32 * kMB};
  // Nodes: eight groups in a circle, a boundary of a pod is one of a node too.
  const Work nodes = all_of(cluster, call);
  CHECK(nodes.levels[0].bytes == Approx(24 * kMB));
  CHECK(nodes.levels[1].bytes == Approx(28 * kMB));
  CHECK(nodes.levels[1].steps + nodes.levels[2].steps == 7);
  CHECK(nodes.levels[2].bytes == Approx(28 * kMB));
  CHECK(nodes.levels[0].tail == Approx(3 * kMB));
  // Pods: four groups of eight ranks, which exchange with those of the other node too.
  call.group_levels = 2;
  const Work pods = all_of(cluster, call);
  CHECK(pods.levels[2].bytes == Approx(24 * kMB));
  CHECK(pods.levels[2].steps == 3);
  CHECK(pods.levels[2].flows == 8);
  CHECK(pods.levels[0].bytes == Approx(12 * kMB));
  CHECK(pods.levels[1].bytes == Approx(4 * 4 * 4 * kMB));
}

TEST_CASE("one rank of each node: all of them share the NICs") {
  const Cluster cluster = cluster_of(4, 4, 1, 2);
  const Members between = *between_groups(cluster, 4);
  const Call call{Collective::kAllGather, Algorithm::kHoRing, 4 * kMB};
  // 3 MB, at half of a NIC.
  CHECK(seconds_of(cluster, between, call) == Approx(8.4 * kUs + 3 * 14 * kUs + 600 * kUs));
}

TEST_CASE("latencies hide behind what is on its way, in messages that are parts of blocks") {
  const Cluster cluster = cluster_of(1, 4, 1, 1);
  Call call{Collective::kAllGather, Algorithm::kHoRing, 4 * kMB};
  const auto seconds = [&] { return seconds_of(cluster, all_ranks(cluster), call); };
  CHECK(seconds() == Approx(8.4 * kUs + 3 * 14 * kUs + 300 * kUs));
  call.message_bytes = 0.1 * kMB;
  CHECK(seconds() == Approx(8.4 * kUs + 14 * kUs + 300 * kUs));
  // Blocks of 1 kB are over before they have arrived.
  call.bytes = 4e3;
  call.message_bytes = 100;
  CHECK(seconds() == Approx(8.4 * kUs + 3 * 14 * kUs + 3 * 0.01 * kUs + 0.09 * kUs));
}

TEST_CASE("one rank has nothing to wait for") {
  const Cluster cluster = cluster_of(1, 1, 1, 1);
  for (const Algorithm algorithm : {Algorithm::kRing,
                                    Algorithm::kMultiRing,
                                    Algorithm::kTree,
                                    Algorithm::kHierarchical,
                                    Algorithm::kHoRing,
                                    Algorithm::kDirect}) {
    INFO(to_string(algorithm));
    CHECK(seconds_of(cluster, all_ranks(cluster), {Collective::kAllReduce, algorithm, kMB}) == 0);
  }
}

}  // namespace
}  // namespace ho::cost
