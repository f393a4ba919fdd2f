// Links that go on when their connections are lost: cut by relays at every byte, at both ends,
// again and again. Each message arrives once, in order, with its bytes; memory is given back only
// when nothing reads it any more.
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <sstream>

#include "base/logger.hpp"
#include "catch.hpp"
#include "conformance.hpp"
#include "cut_ranks.hpp"
#include "has.hpp"
#include "sanitizers.hpp"
#include "transport/link_service.hpp"

namespace ho::conformance {

using namespace cut;

TEST_CASE("failover: a link that is not disturbed carries what it is given, once") {
  const auto connections = GENERATE(1U, 3U);
  const Setting setting{.connections_per_link = connections};
  const Ranks ranks(setting, uncut);
  converse(ranks, {0, 1, 40, 5000, 16384, 16385, 300000, 0, 7, 1U << 20});
  CHECK(ranks.relay(1).connections() == connections);
  CHECK(ranks.relay(0).connections() == 0);
  CHECK(ranks.at(0).failovers() + ranks.at(1).failovers() == 0);
}

TEST_CASE("failover: cut at every byte, either way, nothing is lost and nothing comes twice") {
  const bool reset = GENERATE(false, true);
  const bool to_listener = GENERATE(false, true);
  const uint32_t connections = reset ? GENERATE(1U, 2U) : 1U;
  Setting setting{.connections_per_link = connections};
  uint64_t bytes = 0;
  {
    const Ranks ranks(setting, uncut);
    converse(ranks, kSmall);
    bytes = to_listener ? ranks.relay(1).to_listener(0) : ranks.relay(1).to_dialler(0);
  }
  REQUIRE(bytes > 300);
  // Races are between threads, not between bytes.
  const uint64_t next = test::kThreadSanitizer ? 7 : 1;
  for (uint64_t at = 0; at <= bytes; at += next) {
    INFO("byte " << at << " of " << bytes << (to_listener ? " to the listener" : " to the dialler")
                 << (reset ? ", reset" : ", closed"));
    setting.believes_kernel = at % 2 == 0;
    const Ranks ranks(setting, [&](size_t n) -> Relay::Cut {
      if (n > 0) {
        return {};
      }
      return to_listener ? Relay::Cut{.to_listener = at, .reset = reset}
                         : Relay::Cut{.to_dialler = at, .reset = reset};
    });
    converse(ranks, kSmall);
  }
}

TEST_CASE("failover: cuts in failovers, at random bytes of all sizes of messages, lose nothing") {
  const auto connections = GENERATE(1U, 3U);
  const bool believes = GENERATE(false, true);
  const auto seed = GENERATE(range(0U, 20U));
  std::mt19937 random(seed);  // NOLINT: the same run every time
  Sizes sizes;
  for (int i = 0; i < 40; ++i) {
    sizes.push_back(random() % (size_t{1} << (random() % 19)));
  }
  const Setting setting{.connections_per_link = connections,
                        .believes_kernel = believes,
                        .copied_bytes = believes && seed % 2 == 0 ? 200'000U : 16U << 20};
  constexpr size_t kCutConnections = 12;
  const Ranks ranks(setting, [&](size_t n) -> Relay::Cut {
    if (n >= kCutConnections * connections) {
      return {};
    }
    // The first within what is sent in any case.
    const uint64_t at = random() % (uint64_t{1} << (n == 0 ? 10 : 5 + random() % 16));
    const bool reset = random() % 2 == 0;
    return random() % 2 == 0 ? Relay::Cut{.to_listener = at, .reset = reset}
                             : Relay::Cut{.to_dialler = at, .reset = reset};
  });
  INFO("seed " << seed << ", " << connections << " connections");
  converse(ranks, sizes, 0, seed % 3 == 0 ? 100 : 1);
  CHECK(ranks.relay(0).cuts() + ranks.relay(1).cuts() > 0);
}

TEST_CASE("failover: what lies unread in lost connections is received, in order and once") {
  const auto connections = GENERATE(1U, 2U);
  const Setting setting{.connections_per_link = connections};
  const Ranks ranks(setting, uncut);
  const Sizes sizes{8, 100000, 0, 300, 5000};
  const Sizes all{8, 100000, 0, 300, 5000, 8, 100000, 0, 300, 5000, 7, 7};
  converse(ranks, {1});
  End one(ranks.link(1), 2000, {});
  std::vector<End> zeros;
  for (uint64_t round = 0; round < 3; ++round) {
    const size_t first = round * sizes.size();
    zeros.emplace_back(ranks.link(0), 1000 + first, round < 2 ? sizes : Sizes{7, 7}, first);
    // All that was sent has arrived, as far as the kernels say, and nobody has read it.
    ranks.drive_until([&] {
      REQUIRE(zeros.back().send().ok());
      return zeros.back().through() && ranks.at(0).failovers() == round &&
             ranks.at(1).failovers() == round;
    });
    for (const uint32_t rank : {0U, 1U}) {
      ranks.relay(rank).cut_all();
    }
  }
  ranks.drive_until([&] {
    REQUIRE(one.receive(1000, all).ok());
    return one.received() == all.size();
  });
}

TEST_CASE("failover: a link leaves a rail that is silent, and comes back when it answers again") {
  Ranks ranks({}, uncut);
  const Sizes sizes{8, 100000, 0, 5000};
  converse(ranks, sizes);
  CHECK(has(ranks.link(0).to_string(), "127.0.0.1 -> 127.0.0.1, connected"));
  ranks.silence({kHosts[0]});
  converse(ranks, sizes);
  CHECK(has(ranks.link(0).to_string(), "127.0.0.2 -> 127.0.0.2, connected"));
  CHECK(has(ranks.link(1).to_string(), "127.0.0.2 -> 127.0.0.2, connected"));
  CHECK(ranks.at(0).failovers() == 1);
  CHECK(ranks.at(1).failovers() == 1);
  const auto rail = [&](uint32_t rank, size_t index) { return ranks.at(rank).rail_use()[index]; };
  for (const uint32_t rank : {0U, 1U}) {  // counted where it is the link's own
    CHECK(rail(rank, 0).failovers == 1);
    CHECK(rail(rank, 0).links == 1);
    CHECK(rail(rank, 0).away == 1);
    CHECK(rail(rank, 1).failovers == 0);
    CHECK(rail(rank, 1).links == 0);
  }
  ranks.silence({});
  ranks.drive_until([&] {
    return has(ranks.link(0).to_string(), "127.0.0.1 -> 127.0.0.1, connected") &&
           has(ranks.link(1).to_string(), "127.0.0.1 -> 127.0.0.1, connected");
  });
  converse(ranks, sizes);
  CHECK(rail(0, 0).failovers == 2);
  CHECK(rail(0, 0).links == 1);
  CHECK(rail(0, 0).away == 0);
}

// Of a link over these of four rails.
std::string connected_over(std::initializer_list<int> hosts) {
  std::string text;
  for (const int host : hosts) {
    const std::string address = "127.0.0." + std::to_string(host);
    text.append(text.empty() ? "tcp " : " and ").append(address + " -> " + address);
  }
  return text + ", connected";
}

TEST_CASE("failover: a lost rail's link goes over all others, and over those left of them") {
  const auto connections = GENERATE(1U, 4U);
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
                        .connections_per_link = connections,
                        .silence = std::chrono::milliseconds(100)};
  const Ranks ranks(setting, uncut);
  const Sizes sizes{8, 100000, 0, 5000, 70000, 1, 300, 20000, 16384, 9, 0, 40};
  const auto becomes = [&](const std::string& text) {
    ranks.drive_until([&] {
      return has(ranks.link(0, 1).to_string(), text) && has(ranks.link(1, 1).to_string(), text);
    });
    converse(ranks, sizes, 1);
  };
  converse(ranks, sizes, 1);
  becomes(connected_over({2}));
  ranks.silence({"127.0.0.2"});
  converse(ranks, sizes, 1);
  const size_t before = ranks.relay(0).connections() + ranks.relay(1).connections();
  becomes(connected_over({3, 4, 1}));
  const size_t opened = ranks.relay(0).connections() + ranks.relay(1).connections() - before;
  CHECK(opened % (connections == 1 ? 3 : 6) == 0);
  CHECK(ranks.at(0).failovers() == 1);  // that it goes over more of them is none
  ranks.silence({"127.0.0.2", "127.0.0.4"});
  converse(ranks, sizes, 1);
  becomes(connected_over({3, 1}));
  CHECK(ranks.at(0).failovers() == 2);
  ranks.silence({});
  becomes(connected_over({2}));
}

TEST_CASE("failover: a rail is left out that its link cannot go over, and messages go on") {
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
                        .silence = std::chrono::milliseconds(100)};
  const Ranks ranks(setting, uncut);
  const Sizes sizes{8, 100000, 0, 5000};
  converse(ranks, sizes);
  ranks.silence({"127.0.0.1", "127.0.0.3"});
  converse(ranks, sizes);
  ranks.drive_until([&] {
    return has(ranks.link(0).to_string(), connected_over({2, 4})) &&
           has(ranks.link(1).to_string(), connected_over({2, 4}));
  });
  converse(ranks, sizes);
}

