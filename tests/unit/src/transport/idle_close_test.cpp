// What both ends of a link say before an idle one is closed, and what they may not say.
#include "transport/tcp/idle_close.hpp"

#include "catch.hpp"

namespace ho::tcp {
namespace {

using Then = IdleClose::Then;

// One end of a link, with what it counts.
struct End {
  explicit End(bool begins) : close(begins) {}

  // The next frame that it has not written, as the peer reads it.
  Frame write() {
    const std::span<std::byte> bytes = close.unwritten();
    REQUIRE(bytes.size() >= kFrameBytes);
    const auto frame = decode(std::span<const std::byte, kFrameBytes>(bytes.first<kFrameBytes>()));
    REQUIRE(frame.ok());
    close.wrote(kFrameBytes);
    return *frame;
  }
  Then read(const Frame& frame) {
    const auto then = close.on_frame(frame, messages);
    REQUIRE(then.ok());
    return *then;
  }
  std::string refuses(const Frame& frame) {
    const auto then = close.on_frame(frame, messages);
    REQUIRE_FALSE(then.ok());
    CHECK(then.status().code() == StatusCode::kProtocol);
    return then.status().message();
  }

  IdleClose close;
  IdleClose::Messages messages;
};

struct Ends {
  End lower = End(true);
  End higher = End(false);

  // The lower end has sent three messages and received two; `arrived` of the three are at the peer.
  explicit Ends(uint64_t arrived) {
    lower.messages.sent = 3;
    lower.messages.received = 2;
    higher.messages.sent = 2;
    higher.messages.received = arrived;
  }
};

Frame of_type(Frame::Type type) {
  Frame frame;
  frame.type = type;
  return frame;
}

}  // namespace

TEST_CASE("a request is accepted where both ends count the same messages") {
  Ends ends(3);
  ends.lower.close.begin(ends.lower.messages);
  CHECK(ends.lower.close.closing());
  CHECK_FALSE(ends.lower.close.may_begin());
  CHECK(ends.higher.read(ends.lower.write()) == Then::kAnswer);
  CHECK(ends.higher.close.closing());
  CHECK(ends.lower.read(ends.higher.write()) == Then::kClose);
  for (End* end : {&ends.lower, &ends.higher}) {
    end->close.on_closed();
    CHECK_FALSE(end->close.closing());
    CHECK(end->close.may_begin());
  }
}

TEST_CASE("a request is refused while a message is under way") {
  Ends ends(2);
  SECTION("the message goes to the peer") {}
  SECTION("from the peer, in part") {
    ends.higher.messages.received = 3;
    ends.higher.messages.sending = true;
  }
  SECTION("from the peer, all of it") {
    ends.higher.messages.received = 3;
    ends.higher.messages.sent = 3;
  }
  ends.lower.close.begin(ends.lower.messages);
  CHECK(ends.higher.read(ends.lower.write()) == Then::kAnswer);
  CHECK_FALSE(ends.higher.close.closing());
  CHECK(ends.lower.close.answer_due());
  CHECK(ends.lower.read(ends.higher.write()) == Then::kGoOn);
  CHECK_FALSE(ends.lower.close.closing());
  CHECK_FALSE(ends.lower.close.answer_due());
  CHECK_FALSE(ends.lower.close.may_begin());  // the peer is busy
  ends.lower.close.tick();
  CHECK(ends.lower.close.may_begin());
}

TEST_CASE("after a message that crossed the request only a refusal may come") {
  Ends ends(3);
  ends.lower.close.begin(ends.lower.messages);
  CHECK(ends.lower.close.on_message_here());
  CHECK_FALSE(ends.lower.close.closing());  // messages leave again
  CHECK(ends.lower.close.answer_due());
  CHECK_FALSE(ends.lower.close.on_message_here());
  SECTION("a refusal ends it") {
    CHECK(ends.lower.read(of_type(Frame::Type::kCloseRefuse)) == Then::kGoOn);
    CHECK_FALSE(ends.lower.close.answer_due());
  }
  SECTION("an acceptance is no answer") {
    CHECK(ends.lower.refuses(of_type(Frame::Type::kCloseAccept)) ==
          "close frame from the peer: an acceptance after a message");
  }
}

TEST_CASE("a hint makes the other end begin, unless a message passes first") {
  Ends ends(3);
  ends.higher.close.begin(ends.higher.messages);
  CHECK_FALSE(ends.higher.close.closing());
  CHECK(ends.higher.close.likely());
  CHECK(ends.lower.read(ends.higher.write()) == Then::kLook);
  CHECK_FALSE(ends.higher.close.may_begin());  // one is enough
  CHECK(ends.lower.close.hint_came());
  SECTION("no message passes meanwhile") {
    ends.lower.close.begin(ends.lower.messages);
    CHECK(ends.higher.read(ends.lower.write()) == Then::kAnswer);
    CHECK(ends.lower.read(ends.higher.write()) == Then::kClose);
  }
  SECTION("a message passes meanwhile") {
    ends.lower.close.on_message_through();
    ends.higher.close.on_message_through();
    CHECK_FALSE(ends.lower.close.hint_came());
    CHECK(ends.higher.close.may_begin());
  }
}

TEST_CASE("a hint counts as a link that closes soon for two looks") {
  IdleClose higher(false);
  higher.begin({});
  higher.tick();
  CHECK(higher.likely());
  higher.tick();
  CHECK_FALSE(higher.likely());
}

TEST_CASE("a hint that meets a request changes nothing") {
  Ends ends(3);
  ends.higher.close.begin(ends.higher.messages);
  ends.lower.close.begin(ends.lower.messages);
  CHECK(ends.lower.read(ends.higher.write()) == Then::kLook);
  CHECK_FALSE(ends.lower.close.hint_came());
  CHECK(ends.higher.read(ends.lower.write()) == Then::kAnswer);
  CHECK(ends.lower.read(ends.higher.write()) == Then::kClose);
}

TEST_CASE("close frames that a peer may not send are refused") {
  End lower(true);
  End higher(false);
  const std::string start = "close frame from the peer: ";
  Frame with_payload = of_type(Frame::Type::kCloseHint);
  with_payload.payload_bytes = 1;
  CHECK(lower.refuses(with_payload) == start + "it has a payload");
  CHECK(lower.refuses(of_type(Frame::Type::kCloseRequest)) == start + "an unexpected request");
  CHECK(higher.refuses(of_type(Frame::Type::kCloseHint)) ==
        start + "a hint from the rank that could close the link itself");
  for (const Frame::Type type : {Frame::Type::kCloseAccept, Frame::Type::kCloseRefuse}) {
    CHECK(lower.refuses(of_type(type)) == start + "an answer without a request");
    CHECK(higher.refuses(of_type(type)) == start + "an answer without a request");
  }
  higher.messages.more_behind = true;
  CHECK(higher.refuses(of_type(Frame::Type::kCloseRequest)) ==
        start + "a message behind a request that no message crossed");
  higher.messages.more_behind = false;
  CHECK(higher.read(of_type(Frame::Type::kCloseRequest)) == Then::kAnswer);
  CHECK(higher.refuses(of_type(Frame::Type::kCloseRequest)) == start + "an unexpected request");
}

}  // namespace ho::tcp
