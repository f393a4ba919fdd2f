#include "core/tuner/cost_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "abi/tuner_v6.hpp"
#include "catch.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

static_assert(kProtocols == nccl_abi::kProtocolCount);
static_assert(kAlgorithmsSince223 == nccl_abi::kAlgorithmCount);
static_assert(kForbiddenCost == nccl_abi::v6::kIgnoredCost);

constexpr float kGuard = 12345;

// A table of NCCL's with memory after it that nobody may touch.
struct Memory {
  explicit Memory(int algorithm_count) : algorithms(algorithm_count) {
    const auto size = static_cast<size_t>(algorithms) * kProtocols;
    costs.assign(size + 16, kGuard);
    std::fill_n(costs.begin(), size, kForbiddenCost);
  }
  float& at(int algorithm, int protocol) {
    return nccl_abi::v6::cost_of(
        reinterpret_cast<float**>(costs.data()), kProtocols, algorithm, protocol);
  }
  [[nodiscard]] CostTable table() { return *CostTable::of(costs.data(), algorithms, kProtocols); }
  [[nodiscard]] bool guarded() const {
    return std::all_of(costs.end() - 16, costs.end(), [](float cost) { return cost == kGuard; });
  }

  int algorithms;
  std::vector<float> costs;
};

}  // namespace

TEST_CASE("a table of another shape is left alone") {
  std::vector<float> costs(100, 1);
  CHECK_FALSE(CostTable::of(nullptr, 7, 3).has_value());
  for (const auto& [algorithms, protocols] : std::vector<std::pair<int, int>>{
           {5, 3}, {8, 3}, {0, 3}, {-7, 3}, {7, 2}, {7, 4}, {7, -3}, {7, 0}, {2147483647, 3}}) {
    CHECK_FALSE(CostTable::of(costs.data(), algorithms, protocols).has_value());
  }
  CHECK(CostTable::of(costs.data(), 6, 3).has_value());
  CHECK(CostTable::of(costs.data(), 7, 3).has_value());
}

TEST_CASE("each choice is its algorithm's row") {
  const std::vector<std::pair<Choice, int>> rows{
      {Choice::kTree, nccl_abi::kAlgorithmTree},
      {Choice::kRing, nccl_abi::kAlgorithmRing},
      {Choice::kCollNetDirect, nccl_abi::kAlgorithmCollNetDirect},
      {Choice::kCollNetChain, nccl_abi::kAlgorithmCollNetChain},
      {Choice::kNvls, nccl_abi::kAlgorithmNvls},
      {Choice::kNvlsTree, nccl_abi::kAlgorithmNvlsTree},
      {Choice::kPat, nccl_abi::kAlgorithmPat}};
  for (const auto& [choice, algorithm] : rows) {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      Memory memory(7);
      memory.at(algorithm, protocol) = 5;
      CHECK(memory.table().allowed() == Choices().with(choice));
      for (const auto& [other, row] : rows) {
        CHECK(memory.table().select(other) == (other == choice));
      }
      CHECK(memory.at(algorithm, protocol) == 0);
      CHECK(std::count(memory.costs.begin(), memory.costs.end(), kForbiddenCost) == 20);
      CHECK(memory.guarded());
    }
  }
}

TEST_CASE("what goes through CollNet is forbidden, as long as something else is allowed") {
  for (const int algorithms : {kAlgorithmsBefore223, kAlgorithmsSince223}) {
    Memory memory(algorithms);
    std::fill_n(memory.costs.begin(), static_cast<size_t>(algorithms) * kProtocols, 5.0F);
    memory.table().forbid_rails();
    for (int algorithm = 0; algorithm < algorithms; ++algorithm) {
      const Choice choice = choice_of_algorithm(algorithm);
      const bool rail =
          std::find(kRailChoices.begin(), kRailChoices.end(), choice) != kRailChoices.end();
      for (int protocol = 0; protocol < kProtocols; ++protocol) {
        CHECK(memory.at(algorithm, protocol) == (rail ? kForbiddenCost : 5.0F));
      }
    }
    CHECK(memory.guarded());
    Memory only(algorithms);
    only.at(nccl_abi::kAlgorithmCollNetChain, 2) = 5;
    only.table().forbid_rails();
    CHECK(only.at(nccl_abi::kAlgorithmCollNetChain, 2) == 5);
  }
}

TEST_CASE("what is taken is less than all others, also where NCCL has a 0") {
  Memory memory(7);
  memory.at(nccl_abi::kAlgorithmTree, 0) = 0;
  memory.at(nccl_abi::kAlgorithmCollNetChain, 2) = 5;
  CHECK(memory.table().select(Choice::kCollNetChain));
  CHECK(memory.at(nccl_abi::kAlgorithmCollNetChain, 2) == 0);
  CHECK(memory.at(nccl_abi::kAlgorithmTree, 0) > 0);
  memory.at(nccl_abi::kAlgorithmTree, 0) = 0;
  memory.table().force_collnet_direct();
  CHECK(memory.at(nccl_abi::kAlgorithmCollNetDirect, 2) == 0);
  CHECK(memory.at(nccl_abi::kAlgorithmTree, 0) > 0);
}

TEST_CASE("the cheapest of an algorithm's allowed protocols is taken") {
  Memory memory(7);
  memory.at(nccl_abi::kAlgorithmRing, 0) = 9;
  memory.at(nccl_abi::kAlgorithmRing, 2) = 4;
  memory.at(nccl_abi::kAlgorithmTree, 2) = 3;
  CHECK(memory.table().select(Choice::kRing));
  CHECK(memory.at(nccl_abi::kAlgorithmRing, 0) == 9);
  CHECK(memory.at(nccl_abi::kAlgorithmRing, 1) == kForbiddenCost);
  CHECK(memory.at(nccl_abi::kAlgorithmRing, 2) == 0);
  CHECK(memory.at(nccl_abi::kAlgorithmTree, 2) == 3);
}