TEST_CASE("failover: a slow rail keeps a part of its link's messages until it is fast again") {
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
                        .silence = std::chrono::milliseconds(100)};
  Ranks ranks(setting, uncut);
  const Sizes sizes{8, 100000, 0, 5000, 70000, 1, 300, 20000, 16384, 9, 0, 40, 7, 100, 3, 0};
  converse(ranks, sizes);
  TcpProgress progress{.unsent_bytes = 1};
  int64_t last = now_ns();
  const auto run = [&](uint64_t bytes_per_us) {
    const auto us = static_cast<uint64_t>(now_ns() - last) / 1000;
    last += static_cast<int64_t>(us) * 1000;
    progress.busy_us += us;
    progress.acknowledged_bytes += us * bytes_per_us;
    ranks.progress(progress);
  };
  const auto run_until = [&](uint64_t bytes_per_us, const std::string& text) {
    ranks.drive_until([&] {
      run(bytes_per_us);
      return has(ranks.link(0).to_string(), text) && has(ranks.link(1).to_string(), text);
    });
    converse(ranks, sizes);
  };
  const int64_t begun = now_ns();
  ranks.drive_until([&] {  // well, for as long as it takes to see that
    run(1000);
    return now_ns() - begun > 300'000'000;
  });
  CHECK(has(ranks.link(0).to_string(), "tcp 127.0.0.1 -> 127.0.0.1, connected"));
  run_until(250, "tcp 127.0.0.1 -> 127.0.0.1 with 31 % and 127.0.0.2 -> 127.0.0.2 with 23 % and ");
  CHECK(ranks.at(0).failovers() == 1);
  CHECK(ranks.link(0).rails() == 4);
  CHECK(std::abs(ranks.at(0).rail_use()[0].away - 9.0 / 13) < 1e-9);  // weights 4 and 3 x 3
  run_until(1000, "tcp 127.0.0.1 -> 127.0.0.1, connected");
}

