// The connection cap: idle links close once both ends have said so, whatever crosses the request.
#include <atomic>
#include <thread>

#include "catch.hpp"
#include "conformance.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance {
namespace {

constexpr size_t kLargeBytes = 300000;

// Two ranks in one thread, so that a test says who does what when. Rank 0 opens all links. A rank
// whose cap is one link is above it as soon as two are open.
class Pair {
 public:
  static constexpr uint32_t kNoCap = 256;

  Pair(uint32_t connections_per_link, bool fails_over)
      : Pair(connections_per_link, {connections_per_link, connections_per_link}, fails_over) {}
  Pair(uint32_t connections_per_link, const std::array<uint32_t, 2>& caps, bool fails_over) {
    TcpCase config;
    config.connections_per_link = connections_per_link;
    config.fails_over = fails_over;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      config.max_connections = caps.at(rank);
      auto transport = TcpTransport::listen(options_of(config, GlobalRank(rank), 2));
      REQUIRE(transport.ok());
      transports_.at(rank) = *std::move(transport);
    }
    for (auto& transport : transports_) {
      transport->set_peers({transports_[0]->endpoint(), transports_[1]->endpoint()});
    }
  }

  [[nodiscard]] TcpTransport& at(uint32_t rank) const { return *transports_.at(rank); }

  [[nodiscard]] Link& link(uint32_t rank, uint8_t channel) const {
    auto made = at(rank).link({GlobalRank(1 - rank), RailIndex(0), 0, channel});
    REQUIRE(made.ok());
    return **made;
  }

  // Drives both until `done`, which calls for both what is wanted of them.
  void drive_until(const std::function<bool()>& done) const {
    for (const Deadline limit = deadline_after(ho::conformance::kHang); !done();) {
      REQUIRE_FALSE(passed(limit));
      REQUIRE(at(0).progress().ok());
      REQUIRE(at(1).progress().ok());
    }
  }

 private:
  std::array<std::unique_ptr<TcpTransport>, 2> transports_;
};

bool sent(Link& link, uint32_t index, const std::vector<std::byte>& bytes) {
  const ConstBytes part(bytes);
  const auto done = link.try_send(frame_of(index, bytes.size()), std::span(&part, 1));
  INFO(done.status().message());
  REQUIRE(done.ok());
  return *done;
}

bool received(Link& link, uint32_t index, std::vector<std::byte>& bytes) {
  const Bytes part(bytes);
  const auto done = link.try_recv(frame_of(index, bytes.size()), std::span(&part, 1));
  INFO(done.status().message());
  REQUIRE(done.ok());
  return *done;
}

// Message `index` from rank 0 to rank 1.
void pass(const Pair& pair, uint8_t channel, uint32_t index) {
  const std::vector<std::byte> bytes = pattern(index, 8);
  std::vector<std::byte> got(bytes.size());
  bool gone = false;
  pair.drive_until([&] {
    gone = gone || sent(pair.link(0, channel), index, bytes);
    return received(pair.link(1, channel), index, got);
  });
  REQUIRE(gone);
  REQUIRE(got == bytes);
}

// With a second link rank 0 is above its cap, and channel 0 is the one that has rested longer.
void let_rank_0_ask_to_close(const Pair& pair) {
  pass(pair, 1, 0);
  for (int turn = 0; turn < 3; ++turn) {
    REQUIRE(pair.at(0).progress().ok());
  }
}

TEST_CASE("tcp: a large message follows a close request that a message crossed") {
  const Pair pair(1, GENERATE(false, true));
  pass(pair, 0, 0);
  Link& left = pair.link(0, 0);
  Link& right = pair.link(1, 0);
  // Rank 1's message is under way when rank 0 asks to close, and rank 1 waits for one of rank 0.
  const std::vector<std::byte> crossing = pattern(7, 16);
  REQUIRE(sent(right, 0, crossing));
  const std::vector<std::byte> large = pattern(8, kLargeBytes);
  std::vector<std::byte> got(large.size());
  REQUIRE_FALSE(received(right, 1, got));
  let_rank_0_ask_to_close(pair);
  // Rank 1 finds the request and the message behind it with one read.
  bool gone = sent(left, 1, large);
  pair.drive_until([&] {
    const bool here = received(right, 1, got);
    gone = gone || sent(left, 1, large);
    return here;
  });
  REQUIRE(gone);
  REQUIRE(got == large);
  // Rank 0 takes the crossing message only now: its own did not wait for the refusal behind that.
  std::vector<std::byte> crossed(crossing.size());
  pair.drive_until([&] { return received(left, 0, crossed); });
  REQUIRE(crossed == crossing);
  // The refusal is dealt with: the link is used, and closes at last.
  pass(pair, 0, 2);
  pair.drive_until([&] { return pair.at(0).open_connections() == 1; });
  pass(pair, 0, 3);
  pass(pair, 1, 1);
}

