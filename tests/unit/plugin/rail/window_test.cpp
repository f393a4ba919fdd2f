// The order of messages on a rail's ring: what one member sends on a stream the next receives, in
// the same order; every block reaches (or takes up) every member exactly once; streams never wait
// for each other in a circle, whenever members enter their calls.
#include "core/rail/window.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "catch.hpp"

using namespace ho::plugin::rail;

namespace {

constexpr uint64_t kPieceBytes = 8;

class Entered final : public EnteredWindows {
 public:
  explicit Entered(std::vector<Window> windows)
      : windows_(std::move(windows)), end_(windows_.size()) {}
  [[nodiscard]] uint64_t first() const override { return first_; }
  [[nodiscard]] uint64_t end() const override { return end_; }
  [[nodiscard]] const Window& window(uint64_t operation) const override {
    return windows_.at(operation);
  }
  void enter_only(uint64_t count) { end_ = count; }
  void complete_before(uint64_t first) { first_ = first; }
  bool enter_one_more() {
    end_ += end_ < windows_.size() ? 1U : 0U;
    return end_ < windows_.size();
  }

 private:
  std::vector<Window> windows_;
  uint64_t first_ = 0;
  uint64_t end_;
};

Window part(WindowKind kind, uint32_t members, uint64_t block, uint64_t offset, uint64_t bytes) {
  Window window;
  window.kind = kind;
  window.members = members;
  window.block_bytes = block;
  window.offset = offset;
  window.byte_count = bytes;
  return window;
}

// Windows as NCCL cuts them and as it does not: in one block, over an edge, over all, empty.
std::vector<Window> windows_for(uint32_t members) {
  std::vector<Window> windows;
  for (const WindowKind kind : {WindowKind::kAllGather, WindowKind::kReduceScatter}) {
    for (const uint64_t block : {uint64_t{20}, uint64_t{8}, uint64_t{1}}) {
      const uint64_t total = block * members;
      windows.push_back(part(kind, members, block, 0, total));
      windows.push_back(part(kind, members, block, 0, std::min<uint64_t>(5, total)));
      windows.push_back(part(kind, members, block, total / 2, total - total / 2));
      windows.push_back(part(kind, members, block, total, 0));
    }
  }
  for (const uint64_t count : {0U, 1U, 2U, 3U, 7U, 16U, 40U}) {
    windows.push_back(Window::all_reduce(members, count, 4));
  }
  return windows;
}

const std::vector<Walk::Flow>& all_flows() {
  static const std::vector<Walk::Flow> flows = [] {
    std::vector<Walk::Flow> made;
    for (const FlowKind kind : {FlowKind::kReduction, FlowKind::kBroadcast}) {
      for (uint32_t index = 0; index < kOwnerFlows; ++index) {
        made.push_back({kind, index});
      }
    }
    return made;
  }();
  return flows;
}

std::vector<Message> walk(Walk::Flow flow, Walk::Side side, uint32_t self, const Entered& entered) {
  std::vector<Message> messages;
  Walk walk(flow, side, self, kPieceBytes);
  while (const auto message = walk.next(entered)) {
    messages.push_back(*message);
    walk.advance();
  }
  return messages;
}

// One member on one stream, as an executor would drive it.
struct Runner {
  Walk sends;
  Walk receives;
  size_t received = 0;  // messages, also of the link before it
  size_t sent = 0;
  std::vector<Position> have;  // places received, in order
};

bool has(const std::vector<Position>& indices, const Position& position) {
  return std::find(indices.begin(), indices.end(), position) != indices.end();
}

}  // namespace

TEST_CASE("segments divide a window among the owners of its bytes") {
  const Window full = part(WindowKind::kAllGather, 3, 10, 0, 30);
  CHECK(full.segment(1).offset == 10);
  CHECK(full.segment(1).byte_count == 10);
  const Window middle = part(WindowKind::kReduceScatter, 3, 10, 8, 7);
  CHECK(middle.segment(0).offset == 0);
  CHECK(middle.segment(0).byte_count == 2);
  CHECK(middle.segment(1).offset == 2);
  CHECK(middle.segment(1).byte_count == 5);
  CHECK(middle.segment(2).byte_count == 0);
  const Window reduced = Window::all_reduce(3, 8, 4);
  CHECK(reduced.segment(0).byte_count == 12);
  CHECK(reduced.segment(1).offset == 12);
  CHECK(reduced.segment(2).offset == 24);
  CHECK(reduced.segment(2).byte_count == 8);
}

