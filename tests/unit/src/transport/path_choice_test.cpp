#include "transport/tcp/path_choice.hpp"

#include <algorithm>
#include <cmath>

#include "catch.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kMsNs = 1'000'000;

Path equal(uint32_t rail) {
  return {RailIndex(rail), RailIndex(rail)};
}

// Of a link of rail 1, between hosts with four rails.
class Choice {
 public:
  explicit Choice(uint32_t connections = 1, bool opens = true)
      : choice_({.home = equal(1),
                 .opens = opens,
                 .connections_per_link = connections,
                 .all = [] { return paths_from(RailIndex(1), 4, 4); },
                 .usable = [this](const Path& path) { return path != down_; }}) {}

  PathChoice& operator*() { return choice_; }
  PathChoice* operator->() { return &choice_; }
  void flows_over(const std::vector<Path>& paths) {
    choice_.on_flows(choice_.over(paths), true, now_);
  }
  // The paths that it proposes, by their rail.
  std::vector<uint32_t> better() {
    const auto better = choice_.better(now_);
    std::vector<uint32_t> rails;
    for (const Path& path : paths_of(better ? better->shares : std::vector<Share>())) {
      REQUIRE(path.own == path.peer);
      rails.push_back(path.own.value());
    }
    return rails;
  }
  void wait_ms(int64_t ms) { now_ += ms * kMsNs; }
  [[nodiscard]] int64_t now() const { return now_; }
  void take_down(uint32_t rail) { down_ = equal(rail); }
  // The own rail for so many samples, at that rate.
  void run(int samples, double bytes_per_second) {
    for (int i = 0; i < samples; ++i) {
      wait_ms(250);
      look_.time_ns = now_;
      look_.connection.acknowledged_bytes += static_cast<uint64_t>(bytes_per_second / 4);
      look_.connection.busy_us += 250'000;
      look_.busy_us += 250'000;
      look_.connection.unsent_bytes = 1;
      choice_.look({.own = look_});
    }
  }
  // Messages with pauses, so that the kernel has nothing queued: over the own rail, or, while that
  // is compared with another one, over that.
  void run_with_pauses(int samples, double bytes_per_second) {
    look_.connection.unsent_bytes = 0;
    for (int i = 0; i < samples; ++i) {
      wait_ms(250);
      look_.time_ns = now_;
      look_.connection.acknowledged_bytes += static_cast<uint64_t>(bytes_per_second / 10);
      look_.connection.busy_us += 100'000;
      look_.busy_us += 100'000;
      look_.written_bytes = look_.connection.acknowledged_bytes;
      look_.messages = look_.written_bytes / 65536;
      choice_.look({.own = look_, .others = {look_}});
    }
  }
  // The own rail seems slow, and another one is tried, which has that rate.
  void compare(double own, double other, int samples = 6) {
    run_with_pauses(samples, own);
    REQUIRE(better().size() == 2);
    const auto tried = *choice_.better(now_);
    CHECK(tried.shares.back().weight == 0);
    CHECK_FALSE(tried.news);
    choice_.on_flows(tried.shares, true, now_);
    CHECK(choice_.watches_home());
    CHECK(better().empty());
    run_with_pauses(3, other);
  }
  // More messages first, then all: it is well.
  void gets_back(double bytes_per_second) {
    const auto more = choice_.better(now_);
    REQUIRE(more);
    CHECK(paths_of(more->shares).size() > 1);
    CHECK_FALSE(more->news);
    choice_.on_flows(more->shares, true, now_);
    run(8, bytes_per_second);
    CHECK(better().empty());
    run(1, bytes_per_second);
    const auto all = choice_.better(now_);
    REQUIRE(all);
    CHECK(paths_of(all->shares) == std::vector<Path>{equal(1)});
    CHECK(all->news);
  }
  // All messages go back, without a word, whatever was found.
  void go_back() {
    const auto back = choice_.better(now_);
    REQUIRE(back);
    CHECK(back->shares == std::vector<Share>{{equal(1)}});
    CHECK_FALSE(back->news);
    choice_.on_flows(back->shares, true, now_);
  }
  using Rails = std::vector<uint32_t>;

 private:
  PathChoice choice_;
  Path down_{RailIndex(9), RailIndex(9)};
  int64_t now_ = 1000 * kMsNs;
  RailLook look_{};
};

using Rails = Choice::Rails;

}  // namespace