TEST_CASE("failover: cut at random bytes while it goes over several rails, it loses nothing") {
  const auto seed = GENERATE(range(0U, 6U));
  std::mt19937 random(seed);  // NOLINT: the same run every time
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
                        .connections_per_link = seed % 3 + 1,
                        .believes_kernel = seed % 2 == 0,
                        .silence = std::chrono::milliseconds(50)};
  int cuts = 0;
  const Ranks ranks(setting, [&](size_t /*n*/) -> Relay::Cut {
    if (--cuts < 0) {
      return {};
    }
    const uint64_t at = 1000 + random() % (uint64_t{1} << (6 + random() % 11));
    const bool reset = random() % 2 == 0;
    return random() % 2 == 0 ? Relay::Cut{.to_listener = at, .reset = reset}
                             : Relay::Cut{.to_dialler = at, .reset = reset};
  });
  Sizes sizes;
  for (int i = 0; i < 40; ++i) {
    sizes.push_back(random() % (size_t{1} << (random() % 17)));
  }
  converse(ranks, {8});
  cuts = 50;
  ranks.silence({"127.0.0.1"});
  converse(ranks, {8});
  ranks.drive_until([&] { return has(ranks.link(0).to_string(), connected_over({2, 3, 4})); });
  for (int round = 0; round < 5; ++round) {
    converse(ranks, sizes);
  }
  CHECK(ranks.relay(0).cuts() + ranks.relay(1).cuts() > 0);
}