TEST_CASE("what a member sends is what the next receives, in the same order") {
  for (uint32_t members = 2; members <= 9; ++members) {
    const Entered entered(windows_for(members));
    for (const Walk::Flow& flow : all_flows()) {
      for (uint32_t self = 0; self < members; ++self) {
        const auto sent = walk(flow, Walk::Side::kSends, self, entered);
        const auto received = walk(flow, Walk::Side::kReceives, (self + 1) % members, entered);
        INFO("members " << members << " stream " << flow.index << " member " << self);
        REQUIRE(sent.size() == received.size());
        for (size_t i = 0; i < sent.size(); ++i) {
          CHECK(sent[i].position == received[i].position);
          CHECK(sent[i].bytes.offset == received[i].bytes.offset);
          CHECK(sent[i].bytes.byte_count == received[i].bytes.byte_count);
          CHECK(sent[i].hop + 1 == received[i].hop);
        }
      }
    }
  }
}

TEST_CASE("every byte of every block crosses all links but one, once per flow") {
  for (uint32_t members = 1; members <= 6; ++members) {
    const std::vector<Window> windows = windows_for(members);
    for (const Window& window : windows) {
      const Entered entered({window});
      std::map<std::pair<int, uint32_t>, uint64_t> crossed;  // by flow: bytes over links
      uint64_t messages = 0;
      for (uint32_t self = 0; self < members; ++self) {
        uint64_t own = 0;
        for (const Walk::Flow& flow : all_flows()) {
          const auto sent = walk(flow, Walk::Side::kSends, self, entered);
          own += sent.size() + walk(flow, Walk::Side::kReceives, self, entered).size();
          for (const Message& message : sent) {
            crossed[{static_cast<int>(flow.kind), message.position.owner}] +=
                message.bytes.byte_count;
          }
        }
        CHECK(own == message_count(window, self, kPieceBytes));
        messages += own;
      }
      CHECK(messages % 2 == 0);
      for (const FlowKind kind : {FlowKind::kReduction, FlowKind::kBroadcast}) {
        for (uint32_t owner = 0; owner < members; ++owner) {
          const uint64_t expected =
              window.has(kind) ? window.segment(owner).byte_count * (members - 1) : 0;
          CHECK(crossed[{static_cast<int>(kind), owner}] == expected);
        }
      }
    }
  }
}

TEST_CASE("pieces are as wanted, or small ones for short flows") {
  const Window window = Window::all_reduce(4, uint64_t{1} << 20U, 4);
  CHECK(piece_bytes_of(window, 1, 8) == 8);
  CHECK(piece_bytes_of(window, uint64_t{1} << 40U, 8) == 8);
  CHECK(piece_bytes_of(window, 0, 0) == kMinPieceBytes);
  CHECK(piece_bytes_of(window, 1, 0) == kMinPieceBytes);
  CHECK(piece_bytes_of(window, UINT64_MAX, 0) == kMaxPieceBytes);
}

TEST_CASE("a flow among many is one or two pieces, a flow alone one for each member") {
  const auto piece = [](uint64_t flow_bytes, uint32_t members, uint64_t flows) {
    const uint64_t bytes = flow_bytes * flows;
    return piece_bytes_of(part(WindowKind::kAllGather, members, bytes, 0, bytes), flow_bytes, 0);
  };
  CHECK(piece(2 * kMinPieceBytes - 1, 4, 4) == kMinPieceBytes);
  CHECK(piece(2 * kMinPieceBytes, 4, 4) == 2 * kMinPieceBytes);
  CHECK(piece(2 * kMinPieceBytes + 8, 4, 4) == kMinPieceBytes);
  CHECK(piece(4 * kMinPieceBytes, 4, 4) == 2 * kMinPieceBytes);
  CHECK(piece(2 * kMaxPieceBytes, 4, 4) == kMaxPieceBytes);
  CHECK(piece(2 * kMaxPieceBytes, 4, 2) == kMaxPieceBytes);
  CHECK(piece(2 * kMaxPieceBytes, 4, 1) == kMaxPieceBytes / 2);
  CHECK(piece(4 * kMinPieceBytes, 4, 1) == kMinPieceBytes);
  CHECK(piece(4 * kMaxPieceBytes, 4, 1) == kMaxPieceBytes);
  CHECK(piece(2 * kMaxPieceBytes, 2, 1) == kMaxPieceBytes);
  CHECK(piece(2 * kMaxPieceBytes, 100, 1) == kMinPieceBytes);
}

TEST_CASE("two members exchange small windows whole, in one hop") {
  const uint64_t most = kMaxExchangeBytes / 4;
  for (const uint64_t count : {uint64_t{1}, uint64_t{kMaxPieceBytes / 4}, most, most + 1}) {
    const Window window = Window::all_reduce(2, count, 4);
    const bool exchanged = count <= most;
    INFO(count);
    CHECK(window.exchanges() == exchanged);
    CHECK(window.has(FlowKind::kReduction));
    CHECK(window.has(FlowKind::kBroadcast) == !exchanged);
    const Entered entered({window});
    for (uint32_t self = 0; exchanged && self < 2; ++self) {
      // To the other, on the stream of what it owns, all that it needs.
      Walk sends({FlowKind::kReduction, 1 - self}, Walk::Side::kSends, self, 0);
      uint64_t sent = 0;
      for (auto message = sends.next(entered); message; message = sends.next(entered)) {
        CHECK(message->bytes.offset == sent);
        sent += message->bytes.byte_count;
        sends.advance();
      }
      CHECK(sent == window.byte_count);
      const uint64_t pieces = (window.byte_count - 1) / kMaxPieceBytes + 1;
      CHECK(message_count(window, self, 0) == 2 * pieces);
    }
  }
  CHECK_FALSE(Window::all_reduce(3, 1, 4).exchanges());
  CHECK_FALSE(part(WindowKind::kAllGather, 2, 8, 0, 16).exchanges());
}

