// What the blocks of each collective are: the definition that verify() holds every plan against.
#include "plan/plan.hpp"

namespace ho {

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kGather ||
         collective == Collective::kScatter || collective == Collective::kReduce;
}

bool has_sums(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllReduce ||
         collective == Collective::kReduce;
}

bool is_routed(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kGather ||
         collective == Collective::kScatter;
}

std::optional<uint64_t> blocks_of(Collective collective, uint32_t world_size) {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
      return world_size;
    case Collective::kAllToAll:
      return uint64_t{world_size} * world_size;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      break;
  }
  return std::nullopt;
}

BlockRole role_of(const Plan& plan, uint32_t block, uint32_t world_size) {
  if (!plan.block_roles.empty()) {
    return plan.block_roles[block];
  }
  switch (plan.collective) {
    case Collective::kAllGather:
      return {GlobalRank(block), std::nullopt};
    case Collective::kReduceScatter:
      return {std::nullopt, GlobalRank(block)};
    case Collective::kAllReduce:
      return {};
    case Collective::kBroadcast:
      return {plan.root, std::nullopt};
    case Collective::kAllToAll:
      return {GlobalRank(block / world_size), GlobalRank(block % world_size)};
    case Collective::kGather:
      return {GlobalRank(block), plan.root};
    case Collective::kScatter:
      return {plan.root, GlobalRank(block)};
    case Collective::kReduce:
      return {std::nullopt, plan.root};
  }
  return {};
}

}  // namespace ho
