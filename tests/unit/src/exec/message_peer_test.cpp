// Frames of a peer that breaks the rules, and the ordinary ones beside them, over a link that plays
// back what it is given.
#include "exec/message_peer.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "catch.hpp"
#include "has.hpp"
#include "silent_link.hpp"

using namespace ho;

namespace {

using Kind = MessagePeer::Kind;

class PlayedLink : public test::SilentLink {
 public:
  struct Message {
    Frame frame;
    std::vector<std::byte> payload;
  };
  std::deque<Message> incoming;
  std::vector<Frame> sent;

  Result<bool> try_send(const Frame& frame, std::span<const ConstBytes> /*payload*/) override {
    sent.push_back(frame);
    return true;
  }
  uint64_t released() override { return sent.size(); }
  Result<std::optional<Frame>> try_peek(bool /*awaited*/) override {
    return incoming.empty() ? std::nullopt : std::optional(incoming.front().frame);
  }
  Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override {
    REQUIRE(expected == incoming.front().frame);
    const size_t space = parts.empty() ? 0 : parts.front().size();
    REQUIRE(space == incoming.front().payload.size());
    if (space > 0) {
      std::memcpy(parts.front().data(), incoming.front().payload.data(), space);
    }
    incoming.pop_front();
    return true;
  }
};

struct Bench {
  PlayedLink link;
  PostedReceives receives;
  MessagePeer peer{{GlobalRank(0), GlobalRank(1), 0}, &link, &link};
  std::vector<Transfer*> ended;
  uint64_t order = 0;

  std::optional<RunError> step() {
    std::optional<RunError> error;
    for (bool moved = true; moved && !error;) {
      moved = false;
      error = peer.make_progress(receives, &ended, &moved);
    }
    return error;
  }
  std::optional<RunError> take(const Frame& frame) {
    link.incoming.push_back({frame, std::vector<std::byte>(frame.payload_bytes)});
    return step();
  }
  void post(Transfer& receive, std::vector<std::byte>& into) {
    receive.peer = GlobalRank(1);
    receive.tag = 5;
    receive.count = into.size();
    receive.into = into.data();
    receive.order = ++order;
    receives.post(receive);
  }
  void send(Transfer& transfer, const std::vector<std::byte>& data) {
    transfer.sends = true;
    transfer.peer = GlobalRank(1);
    transfer.tag = 5;
    transfer.count = data.size();
    transfer.data = data.data();
    peer.send(transfer);
  }
};

Frame frame_of(Kind kind, uint32_t number, uint64_t count, uint32_t payload_bytes) {
  Frame frame;
  frame.collective = kMessage;
  frame.phase = static_cast<uint8_t>(kind);
  frame.dtype = static_cast<uint8_t>(DType::kUint8);
  frame.op_index = 5;
  frame.sequence = number;
  frame.count = count;
  frame.payload_bytes = payload_bytes;
  return frame;
}

void check_refused(const std::optional<RunError>& error, const char* why) {
  REQUIRE(error.has_value());
  INFO(error->status.message());
  CHECK(error->status.code() == StatusCode::kProtocol);
  CHECK(has(error->status, "message from rank 1 to rank 0"));
  CHECK(has(error->status, why));
  CHECK(error->peer == GlobalRank(1));
}

}  // namespace

TEST_CASE("a message whose header does not fit is refused") {
  const auto refused = [](const auto& change, const char* why) {
    Bench bench;
    Frame frame = frame_of(Kind::kEager, 1, 100, 100);
    change(frame);
    check_refused(bench.take(frame), why);
    CHECK(bench.peer.memory_bytes() == 0);
  };
  refused([](Frame& frame) { frame.sequence = 2; }, "number 2 where 1 is next");
  refused([](Frame& frame) { frame.sequence = 0; }, "number 0 where 1 is next");
  refused([](Frame& frame) { frame.dtype = kDTypeCount; }, "does not exist");
  refused([](Frame& frame) { frame.count = 99; }, "100 bytes with it, 99 announced");
  refused([](Frame& frame) { frame.count = UINT64_MAX; }, "elements");
  refused([](Frame& frame) { frame.phase = 9; }, "unknown kind 9");
  refused([](Frame& frame) { frame.phase = 0; }, "unknown kind 0");
  refused([](Frame& frame) { frame.collective = 2; }, "another kind or communicator");
  refused([](Frame& frame) { frame.communicator = 7; }, "another kind or communicator");
  refused([](Frame& frame) { frame.phase = static_cast<uint8_t>(Kind::kClear); },
          "a control frame with a payload");
  refused([](Frame& frame) { frame.phase = static_cast<uint8_t>(Kind::kRequest); },
          "100 bytes with it, 100 announced");
}

