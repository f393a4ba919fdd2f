// The closed forms against the plans' own counts, on worlds of equal groups up to 8x8.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "cost/collective.hpp"
#include "plan/op_graph.hpp"
#include "plan/summary.hpp"

namespace ho::cost {
namespace {

constexpr uint32_t kMaxUnits = 8;
constexpr std::array kCollectives{Collective::kAllGather,
                                  Collective::kReduceScatter,
                                  Collective::kAllReduce,
                                  Collective::kBroadcast};
constexpr std::array kAlgorithms{ho::Algorithm::kRing,
                                 ho::Algorithm::kMultiRing,
                                 ho::Algorithm::kHierarchical,
                                 ho::Algorithm::kHoRing,
                                 ho::Algorithm::kDirect};

Cluster cluster_of(uint32_t groups, uint32_t ranks) {
  Level inside;
  inside.name = "group";
  inside.size = ranks;
  inside.rate = 10;
  Level between;
  between.name = "world";
  between.size = groups;
  between.rate = 1;
  between.nics = ranks;
  return {inside, between};
}

// Of a plan, as the closed forms have it.
struct Counts {
  double inter_bytes = 0;  // of the data: at the busiest boundary
  double nic_bytes = 0;    // of the busiest NIC
  double intra_bytes = 0;  // of the busiest rank, in its busier direction
  double intra_both = 0;   // in both
  double inter_steps = 0;
  double intra_steps = 0;
};

// The longest row of messages each of which needs the one before: of those with most inter
// messages, the one with most intra messages.
std::pair<double, double> longest_row(const OpGraph& graph) {
  using Row = std::pair<uint32_t, uint32_t>;
  std::vector<Row> rows(graph.size());
  Row longest;
  for (const OpId id : graph.in_order) {
    const PlanOp& op = graph.op(id);
    Row row;
    for (const uint32_t dep : op.deps) {
      row = std::max(row, rows[graph.sibling(id, dep)]);
    }
    if (op.kind == OpKind::kRecv || op.kind == OpKind::kRecvReduce) {
      Row sent = rows[graph.partner[id]];
      (op.lane == Lane::kInter ? sent.first : sent.second) += 1;
      row = std::max(row, sent);
    }
    rows[id] = row;
    longest = std::max(longest, row);
  }
  return longest;
}

Counts counts_of(const GroupMap& map, const PlanRequest& request) {
  const auto whole = build_whole_plan(map, request);
  REQUIRE(whole.ok());
  const auto graph = connect_ops(*whole);
  REQUIRE(graph.ok());
  const Traffic traffic = measure_traffic(*whole, map);
  const auto data = static_cast<double>(traffic.data);
  Counts counts;
  std::tie(counts.inter_steps, counts.intra_steps) = longest_row(*graph);
  if (request.algorithm == ho::Algorithm::kDirect) {
    // Some of its rounds need nothing of the round before, but the leader that sends it.
    const auto summary = summarize(*whole, map, GlobalRank(0));
    REQUIRE(summary.ok());
    counts.inter_steps = 0;
    for (const PhaseSteps& phase : summary->steps) {
      counts.inter_steps += phase.inter;
    }
  }
  for (const Flow& flow : traffic.boundary) {
    counts.inter_bytes =
        std::max(counts.inter_bytes, static_cast<double>(std::max(flow.in, flow.out)) / data);
  }
  for (const auto& group : traffic.rails) {
    for (const Flow& flow : group) {
      counts.nic_bytes =
          std::max(counts.nic_bytes, static_cast<double>(std::max(flow.in, flow.out)) / data);
    }
  }
  for (const Flow& flow : traffic.intra) {
    counts.intra_bytes =
        std::max(counts.intra_bytes, static_cast<double>(std::max(flow.in, flow.out)) / data);
    counts.intra_both = std::max(counts.intra_both, static_cast<double>(flow.in + flow.out) / data);
  }
  return counts;
}

// Of every number of groups and of ranks, but few of the worlds of more than 32 ranks, which take
// half of the time: the largest, and those of 5 and 7, which are odd and no powers of two.
bool counts_in_sweep(uint32_t groups, uint32_t ranks) {
  constexpr uint32_t kManyRanks = 32;
  const std::pair most(std::min(groups, ranks), std::max(groups, ranks));
  return groups * ranks <= kManyRanks || most == std::pair(8U, 8U) || most == std::pair(5U, 7U);
}

TEST_CASE("closed forms are what the plans count") {
  for (uint32_t groups = 1; groups <= kMaxUnits; ++groups) {
    for (uint32_t ranks = 1; ranks <= kMaxUnits; ++ranks) {
      if (!counts_in_sweep(groups, ranks)) {
        continue;
      }
      const GroupMap map = GroupMap::from_sizes(std::vector<uint32_t>(groups, ranks)).value();
      const Cluster cluster = cluster_of(groups, ranks);
      for (const Collective collective : kCollectives) {
        for (const ho::Algorithm algorithm : kAlgorithms) {
          const Counts counts = counts_of(map, {collective, algorithm, ranks, {}});
          const Work work =
              work_of(cluster, all_ranks(cluster), {collective, algorithm_of(algorithm), 1});
          const LevelWork& inside = work.levels[0];
          const LevelWork& between = work.levels[1];
          INFO(map.to_string() << " " << to_string(collective) << " " << to_string(algorithm));
          const bool one_leader = algorithm == ho::Algorithm::kDirect;
          CHECK(between.bytes == Approx(counts.inter_bytes));
          CHECK(between.bytes / between.flows == Approx(counts.nic_bytes));
          CHECK(inside.bytes == Approx(one_leader ? counts.intra_both : counts.intra_bytes));
          CHECK(between.steps == counts.inter_steps);
          CHECK(inside.steps == counts.intra_steps);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ho::cost
