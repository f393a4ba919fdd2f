// The formulas of the table in docs/design/ho-ring.md, held against built plans. G groups of n
// ranks (n rails), W = G * n; figures are fractions of the data.
#include <bit>

#include "catch.hpp"
#include "plan/plan.hpp"
#include "plan/summary.hpp"

using namespace ho;

namespace {

struct Row {
  uint32_t inter_steps = 0;
  double nic = 0;       // of the busiest NIC, in its busier direction
  double intra_in = 0;  // of the rank that receives most inside its group
  double scratch = 0;   // of the rank that needs most
};

Row measure(const GroupMap& map, const PlanRequest& request) {
  const auto whole = build_whole_plan(map, request);
  REQUIRE(whole.ok());
  const auto summary = summarize(*whole, map, GlobalRank(0));
  REQUIRE(summary.ok());
  const auto data = static_cast<double>(summary->traffic.data);
  Row row;
  for (const PhaseSteps& steps : summary->steps) {
    row.inter_steps += steps.inter;
  }
  for (const auto& group : summary->traffic.rails) {
    for (const Flow& rail : group) {
      row.nic = std::max(row.nic, static_cast<double>(std::max(rail.in, rail.out)) / data);
    }
  }
  for (const Flow& rank : summary->traffic.intra) {
    row.intra_in = std::max(row.intra_in, static_cast<double>(rank.in) / data);
  }
  row.scratch = static_cast<double>(summary->scratch) / data;
  return row;
}

uint32_t ceil_log2(uint32_t value) {
  return static_cast<uint32_t>(std::bit_width(value - 1));
}

// The table. Collectives: all-gather and reduce-scatter are one pass, all-reduce two.
Row flat(uint32_t groups, uint32_t ranks, uint32_t rings, Collective collective) {
  const double world = groups * ranks;
  const uint32_t passes = collective == Collective::kAllReduce ? 2 : 1;
  const bool sums = collective != Collective::kAllGather;
  return {passes * (groups * ranks - 1),
          passes * (world - 1) / world / rings,
          -1,
          sums ? (world - 2) / world : 0};
}

Row two_level(uint32_t groups, uint32_t ranks, Collective collective) {
  const double g = groups;
  const double n = ranks;
  const double passes = collective == Collective::kAllReduce ? 2 : 1;
  const bool sums = collective != Collective::kAllGather;
  return {static_cast<uint32_t>(passes) * (groups - 1),
          passes * (g - 1) / g / n,
          passes * (n - 1) / n,
          sums ? (ranks > 1 ? 1 / n : (g - 2) / g) : 0};
}

Row direct(uint32_t groups, Collective collective) {
  const double g = groups;
  if (collective == Collective::kAllReduce) {
    const auto core = static_cast<uint32_t>(std::bit_width(groups)) - 1;
    const bool folds = !std::has_single_bit(groups);
    return {core + (folds ? 2 : 0), static_cast<double>(core + (folds ? 1 : 0)), -1, 1};
  }
  return {ceil_log2(groups), (g - 1) / g, -1, collective == Collective::kAllGather ? 0.0 : 1.0};
}

// All-to-all, gather and scatter, whatever the algorithm.
Row routed(uint32_t groups, uint32_t ranks, Collective collective) {
  const double g = groups;
  const double n = ranks;
  const double world = g * n;
  const double shared = ranks == 1 ? 0 : 1;
  switch (collective) {
    case Collective::kAllToAll:
      return {groups - 1,
              (g - 1) / (g * world),
              (n - 1) / (n * world),
              (n - 1) * (g - 1) / (world * world)};
    case Collective::kGather:
      return {groups - 1, (g - 1) / world, (n - 1) / n, shared * (g - 1) / world};
    default:
      return {groups - 1, (g - 1) / world, shared / n, shared * (g - 1) / world};
  }
}

void check_row(const Row& built, const Row& table) {
  CHECK(built.inter_steps == table.inter_steps);
  CHECK(built.nic == Approx(table.nic));
  CHECK(built.scratch == Approx(table.scratch));
  if (table.intra_in >= 0) {
    CHECK(built.intra_in == Approx(table.intra_in));
  }
}

// Broadcast and reduce.
void check_rooted(const GroupMap& map) {
  const uint32_t groups = map.group_count();
  const uint32_t ranks = map.largest_group();
  const double n = ranks;
  const double hops = ceil_log2(groups);
  const double held = map.world_size() == 2 ? 0 : 1;  // the root of two adds into its output
  INFO(map.to_string());
  const auto built = [&map](Collective collective, Algorithm algorithm) {
    return measure(map, {collective, algorithm, 1, {}});
  };
  check_row(built(Collective::kBroadcast, Algorithm::kHoRing),
            {groups - 1, 1 / n, ranks == 1 ? 0.0 : 1.0, 0});
  check_row(built(Collective::kReduce, Algorithm::kHoRing),
            {groups - 1, 1 / n, 2 * (n - 1) / n, held / n});
  check_row(built(Collective::kBroadcast, Algorithm::kDirect), {ceil_log2(groups), hops, -1, 0});
  check_row(built(Collective::kReduce, Algorithm::kDirect), {ceil_log2(groups), hops, n - 1, held});
}

}  // namespace

