// What a network knows of peers on connections that nobody uses: who has closed, and who
// has broken off.
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "has.hpp"

namespace ho::plugin::conformance {
namespace {

void* open_context(NetDriver& net, uint64_t comm_id) {
  NetDriver::Opening opening;
  opening.comm_id = comm_id;
  void* context = nullptr;
  REQUIRE(net.open(opening, &context) == Reply::kSuccess);
  return context;
}

void exchange(Pair& pair) {
  const auto data = pattern(9, 5000);
  std::vector<std::byte> buffer(data.size());
  REQUIRE(
      run_both(
          [&]() -> Status {
            End end(*pair.net, pair.send);
            HORING_ASSIGN(void* const request, end.send(data.data(), data.size(), 3));
            return end.finish(request).status();
          },
          [&]() -> Status {
            End end(*pair.net, pair.receive);
            HORING_ASSIGN(void* const request, end.receive({{buffer.data(), buffer.size(), 3}}));
            return end.finish(request).status();
          }) == "");
}

// What is found within a time that no working machine needs.
Status found_lost(const NetDriver& net, const NetDriver::Owner& self) {
  const Deadline limit = deadline_after(std::chrono::seconds(20));
  Status found;
  while (found.ok() && !passed(limit)) {
    found = net.lost_peer(self);
  }
  return found;
}

bool stays_well(const NetDriver& net, const NetDriver::Owner& self) {
  bool well = true;
  for (int look = 0; look < 1000; ++look) {
    well = well && net.lost_peer(self).ok();
  }
  return well;
}

BuiltinCase with_connections(uint32_t connections) {
  BuiltinCase options;
  options.connections = connections;
  return options;
}

TEST_CASE("a network: a peer that closes is not lost") {
  const auto net = make_under_test(with_connections(GENERATE(1U, 3U)));
  const NetDriver::Owner other = net->owner_of(open_context(*net, 7));
  Pair pair(*net);
  pair.opening.comm_id = 7;
  REQUIRE(pair.connect().message() == "");
  CHECK(stays_well(*net, other));
  if (GENERATE(false, true)) {
    exchange(pair);
    CHECK(stays_well(*net, other));
  }
  std::array<std::byte, 8> bytes{};
  SECTION("the receiver closes first") {
    REQUIRE(net->close_recv(std::exchange(pair.receive, nullptr)) == Reply::kSuccess);
    CHECK(stays_well(*net, other));
    // Also once somebody has read it.
    CHECK_FALSE(End(*net, pair.send).send(bytes.data(), bytes.size(), 0).ok());
  }
  SECTION("the sender closes first") {
    REQUIRE(net->close_send(std::exchange(pair.send, nullptr)) == Reply::kSuccess);
    CHECK(stays_well(*net, other));
    const auto request = End(*net, pair.receive).try_receive({{bytes.data(), bytes.size(), 0}});
    CHECK((!request.ok() || !End(*net, pair.receive).finish(*request).ok()));
  }
  CHECK(stays_well(*net, other));
}

TEST_CASE("a network: a peer that breaks off is lost, for its own communicator") {
  const auto net = make_under_test(with_connections(GENERATE(1U, 3U)));
  const NetDriver::Owner other = net->owner_of(open_context(*net, 7));
  const NetDriver::Owner stranger = net->owner_of(open_context(*net, 8));
  const NetDriver::Owner nameless = net->owner_of(open_context(*net, 0));
  Pair pair(*net);
  pair.opening.comm_id = 7;
  REQUIRE(pair.connect().message() == "");
  exchange(pair);
  std::array<std::byte, 8> bytes{};
  End receiver(*net, pair.receive);
  SECTION("the receiver closes with a receive under way") {
    const auto request = receiver.try_receive({{bytes.data(), bytes.size(), 0}});
    REQUIRE(request.ok());
    REQUIRE(net->close_recv(std::exchange(pair.receive, nullptr)) == Reply::kSuccess);
  }
  SECTION("the sender closes after an error") {
    const auto request = receiver.try_receive({{bytes.data(), 1, 0}});
    REQUIRE(request.ok());
    const auto too_long = End(*net, pair.send).send(bytes.data(), bytes.size(), 0);
    REQUIRE((!too_long.ok() || !End(*net, pair.send).finish(*too_long).ok()));
    REQUIRE(net->close_send(std::exchange(pair.send, nullptr)) == Reply::kSuccess);
  }
  const Status found = found_lost(*net, other);
  CHECK(found.code() == StatusCode::kPeerLost);
  CHECK(has(found, "the process at 127.0.0.1:"));
  CHECK(has(found, "pid " + std::to_string(::getpid())));
  CHECK(has(found, "has ended or given up"));
  CHECK(stays_well(*net, stranger));
  CHECK(stays_well(*net, nameless));
  CHECK(stays_well(*net, net->owner_of(nullptr)));
  // A ring sees its own connections by itself.
  CHECK(stays_well(*net, net->owner_of(pair.context)));
  // What is closed here concerns nobody any more.
  pair.close();
  CHECK(stays_well(*net, other));
}

void break_off(Pair& pair) {
  std::array<std::byte, 8> bytes{};
  REQUIRE(End(*pair.net, pair.receive).try_receive({{bytes.data(), bytes.size(), 0}}).ok());
  REQUIRE(pair.net->close_recv(std::exchange(pair.receive, nullptr)) == Reply::kSuccess);
}

// Malloc gives a later context the address of one that was closed.
TEST_CASE("a network: a context is never taken for an earlier one") {
  constexpr size_t kContexts = 100;
  const auto net = make_under_test({});
  std::set<uint64_t> seen{net->owner_of(nullptr).context};
  for (size_t i = 0; i < kContexts; ++i) {
    void* const context = open_context(*net, 7);
    CHECK(net->owner_of(context).comm_id == 7);
    seen.insert(net->owner_of(context).context);
    REQUIRE(net->close(context) == Reply::kSuccess);
  }
  CHECK(seen.size() == kContexts + 1);
}

TEST_CASE("a network: connections are known by their context, also when it has been closed") {
  const auto net = make_under_test({});
  Pair pair(*net);
  pair.opening.comm_id = 7;
  REQUIRE(pair.connect().message() == "");
  exchange(pair);
  const NetDriver::Owner before = net->owner_of(pair.context);
  REQUIRE(net->close(std::exchange(pair.context, nullptr)) == Reply::kSuccess);
  const NetDriver::Owner later = net->owner_of(open_context(*net, 7));
  const NetDriver::Owner stranger = net->owner_of(open_context(*net, 8));
  SECTION("its own connection breaks off") {
    break_off(pair);
    CHECK(found_lost(*net, later).code() == StatusCode::kPeerLost);
    CHECK(stays_well(*net, before));
    CHECK(stays_well(*net, stranger));
  }
  SECTION("another's connection breaks off, of its communicator or not") {
    Pair other(*net);
    other.opening.comm_id = GENERATE(7U, 8U);
    REQUIRE(other.connect().message() == "");
    exchange(other);
    break_off(other);
    const bool same = other.opening.comm_id == 7;
    CHECK(found_lost(*net, same ? later : stranger).code() == StatusCode::kPeerLost);
    CHECK(net->lost_peer(before).ok() != same);
  }
}

}  // namespace
}  // namespace ho::plugin::conformance