TEST_CASE("a lost link tries each path once in a round, its own rail first in the next one") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice->on_lost(choice->over({equal(1)}), equal(1), choice.now());
  std::vector<Path> tried;
  for (auto next = choice->next(); next; next = choice->next()) {
    tried.push_back(*next);
    choice->on_not_reached({*next});
  }
  CHECK(tried.size() == 15);
  CHECK(tried[0] == equal(2));
  CHECK(tried[2] == equal(0));
  choice->begin_round();
  CHECK(*choice->next() == equal(1));
}

TEST_CASE("a link that is away moves to all other rails that are good, then back to its own") {
  Choice choice(4);
  CHECK(choice.better().empty());
  choice.flows_over({equal(1)});
  CHECK(choice.better().empty());
  choice->on_lost(choice->over({equal(1)}), equal(1), choice.now());
  choice.flows_over({equal(2)});
  CHECK_FALSE(choice->watches_home());
  CHECK(choice.better() == Rails{2, 3, 0});
  CHECK(choice->better(choice.now())->shares.size() == 6);  // 4 connections, as many over each
  choice.take_down(3);
  CHECK(choice.better() == Rails{2, 0});
  choice.take_down(9);
  const auto wide = choice->better(choice.now())->shares;
  choice->on_not_had(wide, {equal(3)}, choice.now());
  CHECK(choice.better().empty());
  choice.wait_ms(499);
  CHECK(choice.better().empty());
  choice.flows_over({equal(2)});
  choice.wait_ms(1);
  CHECK(choice.better() == Rails{2, 0});
  choice.flows_over({equal(2), equal(0)});
  CHECK(choice.better().empty());
  choice.wait_ms(500);
  CHECK(choice.better() == Rails{1});
  choice->on_not_had(choice->over({equal(1)}), {equal(1)}, choice.now());
  CHECK(choice.better().empty());
  choice.wait_ms(500);
  CHECK(choice.better() == Rails{1});
}

TEST_CASE("a rail that was not reached is asked again after 64 s, the own one for ever") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice->on_lost(choice->over({equal(1)}), equal(1), choice.now());
  choice->on_not_reached({equal(3)});
  choice.flows_over({equal(2), equal(0)});
  CHECK(choice.better().empty());
  int64_t last = choice.now();
  for (int i = 0; i < 20; ++i) {
    while (choice.better() != Rails{1}) {
      choice.wait_ms(100);
      REQUIRE(choice.now() - last <= 64'100 * kMsNs);
      if (choice.better() == Rails{2, 3, 0}) {
        REQUIRE(choice.now() > 60'000 * kMsNs);
        choice->on_not_had(choice->over({equal(2), equal(3), equal(0)}), {equal(3)}, choice.now());
      }
    }
    last = choice.now();
    choice->on_not_had(choice->over({equal(1)}), {equal(1)}, choice.now());
  }
}

TEST_CASE("a link that its peer took elsewhere looks for its own rail as if it had lost it") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice->on_flows(choice->over({equal(2)}), false, choice.now());
  CHECK(choice.better() == Rails{2, 3, 0});
  choice.wait_ms(500);
  CHECK(choice.better() == Rails{1});
  choice->on_not_had(choice->over({equal(1)}), {equal(1)}, choice.now());
  choice.wait_ms(500);
  CHECK(choice.better() == Rails{1});
  choice->on_lost(choice->over({equal(2)}), equal(2), choice.now());
  CHECK(*choice->next() == equal(3));
}

TEST_CASE("what could not be had at home does not hold up a link that is taken elsewhere") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice->on_not_had({{equal(2)}, {equal(1), 0}}, {equal(2)}, choice.now());
  choice->on_flows(choice->over({equal(3)}), false, choice.now());
  CHECK(choice.better() == Rails{3, 0});
}

TEST_CASE("a link has 64 connections at most, however its messages are spread") {
  Choice choice(64);
  CHECK(choice->over({equal(0), equal(2), equal(3)}).size() == 64);
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.run_with_pauses(6, 6.25e6);
  const auto tried = *choice->better(choice.now());
  CHECK(tried.shares.size() == 64);
  CHECK(tried.shares.back() == Share{equal(1), 0});
}

TEST_CASE("a link that is taken elsewhere again soon moves to all other rails as the first time") {
  Choice choice;
  choice.flows_over({equal(1)});
  for (int round = 0; round < 2; ++round) {
    choice->on_flows(choice->over({equal(2)}), false, choice.now());
    CHECK(choice.better() == Rails{2, 3, 0});
    choice.flows_over({equal(2), equal(3), equal(0)});
    CHECK(choice.better().empty());  // nothing is better: it looks again in 64 s
    choice.flows_over({equal(1)});
    choice.wait_ms(3000);
  }
}