TEST_CASE("failover: a link whose rail is dead from the beginning begins on another one") {
  Ranks ranks({}, uncut);
  ranks.silence({kHosts[1]});
  converse(ranks, {8, 100000}, 1);
  CHECK(has(ranks.link(1, 1).to_string(), kHosts[0] + ", connected"));
}

TEST_CASE("failover: without another rail a link waits for its own, and goes on when it is back") {
  const Setting setting{.hosts = {kHosts[0]}};
  bool cut = true;
  Ranks ranks(setting, [&](size_t /*n*/) {
    return cut ? Relay::Cut{.to_listener = 2000, .reset = true} : Relay::Cut{};
  });
  End zero(ranks.link(0), 1000, {20000});
  End one(ranks.link(1), 2000, {});
  ranks.drive_until([&] {
    REQUIRE(zero.send().ok());
    REQUIRE(one.receive(1000, {20000}).ok());
    return ranks.relay(1).cuts() > 3;
  });
  CHECK(one.received() == 0);
  cut = false;
  ranks.drive_until([&] {
    REQUIRE(zero.send().ok());
    REQUIRE(one.receive(1000, {20000}).ok());
    return one.received() == 1 && zero.through();
  });
}

TEST_CASE("failover: a link that reaches its peer over no rail fails with the first cause") {
  const Setting setting{.timeout = std::chrono::milliseconds(300)};
  bool open = true;
  Ranks ranks(setting, [&](size_t /*n*/) {
    return open ? Relay::Cut{.to_listener = 5000} : Relay::Cut{.to_listener = 0};
  });
  converse(ranks, {8});
  open = false;
  Status failed;
  const std::vector<std::byte> bytes = pattern(1, 50000);
  const ConstBytes part(bytes);
  bool sent = false;
  ranks.drive_until([&] {
    Link& link = ranks.link(0);
    if (!sent) {
      const auto accepted = link.try_send(frame_of(1, bytes.size()), std::span(&part, 1));
      failed = accepted.status();
      sent = accepted.ok() && *accepted;
    } else {
      failed = link.went_wrong();
    }
    return !failed.ok();
  });
  CHECK(failed.code() == StatusCode::kPeerLost);
  CHECK(has(failed, "rank 1, rail 0, tcp 127.0.0.1 -> 127.0.0.1: the peer "));
  CHECK(has(failed, "no rail has reached it for "));
}

