#include "core/tuner/tuner.hpp"

#include <string_view>
#include <utility>

#include "catch.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

constexpr auto kReduceAll = TunedCollective::kAllReduce;
constexpr auto kGather = TunedCollective::kAllGather;
constexpr auto kScatter = TunedCollective::kReduceScatter;
constexpr size_t kDirectSimple = 2 * 3 + 2;
constexpr size_t kChainSimple = 3 * 3 + 2;

// 25 Gbit/s rails, 20 us per hop, NVLink inside.
CommonInputs usual(uint32_t nodes, uint32_t local_ranks) {
  CommonInputs inputs = shape(nodes, local_ranks);
  inputs.nic_mbps = inputs.rail_mbps = 25'000;
  inputs.intra_mbps = 2'400'000;
  inputs.hop_ns = 20'000;
  inputs.intra_hop_ns = 2'000;
  inputs.channel_count = 0;
  return inputs;
}

Tuner tuner(const CommonInputs& inputs, std::string_view rules = "") {
  auto made = Tuner::make(inputs, *TuningFile::parse(rules, "t.csv"));
  INFO(made.status().message());
  REQUIRE(made.ok());
  return std::move(made).value();
}

Choices of(std::initializer_list<Choice> choices) {
  Choices all;
  for (const Choice choice : choices) {
    all = all.with(choice);
  }
  return all;
}

const Choices kNoSwitch = of({Choice::kRing, Choice::kTree, Choice::kCollNetChain});
const Choices kSwitch = kNoSwitch.with(Choice::kCollNetDirect);

// As NCCL fills it in where everything in `allowed` costs 10 in SIMPLE.
std::vector<float> table_of(Choices allowed, int algorithms = 7) {
  constexpr std::array kOrder{Choice::kTree,
                              Choice::kRing,
                              Choice::kCollNetDirect,
                              Choice::kCollNetChain,
                              Choice::kNvls,
                              Choice::kNvlsTree,
                              Choice::kPat};
  std::vector<float> costs(static_cast<size_t>(algorithms) * 3, kForbiddenCost);
  for (size_t i = 0; i < static_cast<size_t>(algorithms); ++i) {
    costs[i * 3 + 2] = allowed.has(kOrder[i]) ? 10 : kForbiddenCost;
  }
  return costs;
}

CostTable view(std::vector<float>& costs) {
  return *CostTable::of(costs.data(), static_cast<int>(costs.size()) / 3, 3);
}

}  // namespace

TEST_CASE("large all-reduce on 4 x 4 goes over the rails, small ones do not") {
  const Tuner made = tuner(usual(4, 4));
  CHECK(made.choose({kReduceAll, 256 * kMiB}, kSwitch) != Choice::kDefault);
  CHECK(made.choose({kReduceAll, 256 * kMiB}, kNoSwitch) == Choice::kCollNetChain);
  CHECK(made.choose({kReduceAll, 8}, kSwitch) == Choice::kOwn);
  CHECK(made.choose({kReduceAll, 0}, kSwitch) == Choice::kOwn);
  CHECK(made.choose({kReduceAll, uint64_t{1} << 40U}, kNoSwitch) == Choice::kCollNetChain);
  CHECK(made.choose({kReduceAll, UINT64_MAX}, kNoSwitch) == Choice::kCollNetChain);
  CHECK(made.choose({kReduceAll, 256 * kMiB}, of({Choice::kRing, Choice::kTree})) == Choice::kOwn);
}

TEST_CASE("an all-gather goes over the rails while enough is in flight, NCCL's way from there on") {
  const Choices allowed = of({Choice::kRing, Choice::kCollNetDirect});
  const Tuner made = tuner(usual(4, 4));
  for (const TunedCollective collective : {kGather, kScatter}) {
    CHECK(made.choose({collective, 1 * kMiB}, allowed) == Choice::kCollNetDirect);
    CHECK(made.choose({collective, kGiB}, allowed) == Choice::kOwn);
    CHECK(made.choose({collective, uint64_t{1} << 40U}, allowed) == Choice::kOwn);
  }
  CommonInputs sets = usual(4, 4);
  sets.sets_chunk_size = 1;
  sets.buffer_bytes = 16U << 20U;
  CHECK(tuner(sets).choose({kGather, 256 * kMiB}, allowed) == Choice::kCollNetDirect);
}

