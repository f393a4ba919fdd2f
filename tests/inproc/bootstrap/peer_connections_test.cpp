// The coordinator's connections to ranks over socket pairs, and what is sent over them.
#include "bootstrap/control/peer_connections.hpp"

#include "bootstrap/control/gathers.hpp"
#include "catch.hpp"
#include "peer_ends.hpp"

namespace ho::test {
namespace {

constexpr uint32_t kPeerRanks = 3;

TEST_CASE("what is queued for a rank leaves with the next flush of all") {
  PeerEnds peers(kPeerRanks);
  peers.connections.queue(1, wire::Type::kLeaveNotice, 0, nullptr);
  CHECK(peers.types_at(1).empty());
  peers.connections.flush_all();
  CHECK(peers.types_at(1) == std::vector{wire::Type::kLeaveNotice});
  peers.connections.drop(2);
  CHECK(peers.connections.count() == 2);
  peers.connections.send_to_all(wire::Type::kShutdown, nullptr);
  CHECK(peers.types_at(0) == std::vector{wire::Type::kShutdown});
  CHECK(peers.types_at(1) == std::vector{wire::Type::kShutdown});
}

TEST_CASE("a rank that does not read is given up once, and others are served") {
  PeerEnds peers(kPeerRanks);
  const auto body = ControlConnection::body_of(wire::Buffer(size_t{1} << 20U));
  for (size_t sent = 0; sent < PeerConnections::kMaxHeldBytes + 4 * body->size();
       sent += body->size()) {
    peers.connections.send(2, wire::Type::kGathered, 1, body);
  }
  CHECK(peers.connections.take_overfull() == std::vector<uint32_t>{2});
  CHECK(peers.connections.take_overfull().empty());
  const size_t unsent = peers.connections.of(2).unsent_bytes();
  peers.connections.send(2, wire::Type::kGathered, 1, body);
  CHECK(peers.connections.of(2).unsent_bytes() == unsent);
  peers.connections.send_if_read(1, wire::Type::kStateQuery, 0, nullptr);
  CHECK(peers.types_at(1) == std::vector{wire::Type::kStateQuery});
}

TEST_CASE("a rank that reads all and counts nothing is given up") {
  constexpr size_t kEnough = 4200;
  PeerEnds peers(kPeerRanks, true);
  const auto body = ControlConnection::body_of(wire::Buffer(size_t{1} << 14U));
  size_t sent = 0;
  size_t read = 0;
  for (; !peers.connections.of(2).has_output() && sent < kEnough; ++sent) {
    peers.connections.send(2, wire::Type::kGathered, 1, body);
    read += peers.types_at(2).size();
    if (!peers.connections.take_overfull().empty()) {
      break;
    }
  }
  CHECK(read + peers.types_at(2).size() == sent);
  CHECK(sent > PeerConnections::kMaxHeldBytes / body->size() - 100);
  CHECK(sent < kEnough);
}

TEST_CASE("a complete gather is answered with an error where a member goes before the answer") {
  PeerEnds peers(kPeerRanks);
  Gathers gathers(peers.connections, kPeerRanks);
  const bool goes = GENERATE(false, true);
  for (uint32_t rank = 0; rank < kPeerRanks; ++rank) {
    gathers.add({rank, 7}, {.tag = "ready", .timeout_ms = 1000, .members = {}, .blob = {}}, {});
  }
  CHECK(peers.types_at(0).empty());
  if (goes) {
    gathers.end_of(2, {StatusCode::kPeerLost, "rank 2 is gone"});
  }
  gathers.answer_complete();
  const auto answer = goes ? wire::Type::kGatherFailed : wire::Type::kGathered;
  CHECK(peers.types_at(0) == std::vector{answer});
  CHECK(peers.types_at(1) == std::vector{answer});
}

}  // namespace
}  // namespace ho::test
