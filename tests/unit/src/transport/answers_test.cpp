// When a rail counts as down, from what the kernel says of its connection.
#include "connect/answers.hpp"

#include "catch.hpp"
#include "has.hpp"

namespace ho::tcp {
namespace {

tcp_info details_of(uint8_t retransmits, uint8_t probes, uint32_t silent_ms) {
  tcp_info details{};
  details.tcpi_retransmits = retransmits;
  details.tcpi_probes = probes;
  details.tcpi_last_ack_recv = silent_ms;
  return details;
}

TEST_CASE("a rail is down once data or probes have been unanswered for long at two checks") {
  for (const bool probes : {false, true}) {
    const uint8_t tries = 5;
    const auto silent = [&](uint32_t ms) {
      return probes ? details_of(0, tries, ms) : details_of(tries, 0, ms);
    };
    INFO((probes ? "probes" : "retransmissions"));
    AnswerWatch watch;
    CHECK(watch.check(silent(9'000)).ok());
    CHECK(watch.check(silent(10'000)).ok());
    CHECK_FALSE(watch.suspects());
    CHECK(watch.check(silent(11'000)).ok());
    CHECK(watch.suspects());
    const Status down = watch.check(silent(12'345));
    CHECK(down.code() == StatusCode::kConnection);
    CHECK(has(down, "the rail is down: data sent has been unanswered for 12 s"));
    CHECK_FALSE(watch.check(silent(13'000)).ok());
  }
}

TEST_CASE("an answer between two checks keeps a rail up") {
  AnswerWatch watch;
  for (int round = 0; round < 5; ++round) {
    CHECK(watch.check(details_of(1, 0, 11'000)).ok());
    CHECK(watch.check(details_of(0, 0, 3)).ok());
    CHECK(watch.check(details_of(1, 1, 200)).ok());
  }
}

TEST_CASE("an idle connection and a stopped peer's are alive however long they are silent") {
  AnswerWatch watch;
  for (uint32_t second = 0; second < 100; ++second) {
    CHECK(watch.check(details_of(0, 0, second * 1000)).ok());
  }
}

TEST_CASE("what was sent after a long silence is unanswered only since it was sent") {
  constexpr int64_t kSecondNs = 1'000'000'000;
  const std::chrono::milliseconds silence(2000);
  AnswerWatch watch;
  CHECK(watch.check(details_of(0, 0, 60'000), silence, 100 * kSecondNs).ok());
  CHECK(watch.check(details_of(2, 0, 61'000), silence, 101 * kSecondNs).ok());
  CHECK(watch.check(details_of(3, 0, 62'000), silence, 102 * kSecondNs).ok());
  CHECK(watch.check(details_of(4, 0, 63'000), silence, 103 * kSecondNs).ok());  // the first of two
  CHECK(has(watch.check(details_of(4, 0, 63'500), silence, 103 * kSecondNs + kSecondNs / 2),
            "data sent has been unanswered for 3500 ms"));
  AnswerWatch slow;
  CHECK(slow.check(details_of(0, 0, 60'000), 100 * kSecondNs).ok());
  for (int64_t second = 101; second <= 111; ++second) {
    CHECK(slow.check(details_of(5, 0, 70'000), second * kSecondNs).ok());
  }
  CHECK(has(slow.check(details_of(5, 0, 72'000), 112 * kSecondNs), "unanswered for 12 s"));
}

TEST_CASE("data is unanswered that was sent again more than once, or once and long ago") {
  CHECK_FALSE(unanswered(details_of(0, 0, 60'000)));
  CHECK_FALSE(unanswered(details_of(1, 0, 1000)));
  CHECK_FALSE(unanswered(details_of(0, 1, 1000)));
  CHECK(unanswered(details_of(1, 0, 1001)));
  CHECK(unanswered(details_of(0, 1, 1001)));
  CHECK(unanswered(details_of(2, 0, 0)));
  CHECK(unanswered(details_of(0, 2, 0)));
}

TEST_CASE("what is no TCP connection tells nothing") {
  CHECK_FALSE(look_at_connection(-1).has_value());
}

}  // namespace
}  // namespace ho::tcp
