// A rail's windows as plans: verify() proves the walk that the engine takes.
#include "core/rail/window_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "plan/verify.hpp"

using namespace ho;
using namespace ho::plugin::rail;

namespace {

constexpr uint32_t kMaxMembers = 8;
constexpr uint64_t kElementBytes = 4;

// A window of `count` elements from element `begin` on, of blocks of `block` elements.
Window blocks_window(
    WindowKind kind, uint32_t members, uint64_t block, uint64_t begin, uint64_t count) {
  Window window;
  window.kind = kind;
  window.members = members;
  window.offset = begin * kElementBytes;
  window.byte_count = count * kElementBytes;
  window.block_bytes = block * kElementBytes;
  window.element_bytes = kElementBytes;
  return window;
}

// What NCCL makes and what it does not: over all blocks, in one, over an edge.
std::vector<Window> windows_of(WindowKind kind, uint32_t members, uint64_t block) {
  if (kind == WindowKind::kAllReduce) {
    return {Window::all_reduce(members, block, kElementBytes),
            Window::all_reduce(members, block * members + 1, kElementBytes),
            Window::all_reduce(members, kMaxExchangeBytes / kElementBytes + block, kElementBytes)};
  }
  const uint64_t all = block * members;
  return {blocks_window(kind, members, block, 0, all),
          blocks_window(kind, members, block, (members - 1) * block, block),
          blocks_window(kind, members, block, block / 2, all - block / 2)};
}

// Pieces of a multiple of 8 bytes, so many in the longest flow where it is long enough.
uint64_t piece_bytes_for(const Window& window, uint64_t pieces) {
  uint64_t longest = 0;
  for (uint32_t owner = 0; owner < window.members; ++owner) {
    longest = std::max(longest, window.segment(owner).byte_count);
  }
  return std::max<uint64_t>(1, (longest + 8 * pieces - 1) / (8 * pieces)) * 8;
}

// All that the engine will count for these windows is in the plan, and nothing else.
void check_message_counts(const WholePlan& whole,
                          const std::vector<Window>& windows,
                          uint64_t piece_bytes) {
  for (uint32_t self = 0; self < whole.ranks.size(); ++self) {
    uint64_t expected = 0;
    for (const Window& window : windows) {
      expected += message_count(window, self, piece_bytes);
    }
    const auto& ops = whole.ranks[self].ops;
    const auto messages = std::count_if(
        ops.begin(), ops.end(), [](const PlanOp& op) { return op.kind != OpKind::kCopy; });
    CHECK(static_cast<uint64_t>(messages) == expected);
  }
}

void check_plan(const std::vector<Window>& windows, uint64_t piece_bytes) {
  const auto plan = window_plan(windows, piece_bytes);
  REQUIRE(plan.ok());
  const Status status = verify(plan->whole, plan->map);
  CHECK(status.message() == "");
  check_message_counts(plan->whole, windows, piece_bytes);
}

constexpr WindowKind kKinds[] = {
    WindowKind::kAllReduce, WindowKind::kAllGather, WindowKind::kReduceScatter};

// Several windows of each kind at once, in an order that mixes them.
std::vector<Window> mixed_windows(uint32_t members) {
  std::vector<Window> windows;
  for (const uint64_t block : {5U, 12U, 1U}) {
    for (size_t which = 0; which < 3; ++which) {
      for (const WindowKind kind : kKinds) {
        const auto some = windows_of(kind, members, block);
        windows.push_back(some[kind == WindowKind::kAllReduce ? which % 2 : which]);
      }
    }
    windows.push_back(Window::all_reduce(members, 0, kElementBytes));
  }
  return windows;
}

WindowPlan plan_of(const std::vector<Window>& windows, uint64_t piece_bytes) {
  auto plan = window_plan(windows, piece_bytes);
  REQUIRE(plan.ok());
  REQUIRE(verify(plan->whole, plan->map).ok());
  return std::move(*plan);
}

// The first two ops of a rank that send on one connection.
std::pair<size_t, size_t> two_sends(const RankPlan& rank) {
  for (size_t a = 0; a < rank.ops.size(); ++a) {
    for (size_t b = a + 1; b < rank.ops.size(); ++b) {
      if (rank.ops[a].kind == OpKind::kSend && rank.ops[b].kind == OpKind::kSend &&
          rank.ops[a].connection == rank.ops[b].connection) {
        return {a, b};
      }
    }
  }
  FAIL("no two sends on one connection");
  return {};
}

std::string rejected(const WindowPlan& plan) {
  const Status status = verify(plan.whole, plan.map);
  CHECK_FALSE(status.ok());
  return status.message();
}

}  // namespace