TEST_CASE("a rail that comes and goes is taken back later each time, until it stays") {
  const bool peer_loses_it_first = GENERATE(false, true);
  Choice choice;
  const auto lose_after_ms = [&](int64_t ms) {
    choice.flows_over({equal(1)});
    choice.wait_ms(ms / 2);
    choice.flows_over({equal(1), equal(2)});  // that it shares for a while changes nothing
    choice.flows_over({equal(1)});
    choice.wait_ms(ms - ms / 2);
    if (peer_loses_it_first) {
      choice->on_flows(choice->over({equal(2)}), false, choice.now());
    } else {
      choice->on_lost(choice->over({equal(1)}), equal(1), choice.now());
    }
    choice.flows_over({equal(2), equal(3), equal(0)});
    const int64_t lost = choice.now();
    while (choice.better() != Rails{1}) {
      choice.wait_ms(10);
    }
    return (choice.now() - lost) / kMsNs;
  };
  CHECK(lose_after_ms(100'000) == 500);
  CHECK(lose_after_ms(3'900) == 1'000);
  CHECK(lose_after_ms(7'900) == 2'000);
  CHECK(lose_after_ms(15'900) == 4'000);
  CHECK(lose_after_ms(32'100) == 500);  // it has stayed for eight times as long
}

TEST_CASE("only the end that opens the link looks for what is better while it is away") {
  Choice choice(1, false);
  choice.flows_over({equal(1)});
  choice->on_lost(choice->over({equal(1)}), equal(1), choice.now());
  choice.flows_over({equal(2)});
  choice.wait_ms(100'000);
  CHECK(choice.better().empty());
}

TEST_CASE("a slow rail keeps the part that it can carry, and gets all back once it is well") {
  const bool opens = GENERATE(true, false);
  Choice choice(1, opens);
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  CHECK(choice.better().empty());
  choice.run(4, 0.81 * 25e6);
  CHECK(choice.better().empty());
  choice.run(opens ? 4 : 6, 6.25e6);
  REQUIRE(choice.better() == Rails{1, 2, 3, 0});
  auto better = *choice->better(choice.now());
  CHECK(better.reason == "the rail is slow, 6.25 MB a second, where 25 MB is usual");
  CHECK(better.shares[0].weight == 4);
  CHECK(better.shares[1].weight == 3);
  choice->on_flows(better.shares, true, choice.now());
  CHECK(choice->watches_home());
  CHECK(choice.better().empty());
  choice.run(6, 6.25e6);
  CHECK(choice.better().empty());  // as it should be
  choice.run(4, 5.6e6);
  CHECK(choice.better().empty());  // within a fifth
  choice.run(4, 2.5e6);
  better = *choice->better(choice.now());
  CHECK(part_over(equal(1), better.shares) < 4.0 / 13 / 2);
  choice->on_flows(better.shares, true, choice.now());
  choice.run(5, 22.6e6);
  choice.gets_back(22.6e6);
}

TEST_CASE("a slow rail that only seems well costs little, and is tried again much later") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6.25e6);
  choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
  for (const int samples : {4, 16, 64, 256, 256}) {
    choice.run(samples, 25e6);  // few messages all fit into a token bucket
    CHECK(choice.better().empty());
    choice.run(1, 25e6);
    const auto more = choice->better(choice.now());
    REQUIRE(more);
    CHECK_FALSE(more->news);
    CHECK(std::abs(part_over(equal(1), more->shares) - 0.5) < 0.1);
    choice->on_flows(more->shares, true, choice.now());
    choice.run(5, 6.25e6);
    const auto as_before = choice->better(choice.now());
    REQUIRE(as_before);
    CHECK_FALSE(as_before->news);
    CHECK(part_over(equal(1), as_before->shares) == 4.0 / 13);
    choice->on_flows(as_before->shares, true, choice.now());
  }
}

TEST_CASE("a slow rail whose helper is lost shares with the others at once") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6.25e6);
  const std::vector<Share> shares = choice->better(choice.now())->shares;
  choice->on_flows(shares, true, choice.now());
  choice->on_lost(shares, equal(2), choice.now());
  choice->on_flows(choice->over({equal(1)}), true, choice.now());
  choice.take_down(2);
  CHECK(choice.better() == Rails{1, 3, 0});
  CHECK(choice.better().empty());
}

// A few messages with pauses may wait for late acknowledgements.
TEST_CASE("a shared rail is slower still only where its messages wait") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6.25e6);
  choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
  choice.run_with_pauses(12, 3e6);
  CHECK(choice.better().empty());
  choice.run(5, 3e6);
  CHECK(choice.better() == Rails{1, 2, 3, 0});
}

TEST_CASE("a slow rail that cannot be had alone keeps its part, and is tried again later") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(5, 25e6);
  choice.run(4, 6e6);
  choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
  choice.run(6, 25e6);
  choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
  choice.run(9, 25e6);
  REQUIRE(choice.better() == Rails{1});
  choice->on_not_had(choice->over({equal(1)}), {}, choice.now());
  choice.wait_ms(499);
  CHECK(choice.better().empty());
  choice.wait_ms(1);
  CHECK(choice.better() == Rails{1});
}

TEST_CASE("a rail that is slow again soon gets its messages back later each time") {
  const bool at_once = GENERATE(true, false);
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  for (int samples = 4; samples <= 256; samples *= at_once ? 4 : 2) {
    choice.flows_over({equal(1)});
    choice.run(at_once ? 5 : 21, 25e6);
    choice.run(5, 11e6);
    choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
    choice.run(samples, 16.6e6);  // half as fast again, and more while it has few messages
    CHECK(choice.better().empty());
    choice.run(1, 16.6e6);
    CHECK(choice.better() == Rails{1});
  }
}

TEST_CASE("a path over which messages flow is not suspect any more") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice->on_not_reached({equal(3)});
  choice.flows_over({equal(1), equal(3)});
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 5e6);
  CHECK(choice.better() == Rails{1, 2, 3, 0});
}