TEST_CASE("decisions are what the model says, at every size") {
  for (const auto& inputs : {usual(2, 1), usual(4, 4), usual(3, 8), usual(16, 8)}) {
    const Tuner made = tuner(inputs);
    for (const TunedCollective collective : kTunedCollectives) {
      for (uint64_t bytes = 1; bytes < uint64_t{1} << 42U; bytes = bytes * 2) {
        for (const Choices allowed : {kSwitch, kNoSwitch, Choices(0xff)}) {
          CAPTURE(inputs.node_count, to_string(collective), bytes);
          CHECK(made.choose({collective, bytes}, allowed) ==
                decide(modelled_costs(inputs, {collective, bytes, false}), allowed).choice);
        }
      }
    }
  }
}

TEST_CASE("thresholds are exact to the byte") {
  const CommonInputs inputs = usual(4, 4);
  const auto ranges = tuner(inputs).ranges(kReduceAll, false, kNoSwitch);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0] == ChoiceRange{0, Choice::kOwn, 0});
  const uint64_t first = ranges[1].first_bytes;
  const auto modelled = [&](uint64_t bytes) {
    return decide(modelled_costs(inputs, {kReduceAll, bytes, false}), kNoSwitch).choice;
  };
  CHECK(modelled(first - 1) == Choice::kOwn);
  CHECK(modelled(first) == Choice::kCollNetChain);
}

TEST_CASE("one node, unequal nodes, no heads and no rates are left to NCCL") {
  CommonInputs unequal = usual(2, 4);
  unequal.least_local_ranks = 1;
  unequal.head_count = 1;
  unequal.rank_count = 5;
  CommonInputs headless = usual(4, 4);
  headless.head_count = 0;
  CommonInputs no_rate = usual(4, 4);
  no_rate.rail_mbps = 0;
  for (const CommonInputs& inputs : {usual(1, 8), unequal, headless, no_rate}) {
    const Tuner made = tuner(inputs);
    for (const TunedCollective collective : kTunedCollectives) {
      CHECK(made.ranges(collective, false, Choices(0xff)).size() == 1);
    }
  }
  CommonInputs nonsense = usual(4, 4);
  nonsense.rank_count = 3;
  CHECK_FALSE(Tuner::make(nonsense, TuningFile()).ok());
}

TEST_CASE("equal inputs make equal decisions") {
  const Tuner one = tuner(usual(4, 4));
  const Tuner other = tuner(usual(4, 4));
  for (const TunedCollective collective : kTunedCollectives) {
    for (size_t set = 0; set < Choices::kSetCount; ++set) {
      const Choices allowed(static_cast<uint8_t>(set));
      CHECK(one.ranges(collective, false, allowed) == other.ranges(collective, false, allowed));
    }
  }
}

TEST_CASE("operations of a group are looked at one by one") {
  const Tuner made = tuner(usual(4, 4));
  const uint64_t first = made.ranges(kReduceAll, false, kNoSwitch)[1].first_bytes;
  CHECK(made.choose({kReduceAll, first, 1}, kNoSwitch) == Choice::kCollNetChain);
  CHECK(made.choose({kReduceAll, first, 2}, kNoSwitch) == Choice::kOwn);
  CHECK(made.choose({kReduceAll, 2 * first, 2}, kNoSwitch) == Choice::kCollNetChain);
  CHECK(made.choose({kReduceAll, first, 0}, kNoSwitch) == Choice::kCollNetChain);
}