TEST_CASE("the table of docs/design/ho-ring.md is what the builders do") {
  for (uint32_t groups = 2; groups <= 5; ++groups) {
    for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
      const GroupMap map = GroupMap::from_sizes(std::vector<uint32_t>(groups, ranks)).value();
      for (const auto collective :
           {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
        INFO(map.to_string() << " " << to_string(collective));
        check_row(measure(map, {collective, Algorithm::kRing, 1, {}}),
                  flat(groups, ranks, 1, collective));
        check_row(measure(map, {collective, Algorithm::kMultiRing, ranks, {}}),
                  flat(groups, ranks, ranks, collective));
        for (const auto algorithm : {Algorithm::kHierarchical, Algorithm::kHoRing}) {
          check_row(measure(map, {collective, algorithm, 1, {}}),
                    two_level(groups, ranks, collective));
        }
        const Row small = measure(map, {collective, Algorithm::kDirect, 1, {}});
        // With one rank per group the leader's sum may alternate between input, scratch and output.
        check_row(small, direct(groups, collective));
      }
      check_rooted(map);
      for (const auto collective :
           {Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
        for (const auto algorithm : {Algorithm::kRing, Algorithm::kHoRing, Algorithm::kDirect}) {
          INFO(map.to_string() << " " << to_string(collective) << " " << to_string(algorithm));
          check_row(measure(map, {collective, algorithm, 1, {}}),
                    routed(groups, ranks, collective));
        }
      }
    }
  }
}

TEST_CASE("the overlap that is printed comes from the order of the ops") {
  const GroupMap map = GroupMap::parse("4x4").value();
  const auto overlaps = [&](Collective collective, Algorithm algorithm) {
    const WholePlan whole = build_whole_plan(map, {collective, algorithm, 1, {}}).value();
    return summarize(whole, map, GlobalRank(0)).value().overlaps;
  };
  const auto gather = overlaps(Collective::kAllGather, Algorithm::kHoRing);
  REQUIRE(gather.size() == 3);
  for (uint32_t s = 0; s < 3; ++s) {
    REQUIRE(gather[s].intra.size() == s + 1);  // everything that has arrived before
    for (uint32_t i = 0; i <= s; ++i) {
      CHECK(gather[s].intra[i].step == i);
      CHECK(gather[s].intra[i].free == 12);
      CHECK(gather[s].intra[i].total == 12);
    }
  }
  const auto scatter = overlaps(Collective::kReduceScatter, Algorithm::kHoRing);
  REQUIRE(scatter.size() == 3);
  for (uint32_t s = 0; s < 3; ++s) {
    CHECK(scatter[s].intra.size() == 3 - s);  // the sums of all later steps
  }
  for (const auto& step : overlaps(Collective::kAllGather, Algorithm::kHierarchical)) {
    CHECK(step.intra.empty());
  }
}