TEST_CASE("the end that did not move a slow rail's messages leaves them where they are") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6e6);
  const auto better = *choice->better(choice.now());
  choice->on_flows(better.shares, false, choice.now());
  choice.run(10, 25e6);
  CHECK(choice.better().empty());
}

TEST_CASE("a rail that seems slow in a job with pauses is compared with another, then shares") {
  const bool opens = GENERATE(true, false);
  Choice choice(1, opens);
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.run_with_pauses(opens ? 3 : 5, 6.25e6);
  CHECK(choice.better().empty());
  choice.compare(6.25e6, 12.5e6);
  choice.go_back();
  choice.run_with_pauses(4, 6.25e6);
  CHECK(choice.better().empty());
  choice.run_with_pauses(1, 6.25e6);
  REQUIRE(choice.better() == Rails{1, 2, 3, 0});
  const auto better = *choice->better(choice.now());
  CHECK(better.reason == "the rail is slow, 6.25 MB a second, where 25 MB is usual");
  CHECK(better.news);
  REQUIRE(better.shares.size() == 4);
  CHECK(better.shares[0].weight == 4);
  CHECK(better.shares[1].weight == 3);
}

TEST_CASE("a rail that is as fast as another one gets all messages back, without a word") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.compare(6.25e6, 7e6);
  choice.go_back();
  choice.run_with_pauses(16, 6.25e6);
  CHECK(choice.better().empty());
}

TEST_CASE("a rail that seemed slow during a comparison, and does no more, keeps its messages") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.compare(6.25e6, 25e6);
  choice.go_back();
  choice.run_with_pauses(2, 25e6);
  choice.run_with_pauses(30, 6.25e6);
  CHECK(choice.better().empty());
  choice.run_with_pauses(10, 6.25e6);
  CHECK(choice.better() == Rails{3, 1});  // compared anew, with the next one
}

TEST_CASE("a comparison that shows nothing in time, or is lost, is given up and comes later") {
  const bool lost = GENERATE(true, false);
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.run_with_pauses(6, 6.25e6);
  REQUIRE(choice.better() == Rails{2, 1});
  const auto tried = choice->better(choice.now())->shares;
  choice->on_flows(tried, true, choice.now());
  if (lost) {
    choice->on_lost(tried, equal(2), choice.now());
    choice.flows_over({equal(1)});
  } else {
    choice.wait_ms(2999);
    CHECK(choice.better().empty());
    choice.wait_ms(1);
    CHECK(choice.better() == Rails{1});
    choice.go_back();
  }
  choice.run_with_pauses(9, 25e6);
  choice.run_with_pauses(25, 6.25e6);
  CHECK(choice.better().empty());
  choice.run_with_pauses(20, 6.25e6);
  CHECK(choice.better() == Rails{3, 1});
}

