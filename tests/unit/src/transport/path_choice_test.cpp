#include "transport/tcp/path_choice.hpp"

#include <algorithm>

#include "catch.hpp"
#include "path_choice_for_test.hpp"

namespace ho::tcp {

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

}  // namespace ho::tcp