TEST_CASE("more messages than may be held are refused") {
  Bench bench;
  constexpr uint32_t kBytes = 100000;
  for (uint32_t number = 1; number <= 10; ++number) {
    REQUIRE_FALSE(bench.take(frame_of(Kind::kEager, number, kBytes, kBytes)).has_value());
  }
  CHECK(bench.peer.memory_bytes() == 10 * kBytes);
  check_refused(bench.take(frame_of(Kind::kEager, 11, kBytes, kBytes)), "that may be held");
  CHECK(bench.peer.memory_bytes() == 10 * kBytes);
}

TEST_CASE("more announced messages than are allowed are refused") {
  Bench bench;
  for (uint32_t number = 1; number <= MessagePeer::kMaxRequests; ++number) {
    REQUIRE_FALSE(bench.take(frame_of(Kind::kRequest, number, 9, 0)).has_value());
  }
  check_refused(bench.take(frame_of(Kind::kRequest, uint32_t{MessagePeer::kMaxRequests} + 1, 9, 0)),
                "messages announced");
}

TEST_CASE("data is taken only of a message that was asked for, in order and not beyond its end") {
  const auto refused = [](Frame frame, const char* why) {
    Bench bench;
    Transfer receive;
    std::vector<std::byte> into(100);
    bench.post(receive, into);
    REQUIRE_FALSE(bench.take(frame_of(Kind::kRequest, 1, 100, 0)).has_value());
    REQUIRE(bench.link.sent.size() == 1);
    CHECK(bench.link.sent[0].phase == static_cast<uint8_t>(Kind::kClear));
    REQUIRE_FALSE(bench.take(frame_of(Kind::kData, 1, 0, 60)).has_value());
    check_refused(bench.take(frame), why);
    CHECK(bench.ended.empty());
  };
  refused(frame_of(Kind::kData, 2, 0, 10), "which was not asked for");
  refused(frame_of(Kind::kData, 1, 60, 41), "of which 60 of 100 are here");
  refused(frame_of(Kind::kData, 1, 0, 10), "10 bytes at 0");
  refused(frame_of(Kind::kData, 1, 60, 0), "0 bytes at 60");
}

TEST_CASE("an announced message ends with its last piece") {
  Bench bench;
  Transfer receive;
  std::vector<std::byte> into(100);
  bench.post(receive, into);
  REQUIRE_FALSE(bench.take(frame_of(Kind::kRequest, 1, 100, 0)).has_value());
  REQUIRE_FALSE(bench.take(frame_of(Kind::kData, 1, 0, 60)).has_value());
  CHECK(bench.ended.empty());
  REQUIRE_FALSE(bench.take(frame_of(Kind::kData, 1, 60, 40)).has_value());
  CHECK(bench.ended == std::vector<Transfer*>{&receive});
  check_refused(bench.take(frame_of(Kind::kData, 1, 100, 1)), "which was not asked for");
}

TEST_CASE("a clear that nobody asked for is refused, and a second one") {
  Bench bench;
  Transfer transfer;
  const std::vector<std::byte> data(MessagePeer::kHeldBytes);
  bench.send(transfer, data);
  REQUIRE_FALSE(bench.step().has_value());
  REQUIRE(bench.link.sent.size() == 1);
  CHECK(bench.link.sent[0].phase == static_cast<uint8_t>(Kind::kRequest));
  SECTION("a clear of another number is refused") {
    check_refused(bench.take(frame_of(Kind::kClear, 2, 0, 0)), "asks for message 2");
  }
  SECTION("a second clear is refused as well") {
    REQUIRE_FALSE(bench.take(frame_of(Kind::kClear, 1, 0, 0)).has_value());
    CHECK(bench.ended == std::vector<Transfer*>{&transfer});
    check_refused(bench.take(frame_of(Kind::kClear, 1, 0, 0)), "asks for message 1");
  }
}

TEST_CASE("no more is given back than is out") {
  Bench bench;
  check_refused(bench.take(frame_of(Kind::kCredit, 0, 1, 0)), "1 bytes given back, 0 are out");
}

TEST_CASE("credit that is given back lets messages go with their data again") {
  Bench bench;
  const std::vector<std::byte> data(600000);
  Transfer first;
  Transfer second;
  Transfer third;
  bench.send(first, data);
  bench.send(second, data);
  REQUIRE_FALSE(bench.step().has_value());
  REQUIRE_FALSE(
      bench.take(frame_of(Kind::kCredit, 0, 600000 + MessagePeer::kMessageCost, 0)).has_value());
  bench.send(third, data);
  REQUIRE_FALSE(bench.step().has_value());
  REQUIRE(bench.link.sent.size() == 3);
  CHECK(bench.link.sent[0].phase == static_cast<uint8_t>(Kind::kEager));
  CHECK(bench.link.sent[1].phase == static_cast<uint8_t>(Kind::kRequest));
  CHECK(bench.link.sent[2].phase == static_cast<uint8_t>(Kind::kEager));
}