// Its log, and what is told of its rail, while there is no path and once there is one again.
TEST_CASE("failover: a link that reaches its peer over no path says so once, and counts as lost") {
  std::ostringstream log;
  auto& sinks = logger().sinks();
  sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(log));
  {
    // Of a path that no other test has lost lately: what was said is not said again.
    const std::vector<std::string> hosts{"127.0.0.5", "127.0.0.6"};
    const Ranks ranks({.hosts = hosts, .silence = std::chrono::milliseconds(100)}, uncut);
    const auto lost = [&](size_t rail) { return ranks.at(0).rail_use()[rail].lost; };
    const auto words = [&] {
      std::vector<std::string> found;
      std::istringstream lines(log.str());
      for (std::string line; std::getline(lines, line);) {
        if (line.find("its process has answered none for") != std::string::npos) {
          found.push_back(line);
        }
      }
      return found;
    };
    converse(ranks, {8});
    CHECK(lost(0) == 0);
    ranks.silence(hosts);
    End zero(ranks.link(0), 1000, {8});
    End one(ranks.link(1), 2000, {});
    ranks.drive_until([&] {
      REQUIRE(zero.send().ok());
      REQUIRE(one.receive(1000, {8}).ok());
      return !words().empty() && lost(0) == 1;
    });
    CHECK(lost(1) == 0);
    ranks.silence({});
    ranks.drive_until([&] {
      REQUIRE(zero.send().ok());
      REQUIRE(one.receive(1000, {8}).ok());
      return one.received() == 1 && zero.through() && lost(0) == 0;
    });
    CHECK(words().size() == 1);  // of both ends, which are in one process here
    ranks.drive_until([&] { return ranks.at(0).all_arrived() && ranks.at(1).all_arrived(); });
    ranks.silence(hosts);  // and nobody uses it any more
    size_t turns = 0;
    ranks.drive_until([&] {
      turns += has(ranks.link(0).to_string(), ", lost") ? 1U : 0U;
      return turns > 1000;  // many more than after which a link counts as unused
    });
    CHECK(lost(0) == 0);
    CHECK(has(words().front(), ", rail 0, tcp 127.0.0.5 -> 127.0.0.5: "));
  }
  sinks.pop_back();
}

TEST_CASE("failover: with no time to wait, each rail is tried all the same before a link fails") {
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"},
                        .timeout = std::chrono::milliseconds(0),
                        .silence = std::chrono::milliseconds(100)};
  const Ranks ranks(setting, uncut);
  converse(ranks, {8});
  ranks.silence({"127.0.0.1", "127.0.0.2", "127.0.0.3"});
  converse(ranks, {8, 100000});
  CHECK(has(ranks.link(0).to_string(), connected_over({4})));
}

TEST_CASE("failover: rails that share a network card are one path, and count as one") {
  const Setting setting{.hosts = {"127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.3"},
                        .silence = std::chrono::milliseconds(100)};
  const Ranks ranks(setting, uncut);
  converse(ranks, {8});
  ranks.silence({"127.0.0.1"});
  converse(ranks, {8});
  ranks.drive_until([&] { return has(ranks.link(0).to_string(), connected_over({2, 3})); });
  converse(ranks, {8, 100000});
}

TEST_CASE("failover: a host that refuses where no message came from is not taken for the peer") {
  Ranks ranks({.timeout = std::chrono::milliseconds(60000)}, uncut);
  converse(ranks, {8});
  for (const uint32_t rank : {0U, 1U}) {
    ranks.relay(rank).refuse(kHosts[1]);
  }
  ranks.silence({kHosts[0]});
  End zero(ranks.link(0), 1000, {100000});
  End one(ranks.link(1), 2000, {});
  const auto move = [&] {
    REQUIRE(zero.send().ok());
    REQUIRE(one.receive(1000, {100000}).ok());
  };
  ranks.drive_until([&] {
    move();
    return has(ranks.link(0).to_string(), "tries tcp 127.0.0.1");  // after the other one
  });
  ranks.silence({});
  ranks.drive_until([&] {
    move();
    return one.received() == 1 && zero.through();
  });
}

TEST_CASE("failover: who waits for its memory alone gets it back, and who does not keeps lending") {
  const Ranks ranks({.believes_kernel = false, .lend = std::chrono::hours(1)}, uncut);
  const Sizes sizes{100000};
  End zero(ranks.link(0), 1000, sizes);
  End one(ranks.link(1), 2000, {});
  ranks.drive_until([&] {
    REQUIRE(zero.send().ok());
    REQUIRE(one.receive(1000, sizes).ok());
    return one.received() == 1;
  });
  CHECK_FALSE(zero.through());
  static_cast<void>(ranks.at(0).prepare_wait({}));
  REQUIRE(zero.send().ok());
  CHECK_FALSE(zero.through());
  CHECK_FALSE(ranks.at(0).prepare_wait({.network_releases = true}));  // something has happened
  REQUIRE(zero.send().ok());
  CHECK(zero.through());
}

