#include <cmath>

#include "catch.hpp"
#include "path_choice_for_test.hpp"
#include "transport/tcp/path_choice.hpp"

namespace ho::tcp {

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

TEST_CASE("a rail that is slow for half a second keeps its messages, however often one looks") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(8, 100e6);
  choice.run(8, 20e6, 62);
  CHECK(choice.better().empty());
  choice.run(8, 20e6, 62);
  CHECK(choice.better().size() == 4);
}

TEST_CASE("a slow rail that only seems well costs little, and is tried again much later") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6.25e6);
  choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
  for (const int samples : {4, 16, 64, 256}) {
    choice.run(samples, 25e6);  // few messages all fit into a token bucket
    CHECK(choice.better().empty());
    choice.run(1, 25e6);
    const auto more = choice->better(choice.now());
    REQUIRE(more);
    CHECK_FALSE(more->news);
    CHECK(std::abs(part_over(equal(1), more->shares) - 0.5) < 0.1);
    choice->on_flows(more->shares, true, choice.now());
    choice.run(5, 6.25e6);
    const auto back = choice->better(choice.now());
    REQUIRE(back);
    const bool gives_up = samples == 256;  // then it gets all: it would be found again
    CHECK(back->news == gives_up);
    CHECK(part_over(equal(1), back->shares) == (gives_up ? 1 : 4.0 / 13));
    choice->on_flows(back->shares, true, choice.now());
  }
}

TEST_CASE("a slow rail whose helper is lost shares with the others at once") {
  Choice choice;
  const std::vector<Share> shares = choice.share_slow_rail();
  choice->on_lost(shares, equal(2), choice.now());
  choice->on_flows(choice->over({equal(1)}), true, choice.now());
  choice.take_down(2);
  CHECK(choice.better() == Rails{1, 3, 0});
  CHECK(choice.better().empty());
}

TEST_CASE("a slow rail keeps its part where both ends find it at the same time") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 6.25e6);
  const std::vector<Share> shares = choice->better(choice.now())->shares;
  choice->on_flows(shares, false, choice.now());  // the peer's, and then its own
  choice->on_flows(shares, true, choice.now());
  choice.run(10, 6.25e6);
  CHECK(choice.better().empty());
  choice.run(1, 25e6);
  choice.run(4, 25e6);
  choice.gets_back(25e6);
}

TEST_CASE("a slow rail shares anew where the peer has found that a helper is lost") {
  Choice choice;
  choice.share_slow_rail();
  choice->on_flows(choice->over({equal(1)}), false, choice.now());
  CHECK(choice.better() == Rails{1, 2, 3, 0});
}

TEST_CASE("a helper that is lost elsewhere than at this host helps no more for a while") {
  Choice choice;
  const std::vector<Share> shares = choice.share_slow_rail();
  choice->on_lost(shares, equal(3), choice.now());
  choice->on_flows(choice->over({equal(1)}), true, choice.now());
  CHECK(choice.better() == Rails{1, 2, 0});
}

TEST_CASE("more messages for a slow rail that could not be had, or were lost, change nothing") {
  Choice choice;
  const std::vector<Share> shares = choice.share_slow_rail();
  choice.run(5, 25e6);
  const auto more = choice->better(choice.now());
  REQUIRE(more);
  SECTION("the other connections could not be had") {
    choice->on_not_had(more->shares, {}, choice.now());
    choice.wait_ms(7999);
    CHECK(choice.better().empty());
  }
  SECTION("one of them is lost at once") {
    choice->on_flows(more->shares, true, choice.now());
    choice->on_lost(more->shares, equal(2), choice.now());
    choice.take_down(2);
    choice->on_flows(choice->over({equal(1)}), true, choice.now());
    const auto anew = choice->better(choice.now());
    REQUIRE(anew);
    CHECK(part_over(equal(1), anew->shares) < 0.45);
  }
  SECTION("they cannot be taken back at once") {
    choice->on_flows(more->shares, true, choice.now());
    choice.run(5, 6.25e6);
    REQUIRE(choice.better().size() == 4);
    choice->on_not_had(shares, {}, choice.now());
    choice.run(40, 6.25e6);
    const auto undone = choice->better(choice.now());
    REQUIRE(undone);
    CHECK(part_over(equal(1), undone->shares) == 4.0 / 13);
  }
}

TEST_CASE("a rail that has stalled for a second has as few messages as weights can say") {
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  choice.run(4, 0);
  const auto better = choice->better(choice.now());
  REQUIRE(better);
  CHECK(part_over(equal(1), better->shares) < 0.03);
  choice->on_flows(better->shares, true, choice.now());
  choice.run(5, 25e6);
  choice.gets_back(25e6);
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

TEST_CASE("a rail that was well for eight times its wait before it is slow again waits no longer") {
  const int well = GENERATE(24, 40);  // the wait is a second
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run(6, 25e6);
  for (int i = 0; i < 3; ++i) {
    choice.run(5, 11e6);
    choice->on_flows(choice->better(choice.now())->shares, true, choice.now());
    choice.run(5, 16.6e6);
    CHECK((choice.better() == Rails{1}) == (well == 40 || i == 0));
    choice.flows_over({equal(1)});
    choice.run(well, 25e6);
  }
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

TEST_CASE("where no other rail is to be had, none is compared, and nothing is in doubt") {
  const bool others = GENERATE(true, false);
  Choice choice;
  choice.flows_over({equal(1)});
  choice.run_with_pauses(9, 25e6);
  if (!others) {
    choice->on_not_reached({equal(0), equal(2), equal(3)});
  }
  choice.run_with_pauses(9, 5e6);
  CHECK(choice.better().empty() == !others);
  CHECK(choice->in_doubt(choice.now()) == others);
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