TEST_CASE("tcp: a close request is met by a rank that awaits a message on another connection") {
  const Pair pair(3, GENERATE(false, true));
  pass(pair, 0, 0);
  // Rank 1 waits for the second message before rank 0 asks to close, and waits on.
  std::vector<std::byte> got(8);
  REQUIRE_FALSE(received(pair.link(1, 0), 1, got));
  let_rank_0_ask_to_close(pair);
  REQUIRE(pair.link(0, 0).to_string().find("closing") != std::string::npos);
  pass(pair, 0, 1);
}

bool one_link_is_open(const Pair& pair, uint32_t connections_per_link) {
  return pair.at(0).open_connections() == connections_per_link &&
         pair.at(1).open_connections() == connections_per_link;
}

// Rank 1 has come above its cap, and says so on channel 0, which has rested longer.
void let_rank_1_hint(const Pair& pair) {
  pass(pair, 0, 0);
  pass(pair, 1, 0);
  for (int turn = 0; turn < 3; ++turn) {
    REQUIRE(pair.at(1).progress().ok());
  }
}

TEST_CASE("tcp: a rank above its cap has idle links closed that its peer opened") {
  const bool fails_over = GENERATE(false, true);
  for (const uint32_t connections_per_link : {1U, 3U}) {
    const Pair pair(connections_per_link, {Pair::kNoCap, connections_per_link}, fails_over);
    for (uint32_t round = 0; round < 3; ++round) {
      pass(pair, 0, round);
      pass(pair, 1, round);
      pair.drive_until([&] { return one_link_is_open(pair, connections_per_link); });
      CHECK(pair.link(1, 0).to_string().find("closed while idle") != std::string::npos);
    }
  }
}

TEST_CASE(
    "tcp: a rank that is asked to close a link it uses does so only when a message has passed") {
  const Pair pair(1, {Pair::kNoCap, 1}, GENERATE(false, true));
  let_rank_1_hint(pair);
  // Rank 0 waits for a message on the link when the hint comes.
  std::vector<std::byte> got(8);
  for (int turn = 0; turn < 40; ++turn) {
    REQUIRE_FALSE(received(pair.link(0, 0), 0, got));
    REQUIRE(pair.at(0).progress().ok());
  }
  CHECK(pair.link(0, 0).to_string().find("connected") != std::string::npos);
  const std::vector<std::byte> bytes = pattern(9, 8);
  bool gone = false;
  pair.drive_until([&] {
    gone = gone || sent(pair.link(1, 0), 0, bytes);
    return received(pair.link(0, 0), 0, got);
  });
  REQUIRE(got == bytes);
  pair.drive_until([&] { return one_link_is_open(pair, 1); });
  pass(pair, 0, 1);
}

TEST_CASE("tcp: a message that crosses a close hint arrives whole") {
  const Pair pair(1, {Pair::kNoCap, 1}, GENERATE(false, true));
  let_rank_1_hint(pair);
  const std::vector<std::byte> large = pattern(8, kLargeBytes);
  std::vector<std::byte> got(large.size());
  bool gone = sent(pair.link(0, 0), 1, large);
  pair.drive_until([&] {
    gone = gone || sent(pair.link(0, 0), 1, large);
    return received(pair.link(1, 0), 1, got);
  });
  REQUIRE(got == large);
  pair.drive_until([&] { return one_link_is_open(pair, 1); });
}

TEST_CASE("tcp: a close request and a close hint may cross") {
  const bool fails_over = GENERATE(false, true);
  for (const uint32_t connections_per_link : {1U, 3U}) {
    const Pair pair(connections_per_link, fails_over);
    let_rank_1_hint(pair);
    for (int turn = 0; turn < 3; ++turn) {
      REQUIRE(pair.at(0).progress().ok());
    }
    // Rank 1 may have met the request already.
    const std::string now = pair.link(0, 0).to_string();
    INFO(now);
    REQUIRE((now.find("closing") != std::string::npos ||
             now.find("closed while idle") != std::string::npos));
    pair.drive_until([&] { return one_link_is_open(pair, connections_per_link); });
    pass(pair, 0, 1);
  }
}

