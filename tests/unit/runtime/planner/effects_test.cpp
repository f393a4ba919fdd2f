#include "planner/effects.hpp"

#include <cmath>
#include <utility>

#include "cost/networks.hpp"
#include "planner/nccl.hpp"
#include "requests.hpp"

namespace paro {

TEST_CASE("nothing comes on top of the critical path unless asked for") {
  const StepRange range = step_range(10, 8, 5, {}, 512);
  CHECK(range.expected_s == 10);
  CHECK(range.least_s == 10);
  CHECK(range.most_s == 13);
}

TEST_CASE("a share of hidden communication comes back, and the slowest of many ranks counts") {
  // Of 5 s of collectives 2 are exposed, so 3 are hidden.
  CHECK(step_range(10, 8, 5, {0.5, 0, 0}, 512).expected_s == Approx(11.5));
  CHECK(step_range(10, 8, 5, {0.5, 0.01, 0}, 512).expected_s ==
        Approx(11.5 * (1 + 0.01 * std::sqrt(2 * std::log(512)))));
  CHECK(step_range(10, 8, 5, {0, 0.01, 0}, 1).expected_s == 10);
  const StepRange range = step_range(10, 8, 5, {0.5, 0.01, 0}, 512);
  CHECK(range.least_s < range.expected_s);
  CHECK(range.expected_s < range.most_s);
}

TEST_CASE("a step that hides nothing has no hidden communication to slow it") {
  const StepRange range = step_range(13, 8, 5, {1, 0, 0}, 8);
  CHECK(range.expected_s == 13);
  CHECK(range.most_s == 13);
}

TEST_CASE("a launch is paid by every collective") {
  PlannerRequest request = seven_billion();
  request.overlap = false;
  const double before = row_of(recommendation_for(request), "GGG").time.step_s;
  request.effects.launch_s = 1e-3;
  const double after = row_of(recommendation_for(request), "GGG").time.step_s;
  // Two gathers and a reduction of each of 32 layers in each of 10 micro-batches.
  CHECK(after - before == Approx(3 * 32 * 10 * 1e-3));
}

TEST_CASE("one rank alone launches no collectives") {
  PlannerRequest request = seven_billion();
  request.memory_bytes = 0;
  request.effects.launch_s = 1e-3;
  const auto exposed = [&](const WorldShape& world, const char* name) {
    request.world = world;
    return row_of(recommendation_for(request), name).time.exposed_s;
  };
  for (const char* const name : {"NNN", "NNG", "GGG", "III"}) {
    CHECK(exposed({1, 1}, name) < 1e-9);
  }
  // A node has nothing between groups, and groups of one rank nothing inside.
  CHECK(exposed({1, 8}, "III") == Approx(exposed({1, 8}, "GGG")));
  CHECK(exposed({8, 1}, "NII") == Approx(exposed({8, 1}, "NNN")));
}

TEST_CASE(
    "NCCL's protocols: few bytes go by the one of short steps, many by the one of all of the "
    "rate") {
  const GpuCluster gpus{64, 8, 450e9, "nvlink", 8, 50e9, "infiniband"};
  const auto protocols = nccl_links(gpus)->protocols;
  REQUIRE(protocols.size() == 2);
  const WorldShape world{64, 8};
  const auto seconds = [&](std::vector<ho::cost::Cluster> clusters, double bytes) {
    Links links{450e9, 50e9, 8, WorldAlgorithm::kMultiRing};
    links.protocols = std::move(clusters);
    return CollectiveSeconds(world, links).world(ho::Collective::kAllGather, bytes);
  };
  const auto& simple = protocols[0];
  const auto& ll128 = protocols[1];
  for (const double bytes : {1e6, 1e8, 1e10, 1e12}) {
    CHECK(seconds(protocols, bytes) == std::min(seconds({simple}, bytes), seconds({ll128}, bytes)));
  }
  CHECK(seconds(protocols, 1e6) == seconds({ll128}, 1e6));
  CHECK(seconds(protocols, 1e12) == seconds({simple}, 1e12));
  // 64 steps between nodes of 14 us, 447 inside of 3.4 us, 8.4 us to start; 400 GB/s of a node's
  // NICs, of which 0.96.
  CHECK(seconds({simple}, 1e12) ==
        Approx(8.4e-6 + 64 * 14e-6 + 447 * 3.4e-6 + 511.0 / 512 * 1e12 / (0.96 * 400e9)));
}

TEST_CASE("NCCL's all-reduces go by rings or by trees, whichever is faster") {
  // 512 nodes of 8 and 64 MiB: a ring's 1024 steps between nodes of 4 us and 7166 inside of 1.9 us
  // (LL128) against a tree's 18 of 8.5 us and 14 of 1.25 us; of 369 GB/s of NVLink, 0.92 x 120 /
  // 128 x 0.9, twice the bytes.
  const GpuCluster gpus{512, 8, 450e9, "nvlink", 8, 50e9, "infiniband"};
  Links links{450e9, 50e9, 8, WorldAlgorithm::kMultiRing};
  links.protocols = nccl_links(gpus)->protocols;
  const double bytes = 64.0 * 1024 * 1024;
  const WorldShape world{512, 8};
  const auto all_reduce = [&](double of) {
    return CollectiveSeconds(world, links).world(ho::Collective::kAllReduce, of);
  };
  const double rings = all_reduce(bytes);
  const double many_bytes_by_rings = all_reduce(1e12);
  const double gathered = CollectiveSeconds(world, links).world(ho::Collective::kAllGather, bytes);
  CHECK(rings > 17e-3);
  links.trees = nccl_links(gpus)->trees;
  CHECK(all_reduce(bytes) == Approx(14e-6 + 18 * 8.5e-6 + 14 * 1.25e-6 +
                                    2 * bytes / (0.82 * 450e9 * 0.92 * 120 / 128 * 0.9)));
  CHECK(all_reduce(1e12) == many_bytes_by_rings);
  CHECK(CollectiveSeconds(world, links).world(ho::Collective::kAllGather, bytes) == gathered);
  // One rank of each node, 8 of them at once: HSDP's sums.
  const double sums = CollectiveSeconds(world, links).inter(ho::Collective::kAllReduce, bytes);
  CHECK(sums == Approx(14e-6 + 18 * 8.5e-6 + 2 * bytes / (0.96 * 50e9 * 0.92 * 120 / 128 * 0.9)));
  CHECK(nccl_links({1, 8, 450e9, "nvlink", 8, 50e9, "infiniband"})->trees.empty());
}

TEST_CASE("NCCL uses all NICs of a GPU that has several") {
  const WorldShape world{4, 8};
  const auto seconds = [&](double nics, double nic_bytes_per_s) {
    Links links{450e9, nic_bytes_per_s, nics, WorldAlgorithm::kMultiRing};
    links.protocols = nccl_links({4, 8, 450e9, "nvlink", nics, nic_bytes_per_s, "efa"})->protocols;
    const CollectiveSeconds made(world, links);
    return std::pair(made.world(ho::Collective::kAllGather, 1e10),
                     made.inter(ho::Collective::kAllGather, 1e10));
  };
  // P5: 32 NICs of 100 Gbit/s beside 8 GPUs; and half a NIC a GPU stays half a NIC.
  CHECK(seconds(32, 12.5e9) == seconds(8, 50e9));
  CHECK(seconds(4, 50e9).first > 1.9 * seconds(8, 50e9).first);
}

TEST_CASE("levels have NCCL's protocols where nobody has measured them") {
  const NcclLinks in_short = *nccl_links({4, 8, 450e9, "nvlink", 32, 12.5e9, "efa"});
  ho::cost::Cluster levels{level("node", 8, 450e9, 1), level("cluster", 4, 12.5e9, 32)};
  levels[0] = with_defaults(levels[0], *ho::cost::find_network("nvlink"));
  levels[1] = with_defaults(levels[1], *ho::cost::find_network("efa"));
  const NcclLinks named = nccl_links(levels);
  const auto equal = [](const std::vector<ho::cost::Cluster>& a,
                        const std::vector<ho::cost::Cluster>& b) {
    const ho::cost::Members all{8, 4, 1, 1, 1, 1, 1, 1};
    REQUIRE(a.size() == b.size());
    for (size_t at = 0; at < a.size(); ++at) {
      for (const auto algorithm : {ho::cost::Algorithm::kMultiRing, ho::cost::Algorithm::kTree}) {
        const ho::cost::Call call{ho::Collective::kAllReduce, algorithm, 1e8};
        CHECK(seconds_of(a[at], all, call) == seconds_of(b[at], all, call));
      }
    }
  };
  equal(named.protocols, in_short.protocols);
  equal(named.trees, in_short.trees);
  levels[1].network.clear();  // somebody has measured it
  CHECK(nccl_links(levels).protocols.empty());
  equal(nccl_links(levels).trees, {levels});
}

TEST_CASE("a network that is not known is named") {
  const GpuCluster gpus{2, 8, 450e9, "nvlink", 8, 50e9, "pigeons"};
  CHECK(nccl_links(gpus).status().message() == "network pigeons: is not known");
}

}  // namespace paro
