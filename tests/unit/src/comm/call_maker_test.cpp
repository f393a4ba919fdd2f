#include "comm/call_maker.hpp"

#include <array>
#include <chrono>
#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

const CallMaker kMaker(CallShape(GlobalRank(1), 4, 2), 7, std::chrono::milliseconds(3000));

CollectiveCall call_of(Collective collective, size_t count) {
  CollectiveCall call;
  call.collective = collective;
  call.count = count;
  return call;
}

}  // namespace

TEST_CASE("a call has its communicator, its channel and the timeout that holds for it") {
  CollectiveCall requested = call_of(Collective::kAllGather, 3);
  const Call call = kMaker.begin(requested, Algorithm::kRing);
  CHECK(call.communicator == 7);
  CHECK(call.self == GlobalRank(1));
  CHECK(call.world_size == 4);
  CHECK(call.count == 12);
  CHECK(call.timeout == std::chrono::milliseconds(3000));
  CHECK(call.channel == channel_of(Collective::kAllGather));
  CHECK(channel_of(Collective::kAllGather) != channel_of(Collective::kReduceScatter));
  CHECK(channel_of(Collective::kAllReduce) == channel_of(Collective::kAllToAll));
  requested.options.timeout = std::chrono::milliseconds(5);
  CHECK(kMaker.begin(requested, Algorithm::kRing).timeout == std::chrono::milliseconds(5));
}

TEST_CASE("blocks have the caller's counts, or what the plan cuts the whole into") {
  Plan plan;
  plan.block_count = 4;
  const Call cut = kMaker.make(call_of(Collective::kAllReduce, 10), Algorithm::kRing, plan);
  CHECK(cut.block_counts.of(0) == 2);
  CHECK(cut.block_counts.of(1) == 3);
  CHECK(cut.block_counts.of(2) == 2);
  CHECK(cut.block_counts.of(3) == 3);

  const Call same = kMaker.make(call_of(Collective::kAllGather, 5), Algorithm::kRing, plan);
  CHECK(same.block_counts.of(3) == 5);

  const std::vector<size_t> counts{1, 0, 7, 2};
  CollectiveCall requested = call_of(Collective::kAllGather, 0);
  requested.counts = counts;
  const Call each = kMaker.make(requested, Algorithm::kRing, plan);
  CHECK(each.block_counts.of(2) == 7);
  CHECK(each.block_counts.largest() == 7);
}

TEST_CASE("what ranks compare differs by root, by counts per rank and by label") {
  CollectiveCall requested = call_of(Collective::kBroadcast, 1);
  requested.root = GlobalRank(2);
  const auto digest = [&] { return kMaker.begin(requested, Algorithm::kRing).digest; };
  CHECK(digest() == 2);
  requested.options.label = 9;
  const uint16_t labelled = digest();
  CHECK(kMaker.begin(requested, Algorithm::kRing).labelled);
  requested.options.label = 10;
  CHECK(digest() != labelled);

  const std::vector<size_t> counts{1, 2, 3, 4};
  const std::vector<size_t> others{4, 3, 2, 1};
  requested = call_of(Collective::kAllGather, 0);
  requested.counts = counts;
  const uint16_t counted = digest();
  requested.counts = others;
  CHECK(digest() != counted);
}

TEST_CASE("a rank's input is scaled in the output of an all-reduce, and in a copy elsewhere") {
  std::array<float, 2> input{1, 2};
  std::array<float, 2> output{};
  CollectiveCall requested = call_of(Collective::kAllReduce, 2);
  requested.op = ReduceOp::kPremulSum;
  requested.send = input.data();
  requested.recv = output.data();
  Call call = kMaker.begin(requested, Algorithm::kRing);
  REQUIRE(scale_input(call, 0.5).ok());
  CHECK(output == std::array<float, 2>{0.5F, 1});
  CHECK(static_cast<const void*>(call.input) == output.data());

  requested.collective = Collective::kReduce;
  call = kMaker.begin(requested, Algorithm::kRing);
  REQUIRE(scale_input(call, 2).ok());
  CHECK(input == std::array<float, 2>{1, 2});
  const auto* scaled = reinterpret_cast<const float*>(call.input);
  CHECK(scaled[1] == 4);
  CHECK(call.scaled_bytes == sizeof(input));
}

}  // namespace ho
