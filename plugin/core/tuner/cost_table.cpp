#include "core/tuner/cost_table.hpp"

#include <array>
#include <limits>

namespace ho::plugin {
namespace {

constexpr int kSimple = 2;

// NCCL's number of the algorithm; by Choice.
constexpr std::array<int, kChoiceCount> kAlgorithmOf{-1, 1, 0, 2, 3, 4, 5, 6, -1};

}  // namespace

int nccl_algorithm(Choice choice) noexcept {
  return kAlgorithmOf[static_cast<size_t>(choice)];
}

Choice choice_of_algorithm(int algorithm) noexcept {
  for (const Choice choice : kAlgorithmChoices) {
    if (nccl_algorithm(choice) == algorithm) {
      return choice;
    }
  }
  return Choice::kDefault;
}

std::optional<CostTable> CostTable::of(float* costs, int algorithms, int protocols) noexcept {
  const bool known = algorithms == kAlgorithmsBefore223 || algorithms == kAlgorithmsSince223;
  if (costs == nullptr || !known || protocols != kProtocols) {
    return std::nullopt;
  }
  return CostTable(std::span(costs, static_cast<size_t>(algorithms) * kProtocols));
}

std::span<float> CostTable::row(Choice choice) const noexcept {
  const int algorithm = nccl_algorithm(choice);
  const auto first = static_cast<size_t>(algorithm) * kProtocols;
  if (algorithm < 0 || first >= costs_.size()) {
    return {};
  }
  return costs_.subspan(first, kProtocols);
}

Choices CostTable::allowed() const noexcept {
  Choices found;
  for (const Choice choice : kAlgorithmChoices) {
    for (const float cost : row(choice)) {
      if (cost >= 0) {  // not so for a NaN
        found = found.with(choice);
      }
    }
  }
  return found;
}

bool CostTable::select(Choice choice) noexcept {
  float* cheapest = nullptr;
  for (float& cost : row(choice)) {
    if (cost >= 0 && (cheapest == nullptr || cost < *cheapest)) {
      cheapest = &cost;
    }
  }
  if (cheapest == nullptr) {
    return false;
  }
  take(*cheapest);
  return true;
}

void CostTable::force_collnet_direct() noexcept {
  take(row(Choice::kCollNetDirect)[kSimple]);
}

void CostTable::forbid_rails() noexcept {
  Choices own;
  for (const Choice choice : kOwnChoices) {
    own = own.with(choice);
  }
  if (allowed().in(own) == Choices()) {
    return;
  }
  for (const Choice choice : kRailChoices) {
    for (float& cost : row(choice)) {
      cost = kForbiddenCost;
    }
  }
}

void CostTable::take(float& entry) noexcept {
  // Of equal entries NCCL takes the first of the table, which need not be this one.
  for (float& cost : costs_) {
    cost = cost == 0 ? std::numeric_limits<float>::min() : cost;
  }
  entry = 0;
}

Choices allowed_by_support(const CommonInputs& inputs,
                           TunedCollective collective,
                           bool collnet,
                           bool nvls) noexcept {
  const bool reduces_all = collective == TunedCollective::kAllReduce;
  const bool few_ranks = inputs.most_local_ranks <= kMaxDirectRanks;
  Choices allowed = Choices().with(Choice::kRing);
  if (reduces_all) {
    allowed = allowed.with(Choice::kTree);
    allowed = nvls ? allowed.with(Choice::kNvlsTree) : allowed;
    allowed = collnet && few_ranks ? allowed.with(Choice::kCollNetChain) : allowed;
  }
  if (collnet && nvls && (reduces_all || inputs.one_rank_per_node())) {
    allowed = allowed.with(Choice::kNvls);
    allowed = few_ranks ? allowed.with(Choice::kCollNetDirect) : allowed;
  }
  return allowed;
}

bool may_force_collnet_direct(const CommonInputs& inputs,
                              TunedCollective collective,
                              Choices allowed) noexcept {
  if (!inputs.one_rank_per_node() || inputs.node_count < 2 || inputs.most_local_ranks != 1 ||
      inputs.collnet_connected != 1 || inputs.head_count == 0 || inputs.algorithms_filtered != 0) {
    return false;
  }
  return collective == TunedCollective::kAllGather || inputs.reduces_all_types == 1 ||
         (collective == TunedCollective::kAllReduce && allowed.has(Choice::kCollNetChain));
}

}  // namespace ho::plugin