TEST_CASE("a window whose blocks have other shares of it is cut into pieces block by block") {
  // The end of block 0, all of block 1.
  const uint64_t block = 3 * kMaxPieceBytes;
  const Window window = part(WindowKind::kAllGather, 2, block, block - 1000, 1000 + block);
  const Entered entered({window});
  std::vector<uint64_t> sizes;
  for (const Walk::Flow& flow : all_flows()) {
    for (uint32_t self = 0; self < 2; ++self) {
      Walk sends(flow, Walk::Side::kSends, self, 0);
      while (const auto message = sends.next(entered)) {
        sizes.push_back(message->bytes.byte_count);
        sends.advance();
      }
    }
  }
  CHECK(sizes == std::vector<uint64_t>{1000, kMaxPieceBytes, kMaxPieceBytes, kMaxPieceBytes});
  CHECK(message_count(window, 0, 0) == 4);
}

TEST_CASE("calls that are complete are passed over") {
  Entered entered({Window::all_reduce(2, 8, 4), Window::all_reduce(2, 8, 4)});
  entered.complete_before(1);
  Walk walk({FlowKind::kReduction, 0}, Walk::Side::kReceives, 0, kPieceBytes);
  const auto message = walk.next(entered);
  REQUIRE(message.has_value());
  CHECK(message->position.operation == 1);
}

// Members enter calls at random times and move one random stream at a time. Whatever the order, all
// messages move in the end.
TEST_CASE("no stream waits in a circle") {
  for (uint32_t members = 2; members <= 6; ++members) {
    const std::vector<Window> windows = windows_for(members);
    std::mt19937 random(members);
    std::vector<std::unique_ptr<Entered>> entered;
    std::map<std::pair<uint32_t, size_t>, Runner> runners;
    for (uint32_t self = 0; self < members; ++self) {
      entered.push_back(std::make_unique<Entered>(windows));
      entered.back()->enter_only(0);
      for (size_t flow = 0; flow < all_flows().size(); ++flow) {
        runners.emplace(std::pair{self, flow},
                        Runner{Walk(all_flows()[flow], Walk::Side::kSends, self, kPieceBytes),
                               Walk(all_flows()[flow], Walk::Side::kReceives, self, kPieceBytes),
                               0,
                               0,
                               {}});
      }
    }
    const auto step = [&](uint32_t self, size_t flow) {
      Runner& runner = runners.at({self, flow});
      const Runner& previous = runners.at({(self + members - 1) % members, flow});
      bool moved = false;
      if (const auto in = runner.receives.next(*entered[self]);
          in && runner.received < previous.sent) {
        runner.have.push_back(in->position);
        ++runner.received;
        runner.receives.advance();
        moved = true;
      }
      const auto out = runner.sends.next(*entered[self]);
      if (!out) {
        return moved;
      }
      const bool reduces = all_flows()[flow].kind == FlowKind::kReduction;
      const bool spreads_result =
          !reduces && out->hop == 0 &&
          windows.at(out->position.operation).kind == WindowKind::kAllReduce;
      const bool ready = spreads_result
                             ? has(runners.at({self, flow - kOwnerFlows}).have, out->position)
                             : out->hop == 0 || has(runner.have, out->position);
      if (ready) {
        ++runner.sent;
        runner.sends.advance();
      }
      return moved || ready;
    };
    bool any = true;
    while (any) {
      any = false;
      for (uint32_t turn = 0; turn < 64; ++turn) {
        (void)step(static_cast<uint32_t>(random() % members), random() % all_flows().size());
        if (random() % 4 == 0) {
          entered[random() % members]->enter_one_more();
        }
      }
      for (uint32_t self = 0; self < members; ++self) {
        any = entered[self]->enter_one_more() || any;
        for (size_t flow = 0; flow < all_flows().size(); ++flow) {
          any = step(self, flow) || any;
        }
      }
    }
    for (auto& [key, runner] : runners) {
      INFO("member " << key.first << " stream " << key.second);
      CHECK_FALSE(runner.sends.next(*entered[key.first]).has_value());
      CHECK_FALSE(runner.receives.next(*entered[key.first]).has_value());
    }
  }
}