TEST_CASE("every window of a rail is a plan that verify() proves") {
  for (uint32_t members = 1; members <= kMaxMembers; ++members) {
    for (const WindowKind kind : kKinds) {
      for (const uint64_t block : {1U, 2U, 7U, 8U, 33U}) {
        for (const Window& window : windows_of(kind, members, block)) {
          for (uint64_t pieces = 1; pieces <= 4; ++pieces) {
            INFO("members " << members << " kind " << static_cast<int>(kind) << " block " << block
                            << " offset " << window.offset << " bytes " << window.byte_count
                            << " pieces " << pieces);
            check_plan({window}, piece_bytes_for(window, pieces));
          }
        }
      }
    }
  }
}

TEST_CASE("a window whose pieces are cut by size is a plan that verify() proves") {
  for (const uint32_t members : {2U, 3U, 4U, 8U}) {
    for (const WindowKind kind : kKinds) {
      for (const Window& window : windows_of(kind, members, 3 * kMaxPieceBytes / 4 + 1)) {
        INFO("members " << members << " kind " << static_cast<int>(kind));
        check_plan({window}, 0);
      }
    }
  }
}

TEST_CASE("windows of all collectives under way at once are a plan that verify() proves") {
  for (uint32_t members = 1; members <= kMaxMembers; ++members) {
    for (const uint64_t piece_bytes : {8U, 16U, 24U, 32768U}) {
      INFO("members " << members << " piece " << piece_bytes);
      check_plan(mixed_windows(members), piece_bytes);
    }
  }
}

TEST_CASE("in an exchange of two members each sends its input, then adds what comes") {
  const WindowPlan plan = plan_of({Window::all_reduce(2, 2, kElementBytes)}, 0);
  CHECK(plan.whole.plan.block_count == 1);
  for (const RankPlan& rank : plan.whole.ranks) {
    const auto& ops = rank.ops;
    REQUIRE(ops.size() == 3);
    CHECK(ops[0].kind == OpKind::kSend);
    CHECK(ops[0].src == Space::kInput);
    CHECK(ops[1].kind == OpKind::kRecvReduce);
    CHECK(ops[1].final_sum);
    CHECK(ops[1].deps.empty());
    CHECK(ops[2].kind == OpKind::kCopy);
    CHECK(ops[2].dst == Space::kOutput);
    CHECK(ops[2].deps == std::vector<uint32_t>{0, 1});
  }
  WindowPlan hasty = plan;  // the result is stored while the input may still be sent
  hasty.whole.ranks[0].ops[2].deps = {1};
  CHECK(rejected(hasty).find("in place") != std::string::npos);
}

TEST_CASE("an all-reduce window goes around to the owner, then around from it") {
  const uint64_t count = kMaxExchangeBytes / kElementBytes + 2;
  const WindowPlan plan = plan_of({Window::all_reduce(2, count, kElementBytes)}, kMaxExchangeBytes);
  const auto& ops = plan.whole.ranks[0].ops;
  REQUIRE(ops.size() == 4);
  // Block 1 is member 1's: it goes out and comes back. Block 0 comes in, is added, goes out as a
  // result.
  CHECK(ops[0].kind == OpKind::kSend);
  CHECK(ops[0].chunks == std::vector<ChunkIndex>{ChunkIndex(1)});
  CHECK(ops[0].src == Space::kInput);
  CHECK(ops[0].connection == 1);
  CHECK(ops[1].kind == OpKind::kRecvReduce);
  CHECK(ops[1].chunks == std::vector<ChunkIndex>{ChunkIndex(0)});
  CHECK(ops[1].final_sum);
  CHECK(ops[1].dst == Space::kOutput);
  CHECK(ops[2].kind == OpKind::kSend);
  CHECK(ops[2].src == Space::kOutput);
  CHECK(ops[2].deps == std::vector<uint32_t>{1});
  CHECK(ops[2].connection == kOwnerFlows);
  CHECK(ops[3].kind == OpKind::kRecv);
  CHECK(ops[3].chunks == std::vector<ChunkIndex>{ChunkIndex(1)});
}

