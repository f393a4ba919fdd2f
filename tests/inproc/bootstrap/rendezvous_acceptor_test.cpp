// How a rendezvous ends, seen by rank 0's own end: the others' way in is control_plane_test's.
#include "bootstrap/control/rendezvous_acceptor.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>

#include "catch.hpp"
#include "must_have.hpp"

namespace ho::test {
namespace {

constexpr Deadline kEnd{std::chrono::seconds(100)};

struct Entry {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  PeerConnections connections;
  int ended = 0;
  std::unique_ptr<ControlConnection> own;  // where rank 0 reads
  RendezvousAcceptor acceptor;             // last: it is made from the above

  explicit Entry(uint32_t world_size)
      : connections(epoll.get(), world_size),
        acceptor(setup(world_size), epoll.get(), connections) {
    REQUIRE(acceptor.open().ok());
  }
  static wire::RankClaim claim(uint32_t rank, uint32_t world_size) {
    return {.rank = rank,
            .world_size = world_size,
            .pid = 100 + rank,
            .timeout_ms = UINT32_MAX,
            .host = "node"};
  }
  RendezvousAcceptor::Setup setup(uint32_t world_size) {
    std::array<int, 2> pair{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
    own = std::make_unique<ControlConnection>(Fd(pair[1]));
    RendezvousAcceptor::Setup setup;
    setup.world_size = world_size;
    setup.key = JobKey::none(false);
    setup.own_end = Fd(pair[0]);
    setup.own = claim(0, world_size);
    setup.address = "tcp://node:4000";
    setup.job_id = 77;
    setup.deadline = kEnd;
    setup.on_ended = [this] { ++ended; };
    return setup;
  }
  bool step(Deadline now) {
    return acceptor.step(now, [](Deadline) { return true; });
  }
  wire::Message heard() {
    REQUIRE(own->read_some().ok());
    const auto message = must_have(own->next());
    REQUIRE(message.has_value());
    return *message;
  }
  bool heard_nothing() {
    REQUIRE(own->read_some().ok());
    return !must_have(own->next()).has_value();
  }
};

}  // namespace

TEST_CASE("a world of one is complete at once, and welcome") {
  Entry entry(1);
  CHECK_FALSE(entry.acceptor.over());
  CHECK(entry.acceptor.finish());
  CHECK(entry.acceptor.over());
  CHECK(entry.ended == 1);
  const wire::Message message = entry.heard();
  REQUIRE(message.header.type == wire::Type::kWelcome);
  const auto welcome = must_have(wire::decode<wire::Welcome>(message.body));
  CHECK(welcome.job_id == 77);
  CHECK(welcome.coordinator == "rank 0 (node, pid 100)");
  CHECK_FALSE(entry.step(kEnd));  // it is complete once
  entry.acceptor.close();
  CHECK(entry.ended == 1);
}

TEST_CASE("where not all have come by the deadline those who have are told who is missing") {
  Entry entry(2);
  CHECK_FALSE(entry.step(kEnd - std::chrono::seconds(1)));
  CHECK(entry.heard_nothing());
  CHECK(entry.acceptor.next_deadline() <= kEnd);
  CHECK_FALSE(entry.step(kEnd + std::chrono::seconds(1)));
  CHECK(entry.acceptor.over());
  CHECK(entry.ended == 1);
  const wire::Message message = entry.heard();
  REQUIRE(message.header.type == wire::Type::kRefusal);
  const auto outcome = must_have(wire::decode<wire::Outcome>(message.body));
  CHECK(outcome.code == StatusCode::kTimeout);
  CHECK(outcome.text.find("rank 1") != std::string::npos);
}

TEST_CASE("a rank whose connection has closed may come again, and is missing until then") {
  Entry entry(2);
  entry.acceptor.ranks().enter(Entry::claim(1, 2), kEnd - std::chrono::seconds(9));
  entry.acceptor.ranks().leave(1);
  entry.acceptor.note_closed(1);
  CHECK_FALSE(entry.step(kEnd + std::chrono::seconds(1)));
  const auto outcome = must_have(wire::decode<wire::Outcome>(entry.heard().body));
  CHECK(outcome.text.find("rank 1 (node, pid 101)") != std::string::npos);
}

}  // namespace ho::test