// What ranks do in a job: messages of all sizes on all channels, more links than the cap allows,
// and one rank that is late each round.
void exchange_under_cap(uint32_t connections_per_link, uint32_t cap, bool fails_over) {
  constexpr uint32_t kRanks = 3;
  constexpr uint32_t kRounds = 60;
  TcpCase config;
  config.connections_per_link = connections_per_link;
  config.max_connections = cap;
  config.fails_over = fails_over;
  const std::string errors = run_ranks(tcp_under_test(config), kRanks, [&](Rank& rank) -> Status {
    for (uint32_t round = 0; round < kRounds; ++round) {
      if (round % kRanks == rank.self.value()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      std::vector<std::vector<std::byte>> outgoing;
      std::vector<std::vector<std::byte>> incoming;
      outgoing.reserve(size_t{kRanks} * kChannelCount);
      incoming.reserve(size_t{kRanks} * kChannelCount);
      std::vector<Step> steps;
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        for (uint8_t channel = 0; channel < kChannelCount; ++channel) {
          // Some links rest each round; both ends agree on which, and on the size.
          if (peer == rank.self.value() || (round + channel + peer + rank.self.value()) % 3 == 0) {
            continue;
          }
          const size_t size = (round + channel) % 2 == 0 ? 40 : 3000 + size_t{7000} * channel;
          HORING_ASSIGN(Link * link, rank.link(peer, 0, channel));
          const auto& mine = outgoing.emplace_back(pattern(round * 16 + rank.self.value(), size));
          auto& theirs = incoming.emplace_back(size);
          steps.emplace_back([=, &mine]() -> Result<bool> {
            const ConstBytes part(mine);
            return link->try_send(frame_of(round, size), std::span(&part, 1));
          });
          steps.emplace_back([=, &theirs]() -> Result<bool> {
            const Bytes part(theirs);
            HORING_ASSIGN(const bool done,
                          link->try_recv(frame_of(round, size), std::span(&part, 1)));
            if (done) {
              HORING_TRY(check_pattern(round * 16 + peer, theirs));
            }
            return done;
          });
        }
      }
      HORING_TRY(rank.run(std::move(steps)));
    }
    return rank.exchange->barrier(rank.self.value());
  });
  REQUIRE(errors == "");
}

TEST_CASE("tcp: ranks that use more links than the cap lose no message") {
  exchange_under_cap(1, 2, GENERATE(false, true));
}

TEST_CASE("tcp: ranks that use more links of several connections than the cap lose no message") {
  exchange_under_cap(3, 2, GENERATE(false, true));
}

TEST_CASE("tcp: idle connections above the cap close and open again") {
  TcpCase config;
  config.max_connections = 3;
  config.fails_over = GENERATE(false, true);
  const UnderTest under_test = tcp_under_test(config);
  std::atomic<int> above_cap = 1;
  const std::string errors = run_ranks(under_test, 4, [&](Rank& rank) -> Status {
    auto& transport = dynamic_cast<TcpTransport&>(*rank.transport);
    for (uint32_t round = 0; round < 3; ++round) {
      std::vector<Step> steps;
      for (uint32_t peer = 0; peer < 4; ++peer) {
        for (uint8_t channel = 0; channel < kChannelCount && peer != rank.self.value(); ++channel) {
          HORING_ASSIGN(Link * link, rank.link(peer, 0, channel));
          steps.emplace_back([=] { return link->try_send(frame_of(round, 0), {}); });
          steps.emplace_back([=] { return link->try_recv(frame_of(round, 0), {}); });
        }
      }
      HORING_TRY(rank.run(std::move(steps)));
      // Rank 0 is the lower rank of all its 12 links: it comes back to its cap.
      if (rank.self.value() == 0) {
        above_cap = 1;
      }
      HORING_TRY(rank.exchange->barrier(rank.self.value()));
      for (const Deadline limit = deadline_after(ho::conformance::kHang); above_cap != 0;) {
        HORING_TRY(transport.progress());
        if (rank.self.value() == 0 && transport.open_connections() <= 3) {
          above_cap = 0;
        }
        if (passed(limit)) {
          return {StatusCode::kTimeout, std::to_string(transport.open_connections()) + " are open"};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      HORING_TRY(rank.exchange->barrier(rank.self.value()));
    }
    return {};
  });
  REQUIRE(errors == "");
}

}  // namespace
}  // namespace ho::conformance