TEST_CASE("a plan of windows with a fault is rejected") {
  const uint32_t members = 3;
  const std::vector<Window> windows = {Window::all_reduce(members, 24, kElementBytes),
                                       Window::all_reduce(members, 24, kElementBytes)};
  WindowPlan plan = plan_of(windows, 16);
  RankPlan& rank = plan.whole.ranks[1];
  const auto [a, b] = two_sends(rank);
  SECTION("two sends on one connection have changed places") {
    std::swap(rank.ops[a].chunks, rank.ops[b].chunks);
    CHECK(rejected(plan).find("pairing") != std::string::npos);
  }
  SECTION("a message is on the connection of other owners") {
    rank.ops[a].connection ^= 1U;
    CHECK(rejected(plan).find("pairing") != std::string::npos);
  }
  SECTION("a message is on a connection that does not exist") {
    rank.ops[a].connection = plan.whole.plan.connection_count;
    CHECK(rejected(plan).find("there is no such connection") != std::string::npos);
  }
  SECTION("a result is sent before it is one") {
    for (RankPlan& each : plan.whole.ranks) {
      for (PlanOp& op : each.ops) {
        op.deps.clear();
      }
    }
    CHECK(rejected(plan).find("plan all_reduce ring: ") == 0);
  }
  SECTION("an input is added twice") {
    const auto adds = std::find_if(rank.ops.begin(), rank.ops.end(), [](const PlanOp& op) {
      return op.kind == OpKind::kRecvReduce;
    });
    REQUIRE(adds != rank.ops.end());
    adds->src = Space::kScratch;
    CHECK_FALSE(rejected(plan).empty());
  }
}

TEST_CASE("a block that is said to be another member's is rejected") {
  for (const WindowKind kind : {WindowKind::kAllGather, WindowKind::kReduceScatter}) {
    WindowPlan plan = plan_of({blocks_window(kind, 3, 4, 4, 4)}, 8);
    REQUIRE(plan.whole.plan.block_roles.size() == 1);
    BlockRole& role = plan.whole.plan.block_roles[0];
    auto& owner = kind == WindowKind::kAllGather ? role.from : role.to;
    CHECK(owner == GlobalRank(1));
    owner = GlobalRank(2);
    CHECK_FALSE(rejected(plan).empty());
    owner = GlobalRank(3);
    CHECK(rejected(plan).find("is no rank") != std::string::npos);
    plan.whole.plan.block_roles.clear();
    CHECK(rejected(plan).find("1 blocks in a world of 3") != std::string::npos);
    plan.whole.plan.block_roles.resize(2);
    CHECK(rejected(plan).find("2 roles of 1 blocks") != std::string::npos);
  }
}

TEST_CASE("windows that are no plan are refused") {
  CHECK(window_plan({}, 0).status().message().find("nothing moves") != std::string::npos);
  CHECK(window_plan({Window::all_reduce(2, 0, 4)}, 0).status().message().find("nothing moves") !=
        std::string::npos);
  CHECK(window_plan({Window::all_reduce(2, 1, 4), Window::all_reduce(3, 1, 4)}, 0)
            .status()
            .message()
            .find("window 1 of a rail of 3 members among windows of 2") != std::string::npos);
  CHECK(window_plan({Window::all_reduce(2, uint64_t{1} << 60U, 4)}, 8)
            .status()
            .message()
            .find("more than 65536 pieces among 2 members") != std::string::npos);
}