TEST_CASE("failover: leaving may take as long as a lost rail is not noticed") {
  const Ranks ranks({.silence = std::chrono::milliseconds(2000)}, uncut);
  CHECK(ranks.at(0).linger_time() > std::chrono::milliseconds(2000 + 1500));
}

TEST_CASE("failover: a peer that ends before it has used the link is told as lost, to all calls") {
  Ranks ranks({.timeout = std::chrono::milliseconds(300)}, uncut);
  Link& link = ranks.link(0);  // rank 1 holds what it opens, and has not asked for it
  for (int turns = 0; turns < 2000; ++turns) {
    static_cast<void>(link.try_peek(true));
    ranks.turn();
  }
  CHECK(ranks.relay(1).connections() == 1);
  ranks.end(1);
  Status reported;
  ranks.drive_until([&] {
    reported = link.try_peek(true).status();
    return !reported.ok();
  });
  CHECK(reported.code() == StatusCode::kPeerLost);
  for (int turns = 0; turns < 3; ++turns) {
    ranks.turn();
    CHECK_FALSE(link.try_peek(true).ok());
  }
}

TEST_CASE("failover: what a rank sent before it ended is received, and then its end is told") {
  const Sizes sizes{8, 70000, 16};
  const Setting setting{.timeout = std::chrono::milliseconds(300)};
  Ranks ranks(setting, uncut);
  End zero(ranks.link(0), 1000, sizes);
  ranks.drive_until([&] {
    REQUIRE(zero.send().ok());
    static_cast<void>(ranks.link(1).try_peek(true));
    return zero.through();
  });
  for (int turns = 0; turns < 100; ++turns) {  // through the relay
    ranks.turn();
  }
  ranks.end(0);
  End one(ranks.link(1), 2000, {});
  Status failed;
  ranks.drive_until([&] {
    REQUIRE(one.receive(1000, sizes).ok());
    return one.received() == sizes.size();
  });
  ranks.drive_until([&] {
    std::vector<std::byte> bytes(8);
    const Bytes part(bytes);
    failed = ranks.link(1).try_recv(frame_of(3, 8), std::span(&part, 1)).status();
    return !failed.ok();
  });
  CHECK(failed.code() == StatusCode::kPeerLost);
}

TEST_CASE("failover: a peer that ends when all has arrived concerns who uses the link again") {
  Ranks ranks({.timeout = std::chrono::milliseconds(300)}, uncut);
  converse(ranks, {8, 70000});
  ranks.end(1);
  Link& link = ranks.link(0);
  ranks.drive_until([&] { return !link.try_peek(true).ok(); });
  CHECK(link.went_wrong().ok());
  const ConstBytes nothing;
  CHECK_FALSE(link.try_send(frame_of(2, 0), std::span(&nothing, 1)).ok());
}

TEST_CASE("failover: a rank that computes answers by its process' service, and its message comes") {
  const Sizes sizes{8, 100000};
  const Setting setting{.believes_kernel = false};
  Ranks ranks(setting, uncut);
  converse(ranks, {1});
  for (const uint32_t rank : {0U, 1U}) {
    ranks.relay(rank).block({kHosts[0]});
  }
  End one(ranks.link(1), 2000, sizes);
  ranks.drive_until([&] {
    REQUIRE(one.send().ok());
    return one.through();
  });
  ranks.compute(1);
  const LinkService::Member served(LinkService::of_process(), [&ranks] {
    static_cast<void>(ranks.at(1).progress());
    return ranks.at(1).service() == Transport::Service::kSoon;
  });
  for (const uint32_t rank : {0U, 1U}) {
    ranks.relay(rank).cut_all();
    ranks.relay(rank).block({});
  }
  End zero(ranks.link(0), 1000, {});
  ranks.drive_until([&] {
    REQUIRE(zero.receive(2000, sizes).ok());
    return zero.received() == sizes.size();
  });
}

}  // namespace ho::conformance
