// Links that fail over and that nobody uses: they are closed, or lost, and open again as if nothing
// had been.
#include "catch.hpp"
#include "conformance.hpp"
#include "cut_ranks.hpp"
#include "has.hpp"
#include "sanitizers.hpp"

namespace ho::conformance {

using namespace cut;

// Both links are above the cap in turns.
static void converse_and_rest(const Ranks& ranks, uint32_t connections = 1) {
  for (uint32_t round = 0; round < 2; ++round) {
    for (const uint32_t rail : {0U, 1U}) {
      converse(ranks, {8, 40}, rail);
      ranks.drive_until([&] {
        const auto closed = [&](uint32_t rank) {
          return ranks.at(rank).open_connections() <= connections ||
                 ranks.link(rank, 1 - rail).to_string().find(", lost") != std::string::npos;
        };
        return closed(0) && closed(1);
      });
    }
  }
}

TEST_CASE("failover: idle links close, and open again without a word") {
  const auto connections = GENERATE(1U, 3U);
  const Setting setting{.connections_per_link = connections, .max_connections = connections};
  const Ranks ranks(setting, uncut);
  converse_and_rest(ranks, connections);
  CHECK(has(ranks.link(0, 0).to_string(), "closed while idle"));
  CHECK(has(ranks.link(1, 0).to_string(), "closed while idle"));
  CHECK(ranks.relay(1).connections() == 4 * connections);
  for (const uint32_t rank : {0U, 1U}) {
    CHECK(ranks.at(rank).failovers() == 0);
    CHECK(ranks.at(rank).open_connections() == connections);
    CHECK(ranks.at(rank).rail_use()[0].links == 0);
    CHECK(ranks.at(rank).rail_use()[0].lost == 0);
    CHECK(ranks.at(rank).rail_use()[1].links == 1);
  }
}

TEST_CASE("failover: cut at every byte around an idle close, either way, nothing is lost") {
  const bool to_listener = GENERATE(false, true);
  const bool reset = GENERATE(false, true);
  const Setting setting{.max_connections = 1};
  uint64_t bytes = 0;
  {
    const Ranks ranks(setting, uncut);
    converse_and_rest(ranks);
    bytes = to_listener ? ranks.relay(1).to_listener(0) : ranks.relay(1).to_dialler(0);
  }
  REQUIRE(bytes > 200);
  const uint64_t next = test::kThreadSanitizer ? 7 : 1;
  for (uint64_t at = 0; at <= bytes; at += next) {
    INFO("byte " << at << " of " << bytes << (to_listener ? " to the listener" : " to the dialler")
                 << (reset ? ", reset" : ", closed"));
    const Ranks ranks(setting, [&](size_t n) -> Relay::Cut {
      if (n > 0) {
        return {};
      }
      return to_listener ? Relay::Cut{.to_listener = at, .reset = reset}
                         : Relay::Cut{.to_dialler = at, .reset = reset};
    });
    converse_and_rest(ranks);
  }
}

// The other end looks at that link again only when other connections are there, or sooner.
TEST_CASE("failover: a request to close counts no more once its connections are replaced") {
  const auto unread_turns = GENERATE(range(0, 24));
  const bool requested = GENERATE(false, true);
  const Ranks ranks({.max_connections = 1}, uncut);
  converse(ranks, {8, 40});
  converse(ranks, {8}, 1);  // link 0 is above the cap
  for (const uint32_t rank : {0U, 1U}) {
    ranks.relay(rank).cut_all();
  }
  const uint32_t to = requested ? 0 : 1;
  End sender(ranks.link(1 - to), 3000, {8, 70000}, 2);
  End receiver(ranks.link(to), 4000, {}, 0);
  int turns = 0;
  ranks.drive_until([&] {
    REQUIRE(sender.send().ok());
    if (++turns > unread_turns) {
      const Status status = receiver.receive(3000, {8, 70000}, 2);
      INFO(status.message());
      REQUIRE(status.ok());
    }
    return receiver.received() == 2;
  });
}

// A false alarm: the request arrives after all, in connections that the other end has given up and
// does not miss.
TEST_CASE("failover: a request to close that the other end never reads holds up no message") {
  Ranks ranks({.max_connections = 1}, uncut);
  converse(ranks, {8, 40});
  ranks.unaware(0);
  ranks.silence({kHosts[0]});
  ranks.drive_until([&] { return has(ranks.link(1).to_string(), ", lost"); });
  converse(ranks, {8}, 1);
  ranks.drive_until([&] { return has(ranks.link(0).to_string(), "closing (idle)"); });
  ranks.silence({});
  End sender(ranks.link(0), 3000, {8}, 2);
  ranks.drive_until([&] {
    REQUIRE(sender.send().ok());
    return sender.through();
  });
  End receiver(ranks.link(1), 4000, {}, 0);
  ranks.drive_until([&] {
    REQUIRE(receiver.receive(3000, {8}, 2).ok());
    return receiver.received() == 1;
  });
  CHECK(ranks.at(0).rail_use()[0].failovers == 0);
}

// What is sent to it is unanswered for a second before the other end can see anything.
TEST_CASE("failover: who has lost its carrier goes elsewhere for a peer that cannot know") {
  const uint32_t loses = GENERATE(0U, 1U);
  Ranks ranks({}, uncut);
  converse(ranks, {8, 40});
  ranks.unaware(1 - loses);
  ranks.silence({kHosts[0]});
  ranks.without_carrier(loses);
  const auto goes_on = [&](uint32_t rank) {
    return has(ranks.link(rank).to_string(), "127.0.0.2 -> 127.0.0.2, connected");
  };
  ranks.drive_until([&] { return goes_on(0) && goes_on(1); });
  converse(ranks, {8, 70000});
}

TEST_CASE("failover: a new link does not begin over a path that another one has lost") {
  Ranks ranks({}, uncut);
  converse(ranks, {8, 40});
  ranks.silence({kHosts[0]});
  converse(ranks, {8});
  Link& made = **ranks.at(0).link({GlobalRank(1), RailIndex(0), 0, 1});
  REQUIRE(ranks.at(1).link({GlobalRank(0), RailIndex(0), 0, 1}).ok());
  const std::array<std::byte, 8> bytes{};
  const ConstBytes part(bytes);
  bool sent = false;
  const uint64_t before = ranks.at(0).failovers();
  ranks.drive_until([&] {
    if (!sent) {
      const auto accepted = made.try_send(frame_of(0, bytes.size()), std::span(&part, 1));
      sent = accepted.ok() && *accepted;
    }
    return sent && ranks.at(0).all_arrived();
  });
  CHECK(made.to_string() == "tcp 127.0.0.2 -> 127.0.0.2, connected");
  CHECK(ranks.at(0).failovers() == before);  // the lost one has not been tried
}

// Both rails are out in an idle phase; what was tried then, and how long ago, is no reason to give
// up when one of them is back.
TEST_CASE("failover: a link that nobody has waited for tries all paths when it is used again") {
  const bool over_before = GENERATE(false, true);
  Ranks ranks(
      {.timeout = std::chrono::milliseconds(300), .silence = std::chrono::milliseconds(200)},
      uncut);
  converse(ranks, {8, 40});
  ranks.silence(kHosts);
  ranks.without_carrier(0);
  if (over_before) {  // else it finds the loss by itself
    ranks.unaware(1);
  }
  ranks.drive_until([&] {  // the last use
    REQUIRE(ranks.link(0).try_peek(true).ok());
    return has(ranks.link(0).to_string(), ", lost");
  });
  const Deadline later = deadline_after(std::chrono::seconds(4));
  ranks.drive_until([&] { return passed(later); });
  REQUIRE(has(ranks.link(0).to_string(), ", lost"));
  ranks.silence({kHosts[0]});
  converse(ranks, {8, 70000});
}

}  // namespace ho::conformance
