// The connections of a link, apart from what its messages say: over socket pairs, at the end that
// the peer connects to. Dialling, pacing and silent peers: tcp_test, tcp_refusal_test,
// tcp_silence_test.
#include "transport/tcp/link_connections.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "conformance.hpp"

namespace ho::tcp {
namespace {

// Rank 1, to which rank 0 opens its links.
class AwaitingEnd {
 public:
  explicit AwaitingEnd(uint32_t connections) : peers_(connections) {
    context_.options.self = GlobalRank(1);
    context_.options.world_size = 2;
    context_.options.connections_per_link = connections;
    context_.options.rails.resize(1);
    context_.options.rails[0].address = "10.1.0.2";
    context_.options.rails[0].name = "rail0";
    context_.peers = {{{"10.1.0.1"}, 7}, {{"10.1.0.2"}, 8}};
    connections_.emplace(context_, LinkKey{GlobalRank(0), RailIndex(0), 0, 0}, event_);
  }

  void attach(uint8_t connection) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    peers_.at(connection).reset(ends[1]);
    connections_->attach(claim_of(connection), std::make_unique<Socket>(Fd(ends[0])));
  }
  [[nodiscard]] bool can_attach(uint8_t connection) const {
    return connections_->can_attach(claim_of(connection));
  }
  // What the peer has got on one of them, as far as it is there.
  std::vector<std::byte> got(uint8_t connection) {
    std::vector<std::byte> bytes(1 << 16);
    const ssize_t size = ::recv(peers_.at(connection).get(), bytes.data(), bytes.size(), 0);
    bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return bytes;
  }
  LinkConnections& connections() { return *connections_; }
  [[nodiscard]] bool event() const { return event_; }
  [[nodiscard]] uint32_t open_connections() const { return context_.open_connections; }

 private:
  [[nodiscard]] LinkClaim claim_of(uint8_t connection) const {
    LinkClaim claim;
    claim.connection = connection;
    claim.connection_count = static_cast<uint8_t>(peers_.size());
    return claim;
  }

  std::vector<Fd> peers_;
  Context context_;
  bool event_ = false;
  std::optional<LinkConnections> connections_;
};

OutgoingMessage outgoing(uint32_t payload_bytes) {
  Frame frame;
  frame.payload_bytes = payload_bytes;
  return {encode(frame), 0, kFrameBytes + payload_bytes};
}

}  // namespace

TEST_CASE("a link's connections are open once each of them stands, and again after a close") {
  AwaitingEnd end(2);
  CHECK_FALSE(end.connections().dials());
  CHECK_FALSE(end.can_attach(2));
  for (uint32_t round = 0; round < 2; ++round) {
    CHECK(end.connections().to_string() ==
          std::string("tcp 10.1.0.2 (rail0) -> 10.1.0.1, ") +
              (round == 0 ? "waiting for rank 0 to connect" : "closed while idle"));
    REQUIRE(end.can_attach(1));
    end.attach(1);
    CHECK_FALSE(end.can_attach(1));
    CHECK_FALSE(end.connections().open());
    end.attach(0);
    CHECK(end.connections().open());
    CHECK(end.event());
    CHECK(end.open_connections() == 2);
    CHECK(end.connections().to_string() == "tcp 10.1.0.2 (rail0) -> 10.1.0.1, connected");
    CHECK_FALSE(end.can_attach(0));
    end.connections().close();
    CHECK_FALSE(end.connections().may_dial_again());  // the peer does
    CHECK(end.open_connections() == 0);
  }
}

TEST_CASE("of connections with equal weights message k leaves on number k modulo their count") {
  AwaitingEnd end(3);
  for (uint8_t i = 0; i < 3; ++i) {
    end.attach(i);
  }
  for (uint64_t number = 0; number < 7; ++number) {
    OutgoingMessage message = outgoing(0);
    const auto written = end.connections().write(number, message, {});
    REQUIRE(written.ok());
    REQUIRE(*written);
    for (uint8_t i = 0; i < 3; ++i) {
      CHECK(end.got(i).size() == (i == number % 3 ? kFrameBytes : 0));
    }
  }
}

TEST_CASE("a message that does not fit goes on where it stopped") {
  AwaitingEnd end(1);
  end.attach(0);
  const std::vector<std::byte> payload = conformance::pattern(5, 4 << 20);
  const ConstBytes part(payload);
  OutgoingMessage message = outgoing(static_cast<uint32_t>(payload.size()));
  std::vector<std::byte> got;
  bool whole = false;
  while (!whole) {
    const auto written = end.connections().write(0, message, std::span(&part, 1));
    REQUIRE(written.ok());
    whole = *written;
    const size_t before = got.size();
    for (auto more = end.got(0); !more.empty(); more = end.got(0)) {
      got.insert(got.end(), more.begin(), more.end());
    }
    REQUIRE(got.size() > before);
    end.connections().of_message(0).socket().writable = true;  // as its edge says
  }
  REQUIRE(got.size() == message.bytes);
  CHECK(std::equal(got.begin(), got.begin() + kFrameBytes, message.header.begin()));
  CHECK(std::equal(payload.begin(), payload.end(), got.begin() + kFrameBytes));
}

}  // namespace ho::tcp