TEST_CASE("one entry of the table is selected, or CollNet's are forbidden") {
  const Tuner made = tuner(usual(4, 4));
  for (const int algorithms : {6, 7}) {
    auto costs = table_of(kNoSwitch, algorithms);
    auto expected = costs;
    expected[kChainSimple] = 0;
    CHECK(made.apply({kReduceAll, 256 * kMiB}, view(costs)) == Choice::kCollNetChain);
    CHECK(costs == expected);
    // Where no rail ring wins, the rings are forbidden and nothing else is written.
    costs = table_of(kNoSwitch, algorithms);
    expected = costs;
    expected[kChainSimple] = kForbiddenCost;
    CHECK(made.apply({kReduceAll, 8}, view(costs)) == Choice::kOwn);
    CHECK(costs == expected);
    CHECK(made.apply({kGather, 1 * kMiB}, view(costs)) == Choice::kOwn);
    CHECK(costs == expected);
    // No model and nothing to choose, nothing written.
    CommonInputs silent = usual(4, 4);
    silent.nic_mbps = 0;
    costs = table_of(kNoSwitch, algorithms);
    expected = costs;
    CHECK(tuner(silent).apply({kReduceAll, 8}, view(costs)) == Choice::kDefault);
    CHECK(costs == expected);
    costs = table_of(Choices(), algorithms);
    expected = costs;
    CHECK(made.apply({kReduceAll, 256 * kMiB}, view(costs)) == Choice::kDefault);
    CHECK(costs == expected);
  }
}

TEST_CASE("a rule of the file comes before the model") {
  const Tuner made = tuner(usual(4, 4),
                           "all_reduce,16M,32M,4,4,default\n"
                           "all_reduce,8,8,*,*,collnet_chain\n"
                           "all_reduce,4G,*,*,*,nvls\n"
                           "all_gather,*,*,2,*,ring\n"
                           "all_gather,*,*,*,*,ring\n");
  const uint64_t first = tuner(usual(4, 4)).ranges(kReduceAll, false, kNoSwitch)[1].first_bytes;
  REQUIRE(first < 16 * kMiB);
  const auto expected = std::vector<ChoiceRange>{{0, Choice::kOwn, 0},
                                                 {8, Choice::kCollNetChain, 2},
                                                 {9, Choice::kOwn, 0},
                                                 {first, Choice::kCollNetChain, 0},
                                                 {16 * kMiB, Choice::kDefault, 1},
                                                 {32 * kMiB + 1, Choice::kCollNetChain, 0},
                                                 {4 * kGiB, Choice::kDefault, 3}};
  CHECK(made.ranges(kReduceAll, false, kNoSwitch) == expected);
  CHECK(made.choose({kGather, 1 * kMiB}, kSwitch) == Choice::kRing);
  CHECK(made.choose({kReduceAll, 5 * kGiB}, kSwitch.with(Choice::kNvls)) == Choice::kNvls);

  auto costs = table_of(kSwitch);
  CHECK(made.apply({kGather, 1 * kMiB}, view(costs)) == Choice::kRing);
  CHECK(costs[1 * 3 + 2] == 0);
  // A rule for what NCCL forbids leaves the call to NCCL.
  costs = table_of(kSwitch);
  const auto before = costs;
  CHECK(made.apply({kReduceAll, 5 * kGiB}, view(costs)) == Choice::kDefault);
  CHECK(costs == before);
}