TEST_CASE("a rail that shares in a job with pauses is tried again, later each time") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.compare(6.25e6, 25e6);
  choice.go_back();
  choice.run_with_pauses(5, 6.25e6);
  auto better = choice->better(choice.now());
  REQUIRE(better);
  CHECK(better->reason.starts_with("the rail is slow, 6.25 MB a second"));
  for (const int64_t seconds : {8, 32, 128}) {
    choice->on_flows(better->shares, true, choice.now());
    choice.run_with_pauses(16, 6.25e6);
    choice.wait_ms(seconds * 1000 - 4000 - 1);
    CHECK(choice.better().empty());
    choice.wait_ms(1);
    better = choice->better(choice.now());
    REQUIRE(better);
    CHECK_FALSE(better->news);
    choice->on_flows(better->shares, true, choice.now());
    choice.run_with_pauses(5, 6.25e6);  // as slow as before, with more messages
    better = choice->better(choice.now());
    REQUIRE(better);
    CHECK_FALSE(better->news);
  }
  choice->on_flows(better->shares, true, choice.now());
  choice.run_with_pauses(40, 3.9e6);
  CHECK(choice.better().empty());
  choice.run_with_pauses(8, 2.8e6);
  better = choice->better(choice.now());
  REQUIRE(better);
  CHECK(better->reason.starts_with("the rail is slow, 2.8 MB a second"));
  choice->on_flows(better->shares, true, choice.now());
  choice.run_with_pauses(257, 23e6);
  better = choice->better(choice.now());
  REQUIRE(better);
  choice->on_flows(better->shares, true, choice.now());
  choice.run_with_pauses(9, 23e6);
  CHECK(choice.better() == Rails{1});  // it is well
  choice.flows_over({equal(1)});
  choice.run_with_pauses(3, 23e6);
  choice.compare(6.25e6, 25e6, 4);  // slow again, but not at once
}

TEST_CASE("a rail that has been slow from the beginning is found by a look at another one") {
  const bool opens = GENERATE(true, false);
  const double other = GENERATE(25e6, 6.5e6);
  Choice choice(1, opens);
  choice.flows_over({equal(1)});
  choice.run_with_pauses(opens ? 16 : 18, 6.25e6);  // the first one is no sample
  CHECK(choice.better().empty());
  choice.compare(6.25e6, other, 1);
  choice.go_back();
  choice.run_with_pauses(opens ? 4 : 6, 6.25e6);
  CHECK(choice.better().empty());
  if (other < 10e6) {
    choice.run_with_pauses(100, 6.25e6);
    CHECK(choice.better().empty());
    return;
  }
  choice.compare(6.25e6, other, 1);
  choice.go_back();
  choice.run_with_pauses(5, 6.25e6);
  const auto better = *choice->better(choice.now());
  CHECK(better.reason == "the rail is slow, 6.25 MB a second, where 25 MB is usual");
  CHECK(better.shares.size() == 4);
}

TEST_CASE("where no other rail is to be had, none is compared") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice->on_not_reached({equal(0), equal(2), equal(3)});
  choice.run_with_pauses(9, 5e6);
  CHECK(choice.better().empty());
}

TEST_CASE("a rail that could not be had for a comparison is tried again, but not soon") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(16, 25e6);
  int64_t pause_ms = 10'000;
  for (const uint32_t other : {2U, 3U, 0U}) {
    choice.run_with_pauses(1, 25e6);
    REQUIRE(choice.better() == Rails{other, 1});
    choice->on_not_had({{equal(other)}, {equal(1), 0}}, {equal(other)}, choice.now());
    choice.wait_ms(pause_ms - 500);
    choice.run_with_pauses(1, 25e6);
    CHECK(choice.better().empty());
    pause_ms *= 2;
  }
  choice.run_with_pauses(1, 25e6);
  CHECK(choice.better().empty());
  choice.wait_ms(23'500);  // 64 s after the last one
  choice.run_with_pauses(1, 25e6);
  CHECK(choice.better().empty());
  choice.run_with_pauses(1, 25e6);
  CHECK(choice.better() == Rails{2, 1});
}

TEST_CASE("a link that cannot go back from a comparison tries again after half a second") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  choice.compare(6.25e6, 7e6);
  const auto back = choice->better(choice.now())->shares;
  choice->on_not_had(back, {equal(1)}, choice.now());
  choice.wait_ms(499);
  CHECK(choice.better().empty());
  choice.wait_ms(1);
  CHECK(choice.better() == Rails{1});
}

TEST_CASE("a rate that changes by a twentieth up and down changes no weights") {
  Choice choice;
  choice.flows_over({equal(1)});
  for (int i = 0; i < 400; ++i) {
    choice.run(1, 25e6 * (i % 3 == 0 ? 0.95 : 1.05));
    REQUIRE(choice.better().empty());
  }
}

}  // namespace ho::tcp