TEST_CASE("six algorithms have no PAT, and nothing is behind the table") {
  Memory memory(6);
  CHECK(memory.table().allowed() == Choices());
  CHECK_FALSE(memory.table().select(Choice::kPat));
  CHECK_FALSE(memory.table().select(Choice::kDefault));
  CHECK(memory.guarded());
  std::fill_n(memory.costs.begin(), 18, 1.0F);
  CHECK_FALSE(memory.table().allowed().has(Choice::kPat));
  CHECK(memory.table().allowed().has(Choice::kNvlsTree));
}

TEST_CASE("costs that are no numbers are not allowed") {
  Memory memory(7);
  memory.at(nccl_abi::kAlgorithmCollNetChain, 2) = std::numeric_limits<float>::quiet_NaN();
  memory.at(nccl_abi::kAlgorithmNvls, 2) = -0.5F;
  CHECK(memory.table().allowed() == Choices());
  CHECK_FALSE(memory.table().select(Choice::kCollNetChain));
  CHECK(std::isnan(memory.at(nccl_abi::kAlgorithmCollNetChain, 2)));
}

TEST_CASE("CollNet direct is forced only where nothing can be wrong with it") {
  constexpr auto kGather = TunedCollective::kAllGather;
  constexpr auto kScatter = TunedCollective::kReduceScatter;
  constexpr auto kReduceAll = TunedCollective::kAllReduce;
  const Choices chain = Choices().with(Choice::kCollNetChain).with(Choice::kRing);
  const CommonInputs lone = shape(4, 1);
  CHECK(may_force_collnet_direct(lone, kGather, chain));
  CHECK(may_force_collnet_direct(lone, kGather, Choices()));
  // A reduction needs to know that CollNet takes the type.
  CHECK(may_force_collnet_direct(lone, kReduceAll, chain));
  CHECK_FALSE(may_force_collnet_direct(lone, kReduceAll, Choices().with(Choice::kRing)));
  CHECK_FALSE(may_force_collnet_direct(lone, kScatter, chain));
  CommonInputs all_types = lone;
  all_types.reduces_all_types = 1;
  CHECK(may_force_collnet_direct(all_types, kScatter, Choices()));
  CHECK(may_force_collnet_direct(all_types, kReduceAll, Choices()));
  const auto refused = [&](auto change) {
    CommonInputs inputs = all_types;
    change(inputs);
    for (const TunedCollective collective : kTunedCollectives) {
      CHECK_FALSE(may_force_collnet_direct(inputs, collective, chain));
    }
  };
  refused([](CommonInputs& inputs) { inputs.collnet_connected = 0; });
  refused([](CommonInputs& inputs) { inputs.algorithms_filtered = 1; });
  refused([](CommonInputs& inputs) { inputs.head_count = 0; });
  refused([](CommonInputs& inputs) { inputs.rank_count = 5; });
  refused([](CommonInputs& inputs) { inputs.most_local_ranks = 2; });
  refused([](CommonInputs& inputs) { inputs.node_count = inputs.rank_count = 1; });
  refused([](CommonInputs& inputs) { inputs = shape(4, 2); });

  Memory memory(6);
  memory.table().force_collnet_direct();
  CHECK(memory.at(nccl_abi::kAlgorithmCollNetDirect, nccl_abi::kProtocolSimple) == 0);
  CHECK(std::count(memory.costs.begin(), memory.costs.end(), kForbiddenCost) == 17);
}

TEST_CASE("without a table direct is allowed only where NVLS shows that there is an NVSwitch") {
  CommonInputs inputs = shape(4, 4);
  const auto allowed = [&inputs](TunedCollective collective, bool collnet, bool nvls) {
    return allowed_by_support(inputs, collective, collnet, nvls);
  };
  constexpr auto kReduceAll = TunedCollective::kAllReduce;
  constexpr auto kGather = TunedCollective::kAllGather;
  const Choices ring = Choices().with(Choice::kRing);
  const Choices none = allowed(kReduceAll, false, false);
  CHECK(none == ring.with(Choice::kTree));
  CHECK(allowed(kReduceAll, true, false) == none.with(Choice::kCollNetChain));
  CHECK(allowed(kReduceAll, false, true) == none.with(Choice::kNvlsTree));
  CHECK(allowed(kReduceAll, true, true).has(Choice::kCollNetDirect));
  CHECK(allowed(kGather, true, true) == ring);
  inputs = shape(4, 9);
  CHECK(allowed(kReduceAll, true, true) == none.with(Choice::kNvlsTree).with(Choice::kNvls));
  inputs = shape(4, 1);
  CHECK(allowed(kGather, true, false) == ring);
  CHECK(allowed(kGather, true, true) == ring.with(Choice::kCollNetDirect).with(Choice::kNvls));
}

TEST_CASE("NCCL's numbers of algorithms are translated there and back") {
  CHECK(nccl_algorithm(Choice::kDefault) == -1);
  CHECK(nccl_algorithm(Choice::kOwn) == -1);
  CHECK(nccl_algorithm(Choice::kCollNetDirect) == nccl_abi::kAlgorithmCollNetDirect);
  CHECK(nccl_algorithm(Choice::kPat) == nccl_abi::kAlgorithmPat);
  for (const Choice choice : kAlgorithmChoices) {
    CHECK(choice_of_algorithm(nccl_algorithm(choice)) == choice);
  }
  CHECK(choice_of_algorithm(-1) == Choice::kDefault);
  CHECK(choice_of_algorithm(7) == Choice::kDefault);
}

}  // namespace ho::plugin