TEST_CASE("a rule of own leaves NCCL all but CollNet, also without a model") {
  for (const uint32_t nic_mbps : {0U, 25'000U}) {
    CommonInputs inputs = usual(4, 4);
    inputs.nic_mbps = nic_mbps;
    auto costs = table_of(kSwitch.with(Choice::kNvls));
    const auto expected = table_of(of({Choice::kRing, Choice::kTree}));
    const Tuner made = tuner(inputs, "all_reduce,*,*,*,*,own\n");
    CHECK(made.apply({kReduceAll, 256 * kMiB}, view(costs)) == Choice::kOwn);
    CHECK(costs == expected);
  }
  // On one node NVLS is NCCL's own.
  auto costs = table_of(of({Choice::kRing, Choice::kNvls}));
  const auto before = costs;
  CHECK(tuner(usual(1, 8), "*,*,*,*,*,own\n").apply({kReduceAll, kMiB}, view(costs)) ==
        Choice::kOwn);
  CHECK(costs == before);
}

TEST_CASE("an NCCL that takes one answer hears which of its own is best, and in which protocol") {
  const Tuner made = tuner(usual(4, 4));
  const OwnAlgorithm small = made.best_own({kReduceAll, 8}, kNoSwitch);
  CHECK(small.choice == Choice::kTree);
  CHECK(small.low_latency);
  const OwnAlgorithm large = made.best_own({kReduceAll, kGiB}, kNoSwitch);
  CHECK(large.choice == Choice::kRing);
  CHECK_FALSE(large.low_latency);
  // Once it is not LL any more it is not for any larger size.
  for (const TunedCollective collective : kTunedCollectives) {
    bool before = true;
    for (uint32_t power = 0; power < 40; ++power) {
      const OwnAlgorithm own = made.best_own({collective, uint64_t{1} << power}, kNoSwitch);
      CHECK((own.choice == Choice::kRing || own.choice == Choice::kTree));
      CHECK((before || !own.low_latency));
      before = own.low_latency;
    }
  }
  CommonInputs silent = usual(4, 4);
  silent.nic_mbps = 0;
  CHECK(tuner(silent).best_own({kReduceAll, 8}, kNoSwitch).choice == Choice::kDefault);
}

TEST_CASE("CollNet direct is forced by a rule where that is safe, and nowhere else") {
  const char* const rule = "all_gather,*,*,*,*,collnet_direct\n";
  const Choices allowed = of({Choice::kRing, Choice::kPat});
  const Tuner lone = tuner(usual(4, 1), rule);
  for (const int algorithms : {6, 7}) {
    auto costs = table_of(allowed, algorithms);
    auto expected = costs;
    expected[kDirectSimple] = 0;
    CHECK(lone.apply({kGather, 1 * kMiB}, view(costs)) == Choice::kCollNetDirect);
    CHECK(costs == expected);
  }
  CommonInputs apart = usual(4, 1);
  apart.collnet_connected = 0;
  CommonInputs filtered = usual(4, 1);
  filtered.algorithms_filtered = 1;
  for (const CommonInputs& inputs : {apart, filtered, usual(4, 2)}) {
    auto costs = table_of(allowed);
    const auto before = costs;
    CHECK(tuner(inputs, rule).apply({kGather, 1 * kMiB}, view(costs)) == Choice::kDefault);
    CHECK(costs == before);
  }
  // Where NCCL allows nothing at all it has an error to report.
  auto nothing = table_of(Choices());
  const auto before = nothing;
  CHECK(lone.apply({kGather, 1 * kMiB}, view(nothing)) == Choice::kDefault);
  CHECK(nothing == before);
}

TEST_CASE(
    "by itself the model forces nothing: with one rank per node rings and PAT send as little") {
  const Tuner lone = tuner(usual(4, 1));
  const Choices all(0xff);
  for (const TunedCollective collective : kTunedCollectives) {
    CHECK(lone.ranges(collective, false, all).size() == 1);
  }
  CommonInputs faster = usual(4, 1);
  faster.rail_mbps = 50'000;
  CHECK(tuner(faster).choose({kReduceAll, kGiB}, kNoSwitch) == Choice::kCollNetChain);
  // Where rail rings are faster, what NCCL allows comes before what it forbids.
  auto costs = table_of(kNoSwitch);
  CHECK(tuner(faster).apply({kReduceAll, kGiB}, view(costs)) == Choice::kCollNetChain);
  CHECK(costs[kDirectSimple] == kForbiddenCost);
}

TEST_CASE("registered buffers have decisions of their own where they reach CollNet whole") {
  CommonInputs inputs = usual(4, 1);
  inputs.rail_mbps = 26'000;
  inputs.whole_windows = 1;
  const Tuner made = tuner(inputs);
  const Choices all(0xff);
  CHECK(made.choose({kGather, kGiB, 1, true}, all) == Choice::kCollNetDirect);
  CHECK(made.choose({kGather, kGiB, 1, false}, all) == Choice::kOwn);
  inputs.whole_windows = 0;
  CHECK(tuner(inputs).choose({kGather, kGiB, 1, true}, all) == Choice::kOwn);
}

TEST_CASE("look-ups throw nothing and are allowed to be called from anywhere") {
  const Tuner made = tuner(usual(4, 4));
  std::vector<float> costs = table_of(kSwitch);
  const CostTable table = view(costs);
  static_assert(noexcept(made.choose(Call{}, Choices())));
  static_assert(noexcept(made.apply(Call{}, table)));
  static_assert(noexcept(made.chunk_bytes(ChunkRequest{})));
  CHECK(made.chunk_bytes({kGather, Choice::kRing, 1, 1, 77}) == 77);
}

}  // namespace ho::plugin
