#include "core/tuner/cost.hpp"

#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "core/tuner/chunk.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

constexpr double kMillion = 1'000'000;
constexpr double kKernel = 7'000;
constexpr auto kReduceAll = TunedCollective::kAllReduce;
constexpr auto kGather = TunedCollective::kAllGather;
constexpr auto kScatter = TunedCollective::kReduceScatter;

Costs costs(const CommonInputs& inputs, TunedCollective collective, uint64_t bytes) {
  return modelled_costs(inputs, {collective, bytes, false});
}

const Choices kAll(0xff);

}  // namespace

TEST_CASE("bytes between nodes are as by hand for an all-reduce on 4 nodes of 4") {
  // 16 MB; 4 NICs of 1 byte/ns each.
  const Costs found = costs(shape(4, 4), kReduceAll, 16'000'000);
  CHECK(found.of(Choice::kRing) == Approx(kKernel + 2.0 * 15 / 16 * 4 * kMillion));
  CHECK(found.of(Choice::kTree) == Approx(kKernel + 2 * 4 * kMillion));
  CHECK(found.of(Choice::kNvlsTree) == Approx(kKernel + 2 * 4 * kMillion));
  CHECK(found.of(Choice::kCollNetDirect) == Approx(31'000 + 2.0 * 3 / 4 * 4 * kMillion));
  CHECK(found.of(Choice::kCollNetChain) == Approx(30'000 + 2.0 * 3 / 4 * 4 * kMillion));
  CHECK(found.of(Choice::kNvls) == Approx(18'000 + 2.0 * 3 / 4 * 4 * kMillion));
  CHECK(std::isinf(found.of(Choice::kPat)));
  CHECK(std::isinf(found.of(Choice::kDefault)));
}

TEST_CASE("bytes between nodes are as by hand for trees of 2, 3 and 9 nodes") {
  CHECK(costs(shape(2, 1), kReduceAll, 1'000'000).of(Choice::kTree) == Approx(kKernel + kMillion));
  CHECK(costs(shape(3, 1), kReduceAll, 1'000'000).of(Choice::kTree) ==
        Approx(kKernel + 1.5 * kMillion));
  CHECK(costs(shape(9, 1), kReduceAll, 1'000'000).of(Choice::kTree) ==
        Approx(kKernel + 2 * kMillion));
}

TEST_CASE("bytes between nodes are as by hand for all-gather and reduce-scatter") {
  for (const TunedCollective collective : {kGather, kScatter}) {
    // Blocks of 1 MB. Chunks of 64 KiB (a head's 4 MB over 2 channels), 1 MiB in flight: one root
    // at a time, 4 MB per NIC, where the flat ring sends 15/16 of that.
    const Costs found = costs(shape(4, 4), collective, 16'000'000);
    CHECK(found.of(Choice::kRing) == Approx(kKernel + 15.0 / 16 * 4 * kMillion));
    CHECK(found.of(Choice::kCollNetDirect) == Approx(31'000 + 4 * kMillion));
    CHECK(std::isinf(found.of(Choice::kTree)));
    CHECK(std::isinf(found.of(Choice::kNvlsTree)));
    CHECK(std::isinf(found.of(Choice::kCollNetChain)));
    CHECK(std::isinf(found.of(Choice::kPat)));
    // With chunks of ours three blocks.
    CommonInputs sets = shape(4, 4);
    sets.sets_chunk_size = 1;
    CHECK(costs(sets, collective, 16'000'000).of(Choice::kCollNetDirect) ==
          Approx(31'000 + 3 * kMillion));
    // One rank per node: PAT sends what the ring sends.
    const Costs lone = costs(shape(4, 1), collective, 4'000'000);
    CHECK(lone.of(Choice::kPat) == Approx(kKernel + 3 * kMillion));
    CHECK(lone.of(Choice::kRing) == Approx(kKernel + 3 * kMillion));
    // Chunks of 128 KiB: 2 MiB in flight, two blocks and 97152 bytes.
    CHECK(lone.of(Choice::kCollNetDirect) == Approx(14'000 + 4 * kMillion - 97'152));
  }
}

TEST_CASE("one root at a time reaches 0.94 of the ring's rate at 4x4, 0.875 at 2x4, 0.5 at 2x1") {
  struct Row {
    uint32_t nodes;
    uint32_t local;
    double ratio;
  };
  for (const Row& row : {Row{4, 4, 15.0 / 16}, Row{2, 4, 0.875}, Row{2, 1, 0.5}}) {
    CommonInputs inputs = shape(row.nodes, row.local);
    inputs.channel_count = 1;
    const Costs found = costs(inputs, kGather, uint64_t{1} << 40U);
    CHECK(found.of(Choice::kRing) / found.of(Choice::kCollNetDirect) ==
          Approx(row.ratio).epsilon(1e-3));
  }
}

TEST_CASE("whole windows of registered buffers are rings with one rank per node") {
  CommonInputs inputs = shape(4, 1);
  inputs.whole_windows = 1;
  const Costs whole = modelled_costs(inputs, {kGather, 4'000'000, true});
  CHECK(whole.of(Choice::kCollNetDirect) == Approx(14'000 + 3 * kMillion));
  CHECK(costs(inputs, kGather, 4'000'000).of(Choice::kCollNetDirect) ==
        Approx(14'000 + 4 * kMillion - 97'152));
  inputs.whole_windows = 0;
  CHECK(modelled_costs(inputs, {kGather, 4'000'000, true}).of(Choice::kCollNetDirect) ==
        Approx(14'000 + 4 * kMillion - 97'152));
}

TEST_CASE("latency is what it is by hand") {
  CommonInputs inputs = shape(4, 4);
  inputs.nic_mbps = inputs.rail_mbps = 4'000'000'000U;  // bytes take no time
  inputs.hop_ns = 1'000;
  inputs.intra_hop_ns = 10;
  const auto of = [&](TunedCollective collective, Choice choice) {
    return costs(inputs, collective, 16).of(choice);
  };
  // 30 links of the flat ring, 8 of them between nodes; 15 with 4.
  CHECK(of(kReduceAll, Choice::kRing) == Approx(kKernel + 8 * 1000 + 22 * 10));
  CHECK(of(kGather, Choice::kRing) == Approx(kKernel + 4 * 1000 + 11 * 10));
  CHECK(of(kReduceAll, Choice::kTree) == Approx(kKernel + 4 * 1000 + 6 * 10));
  CHECK(of(kReduceAll, Choice::kNvlsTree) == Approx(kKernel + 4 * 1000 + 2 * 10));
  CHECK(of(kReduceAll, Choice::kCollNetDirect) == Approx(31'000 + 6 * 1000 + 2 * 10));
  CHECK(of(kReduceAll, Choice::kCollNetChain) == Approx(30'000 + 6 * 1000 + 6 * 10));
  CHECK(of(kGather, Choice::kNvls) == Approx(18'000 + 3 * 1000 + 2 * 10));
  inputs = shape(5, 1);
  inputs.nic_mbps = inputs.rail_mbps = 4'000'000'000U;
  inputs.hop_ns = 1'000;
  inputs.intra_hop_ns = 10;
  CHECK(of(kGather, Choice::kPat) == Approx(kKernel + 3 * 1000));
  CHECK(of(kGather, Choice::kRing) == Approx(kKernel + 4 * 1000));
  CHECK(of(kReduceAll, Choice::kRing) == Approx(kKernel + 8 * 1000));
  CHECK(of(kReduceAll, Choice::kTree) == Approx(kKernel + 6 * 1000));
  CHECK(of(kReduceAll, Choice::kCollNetChain) == Approx(14'000 + 8 * 1000));
  inputs = shape(4, 2);
  inputs.nic_mbps = inputs.rail_mbps = 4'000'000'000U;
  inputs.hop_ns = 1'000;
  CHECK(of(kReduceAll, Choice::kRing) == Approx(kKernel + 7 * 1000));
}

TEST_CASE("time inside a node is what it is by hand") {
  CommonInputs inputs = shape(2, 4);
  inputs.nic_mbps = inputs.rail_mbps = 4'000'000'000U;
  inputs.intra_mbps = 8000;
  inputs.channel_count = 1024;
  const Costs all = costs(inputs, kReduceAll, 8'000'000);
  CHECK(all.of(Choice::kRing) == Approx(kKernel + 2.0 * 7 / 8 * 8 * kMillion).epsilon(1e-3));
  CHECK(all.of(Choice::kTree) == Approx(kKernel + 2 * 8 * kMillion).epsilon(1e-3));
  CHECK(all.of(Choice::kCollNetDirect) == Approx(31'000 + 1.5 * 8 * kMillion).epsilon(1e-3));
  CHECK(all.of(Choice::kCollNetChain) == Approx(30'000 + 2 * 8 * kMillion).epsilon(1e-3));
  CHECK(all.of(Choice::kNvls) == Approx(18'000 + 1.25 * 8 * kMillion).epsilon(1e-3));
  const Costs gather = costs(inputs, kGather, 8'000'000);
  CHECK(gather.of(Choice::kCollNetDirect) == Approx(31'000 + 0.75 * 8 * kMillion).epsilon(1e-3));
  CHECK(gather.of(Choice::kNvls) == Approx(18'000 + 8 * kMillion).epsilon(1e-3));
  // A chain of two passes nothing on, a lone rank has nothing to do inside its node.
  CommonInputs two = shape(2, 2);
  two.intra_mbps = 8;
  CHECK(costs(two, kReduceAll, 1000).of(Choice::kCollNetChain) == Approx(30'000 + 1'000'000));
  CommonInputs lone = shape(2, 1);
  lone.intra_mbps = 1;
  CHECK(costs(lone, kReduceAll, 1'000'000).of(Choice::kRing) == Approx(kKernel + kMillion));
}

TEST_CASE("NCCL pads an all-reduce through CollNet to 32 KiB per head") {
  const double padded = 31'000 + 1.5 * 32 * 1024;
  CHECK(costs(shape(4, 4), kReduceAll, 1).of(Choice::kCollNetDirect) == Approx(padded));
  CHECK(costs(shape(4, 4), kReduceAll, 128 * kKiB).of(Choice::kCollNetDirect) == Approx(padded));
}

TEST_CASE("what is in flight bounds the rate where hops are long") {
  CommonInputs inputs = shape(4, 4);
  inputs.hop_ns = 10'000'000;
  // A head's 64 MiB, 32 per channel: chunks of 256 KiB, 4 MiB in flight, so 16 flights of 6 hops.
  CHECK(costs(inputs, kReduceAll, 256 * kMiB).of(Choice::kCollNetDirect) ==
        Approx(31'000 + 16 * 60e6));
}

TEST_CASE("heads that share a NIC share its rate; fewer heads than NICs leave some idle") {
  CommonInputs inputs = shape(4, 4);
  inputs.nic_count = 2;
  CHECK(costs(inputs, kReduceAll, 16'000'000).of(Choice::kCollNetDirect) ==
        Approx(31'000 + 2 * 1.5 * 4 * kMillion));
  inputs.nic_count = 4;
  inputs.head_count = 2;
  const Costs found = costs(inputs, kReduceAll, 16'000'000);
  CHECK(found.of(Choice::kCollNetDirect) == Approx(31'000 + 1.5 * 8 * kMillion));
  CHECK(found.of(Choice::kRing) == Approx(kKernel + 2.0 * 15 / 16 * 4 * kMillion));
  // And all-gather needs every rank to be one.
  CHECK(std::isinf(costs(inputs, kGather, 16'000'000).of(Choice::kCollNetDirect)));
  CHECK(std::isinf(costs(inputs, kScatter, 16'000'000).of(Choice::kNvls)));
}

TEST_CASE("unequal nodes have an all-reduce only, by the heads that all have") {
  CommonInputs inputs = shape(2, 4);
  inputs.least_local_ranks = 1;
  inputs.rank_count = 5;
  inputs.head_count = 1;
  const Costs found = costs(inputs, kReduceAll, 1'000'000);
  CHECK(found.of(Choice::kCollNetChain) == Approx(30'000 + kMillion));
  CHECK(found.of(Choice::kRing) == Approx(kKernel + 2.0 * 4 / 5 * kMillion / 4));
  CHECK(std::isinf(costs(inputs, kGather, 1'000'000).of(Choice::kCollNetDirect)));
  CHECK(decide(found, kAll).choice == Choice::kOwn);
}

TEST_CASE("what cannot run costs infinitely") {
  const auto none = [](const CommonInputs& inputs, uint64_t bytes) {
    const Costs found = costs(inputs, kReduceAll, bytes);
    return std::all_of(found.ns.begin(), found.ns.end(), [](double ns) { return std::isinf(ns); });
  };
  CHECK(none(shape(1, 8), 1'000'000));
  CHECK(none(shape(4, 4), 0));
  for (uint32_t CommonInputs::*rate :
       {&CommonInputs::nic_mbps, &CommonInputs::rail_mbps, &CommonInputs::nic_count}) {
    CommonInputs inputs = shape(4, 4);
    inputs.*rate = 0;
    CHECK(none(inputs, 1'000'000));
  }
  CommonInputs headless = shape(4, 4);
  headless.head_count = 0;
  CHECK(std::isinf(costs(headless, kReduceAll, 1'000'000).of(Choice::kCollNetChain)));
  CHECK(std::isfinite(costs(headless, kReduceAll, 1'000'000).of(Choice::kRing)));
  const Costs wide = costs(shape(2, 9), kReduceAll, 1'000'000);
  CHECK(std::isinf(wide.of(Choice::kCollNetDirect)));
  CHECK(std::isinf(wide.of(Choice::kCollNetChain)));
  CHECK(std::isfinite(wide.of(Choice::kNvls)));
}

TEST_CASE("times never fall while sizes grow") {
  for (const auto& [nodes, local] : {std::pair(2U, 1U), std::pair(4U, 4U), std::pair(16U, 8U)}) {
    for (const TunedCollective collective : kTunedCollectives) {
      CommonInputs inputs = shape(nodes, local);
      inputs.intra_mbps = 100'000;
      inputs.hop_ns = 20'000;
      Costs before = costs(inputs, collective, 1);
      for (uint32_t power = 1; power <= 40; ++power) {
        const Costs here = costs(inputs, collective, uint64_t{1} << power);
        for (const Choice choice : {Choice::kRing,
                                    Choice::kTree,
                                    Choice::kPat,
                                    Choice::kCollNetChain,
                                    Choice::kCollNetDirect}) {
          CAPTURE(nodes, local, to_string(collective), to_string(choice), power);
          CHECK(here.of(choice) >= before.of(choice));
        }
        before = here;
      }
    }
  }
}

TEST_CASE("windows in one block must win by more than what measurements fell short of the model") {
  CommonInputs inputs = shape(4, 4);
  inputs.channel_count = 0;  // one per NIC
  inputs.nic_mbps = inputs.rail_mbps = 200;
  inputs.hop_ns = 200'000;
  const auto chosen = [&inputs](TunedCollective collective, uint64_t bytes) {
    return decide(costs(inputs, collective, bytes), Choices().with(Choice::kCollNetDirect)).choice;
  };
  for (const TunedCollective collective : {kGather, kScatter}) {
    CHECK(chosen(collective, 4 * kMiB) == Choice::kCollNetDirect);
    // Measured there: 0.81 to 0.92 of the rings' speed.
    for (uint64_t mib = 7; mib <= 64; ++mib) {
      CHECK(chosen(collective, mib * kMiB) == Choice::kOwn);
    }
  }
  CHECK(costs(inputs, kReduceAll, kMiB).margin == kMargin);
  CommonInputs whole = shape(4, 1);
  whole.whole_windows = 1;
  CHECK(modelled_costs(whole, {kGather, kMiB, true}).margin == kMargin);
  CHECK(modelled_costs(whole, {kGather, kMiB, false}).margin == kWindowMargin);
}

TEST_CASE("a rail ring is chosen where it wins by the margin") {
  Costs found;
  found.ns.fill(1e30);
  const auto set = [&](Choice choice, double ns) { found.ns[static_cast<size_t>(choice)] = ns; };
  set(Choice::kRing, 1030);
  set(Choice::kCollNetDirect, 1000);
  CHECK(decide(found, kAll).choice == Choice::kCollNetDirect);
  set(Choice::kRing, 1029);
  CHECK(decide(found, kAll).choice == Choice::kOwn);
  CHECK(decide(found, kAll).candidate == Choice::kCollNetDirect);
  CHECK(decide(found, kAll).rival == Choice::kRing);
  set(Choice::kCollNetChain, 900);
  set(Choice::kNvls, 950);
  CHECK(decide(found, kAll).choice == Choice::kCollNetChain);
  CHECK(decide(found, Choices().with(Choice::kNvls)).choice == Choice::kNvls);
  // Ring is a rival even where NCCL does not allow it; PAT and NVLS tree only where it does.
  CHECK(decide(found, Choices().with(Choice::kCollNetDirect)).choice == Choice::kOwn);
  set(Choice::kPat, 800);
  CHECK(decide(found, kAll).choice == Choice::kOwn);
  CHECK(decide(found, Choices().with(Choice::kCollNetChain)).choice == Choice::kCollNetChain);
  CHECK(decide(found, Choices()).choice == Choice::kOwn);
}

}  // namespace ho::plugin
