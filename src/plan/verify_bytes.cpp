// Rule 6 of verify(): the two-level algorithms move no more between groups than must move, and
// load their rails alike.
#include <algorithm>
#include <optional>

#include "plan/op_graph.hpp"
#include "plan/traffic.hpp"

namespace ho {
namespace {

// What must enter and leave a group; nothing where the collective sets no exact amount.
struct Least {
  std::optional<uint64_t> in;
  std::optional<uint64_t> out;
};

Least least_flow(const Plan& plan, const GroupMap& map, const Traffic& traffic, GroupIndex group) {
  const uint64_t others = uint64_t{map.world_size() - map.group_size(group)} * traffic.block;
  const uint64_t groups = map.group_count();
  switch (plan.collective) {
    case Collective::kAllGather:
      return {others, std::nullopt};
    case Collective::kReduceScatter:
      return {std::nullopt, others};
    case Collective::kAllReduce: {
      const uint64_t both = 2 * (groups - 1) * traffic.data / groups;
      return {both, both};
    }
    case Collective::kBroadcast:
      return {map.group_of(plan.root) == group ? 0 : traffic.data, std::nullopt};
  }
  return {};
}

std::string differs(const char* direction, uint64_t units, uint64_t least, uint64_t block) {
  return std::to_string(units) + "/" + std::to_string(block) + " blocks go " + direction +
         ", the least possible is " + std::to_string(least) + "/" + std::to_string(block);
}

// The rails of one group, one direction: the spread may be one part.
std::optional<std::string> uneven(const std::vector<Flow>& rails,
                                  uint64_t Flow::*direction,
                                  uint64_t part) {
  const auto less = [&](const Flow& a, const Flow& b) { return a.*direction < b.*direction; };
  const auto [low, high] = std::minmax_element(rails.begin(), rails.end(), less);
  if (*high.*direction - *low.*direction <= part) {
    return std::nullopt;
  }
  return "rail " + std::to_string(high - rails.begin()) + " carries " +
         std::to_string(*high.*direction) + " units and rail " +
         std::to_string(low - rails.begin()) + " carries " + std::to_string(*low.*direction);
}

}  // namespace

Status check_bytes(const WholePlan& whole, const GroupMap& map) {
  const Plan& plan = whole.plan;
  if (plan.algorithm != Algorithm::kHoRing && plan.algorithm != Algorithm::kHierarchical) {
    return {};
  }
  const Traffic traffic = measure_traffic(whole, map);
  uint64_t part = traffic.block;
  for (uint32_t c = 0; c < plan.chunks.size(); ++c) {
    part = std::min(part, chunk_units(plan, ChunkIndex(c), traffic.block));
  }
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    const auto broken = [&](std::string message) {
      return broken_plan(plan, "bytes", "group " + std::to_string(g) + ": " + std::move(message));
    };
    const Flow& flow = traffic.boundary[g];
    const Least least = least_flow(plan, map, traffic, GroupIndex(g));
    if (least.in && *least.in != flow.in) {
      return broken(differs("in", flow.in, *least.in, traffic.block));
    }
    if (least.out && *least.out != flow.out) {
      return broken(differs("out", flow.out, *least.out, traffic.block));
    }
    for (const auto direction : {&Flow::in, &Flow::out}) {
      if (const auto problem = uneven(traffic.rails[g], direction, part)) {
        return broken((direction == &Flow::in ? "inward, " : "outward, ") + *problem);
      }
    }
  }
  return {};
}

}  // namespace ho
