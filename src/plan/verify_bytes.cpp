// Rule 6 of verify(): the two-level algorithms, and the routes of single blocks, move no more
// between groups than must move, and load their rails equally.
#include <algorithm>
#include <optional>

#include "plan/op_graph.hpp"
#include "plan/traffic.hpp"

namespace ho {
namespace {

// What must enter and leave a group; nothing where it is not said.
struct Least {
  std::optional<uint64_t> in;
  std::optional<uint64_t> out;
};

// A plan with sums for all has an exact amount only as a whole. What goes to all is passed on, so
// it may leave a group that it has entered; the same holds for what enters a group to be added.
Least least_flow(const Plan& plan, const GroupMap& map, const Traffic& traffic, GroupIndex group) {
  uint64_t in = 0;
  uint64_t out = 0;
  bool from_one = true;
  bool to_one = true;
  for (uint32_t block = 0; block < plan.block_count; ++block) {
    const BlockRole role = role_of(plan, block, map.world_size());
    from_one = from_one && role.from;
    to_one = to_one && role.to;
    const bool from_here = !role.from || map.group_of(*role.from) == group;
    const bool to_here = !role.to || map.group_of(*role.to) == group;
    in += to_here && !from_here ? traffic.block : 0;
    out += from_here && !to_here ? traffic.block : 0;
  }
  if (!from_one && !to_one) {
    const uint64_t groups = map.group_count();
    const uint64_t both = 2 * (groups - 1) * traffic.data / groups;
    return {both, both};
  }
  return {from_one ? std::optional(in) : std::nullopt, to_one ? std::optional(out) : std::nullopt};
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
  if (plan.algorithm != Algorithm::kHoRing && plan.algorithm != Algorithm::kHierarchical &&
      !is_routed(plan.collective)) {
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
