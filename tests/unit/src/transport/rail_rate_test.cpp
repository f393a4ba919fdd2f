#include "transport/tcp/rail_rate.hpp"

#include <algorithm>

#include "catch.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kLookNs = 250'000'000;
constexpr uint32_t kShortestUs = 100;

// A connection that is looked at four times a second.
class Watched {
 public:
  // Of the time since the last look: how many bytes a second, which part of it the kernel had data,
  // and which part of that the peer took nothing.
  struct Did {
    double bytes_per_second = 0;
    double busy = 1;
    double closed = 0;
    bool queued = true;
    double others = 0;  // bytes a second that the rail carried besides
    uint32_t round_trip_us = 0;
    uint64_t in_flight_bytes = 96 << 10;
  };
  void look(const Did& did, bool shared = false) {
    const double seconds = static_cast<double>(kLookNs) / 1e9;
    now_.time_ns += kLookNs;
    const auto bytes = static_cast<uint64_t>(did.bytes_per_second * did.busy * seconds);
    now_.connection.acknowledged_bytes += bytes;
    now_.connection.busy_us += static_cast<uint64_t>(did.busy * seconds * 1e6);
    now_.connection.peer_full_us += static_cast<uint64_t>(did.closed * did.busy * seconds * 1e6);
    now_.connection.unsent_bytes = did.queued ? 5000 : 0;
    now_.connection.round_trip_us = did.round_trip_us;
    now_.connection.in_flight_bytes = did.in_flight_bytes;
    now_.connection.shortest_round_trip_us = did.round_trip_us == 0 ? 0 : kShortestUs;
    now_.rail_bytes =
        now_.rail_bytes.value_or(0) + bytes + static_cast<uint64_t>(did.others * seconds);
    rate_.look(now_, shared);
  }
  void look(int times, const Did& did, bool shared = false) {
    for (int i = 0; i < times; ++i) {
      look(did, shared);
    }
  }
  RailRate& rate() { return rate_; }

 private:
  RailRate rate_;
  RailLook now_{};
};

}  // namespace

TEST_CASE("a rail's rate is the median of samples in which the kernel had data to send") {
  Watched watched;
  watched.look(4, {.bytes_per_second = 100e6});
  CHECK_FALSE(watched.rate().now());  // the first look is no sample
  watched.look({.bytes_per_second = 100e6});
  CHECK(*watched.rate().now() == Approx(100e6));
  CHECK(watched.rate().best() == Approx(100e6));
  watched.look({.bytes_per_second = 1e6});  // one that is odd
  CHECK(*watched.rate().now() == Approx(100e6));
  watched.look(4, {.bytes_per_second = 25e6});
  CHECK(*watched.rate().now() == Approx(25e6));
  CHECK(watched.rate().best() == Approx(100e6));
}

TEST_CASE("samples without data to send, or with a peer that takes nothing, do not count") {
  Watched watched;
  watched.look(6, {.bytes_per_second = 100e6});
  watched.look(20, {.bytes_per_second = 1e6, .queued = false});
  watched.look(20, {.bytes_per_second = 1e6, .closed = 0.9});
  watched.look(20, {.bytes_per_second = 0, .busy = 0, .queued = false});
  CHECK(*watched.rate().now() == Approx(100e6));
  CHECK(watched.rate().samples() == 5);
}

TEST_CASE("a rail that has let much pass without a queue must show that it is slow again") {
  Watched watched;
  watched.look(6, {.bytes_per_second = 100e6});
  watched.look(3, {.bytes_per_second = 50e6});
  watched.look({.bytes_per_second = 50e6, .busy = 0.3});
  watched.look({.bytes_per_second = 50e6});
  CHECK_FALSE(watched.rate().slow(100e6));
  watched.look(2, {.bytes_per_second = 50e6});
  CHECK(watched.rate().slow(100e6));
}

TEST_CASE("data that waits in the network shows a rail's rate as data that waits in the host") {
  Watched watched;
  const auto look = [&](double bytes_per_second, uint32_t round_trip_us, double busy = 1) {
    watched.look(6,
                 {.bytes_per_second = bytes_per_second,
                  .busy = busy,
                  .queued = false,
                  .round_trip_us = round_trip_us});
    return watched.rate().now().value_or(0);
  };
  CHECK(look(100e6, 799) == 0);  // that is the way itself
  CHECK(look(100e6, 800) == Approx(100e6));
  CHECK(look(25e6, 800) == 0);  // so little is no queue on a rail with such a rate
  CHECK(look(25e6, 3200, 0.7) == 0);
  CHECK(look(25e6, 3200) == Approx(25e6));
  CHECK(watched.rate().slow(100e6));
  watched.look(9,  // the last bytes of messages, which the peer's process has not read yet
               {.bytes_per_second = 5e6,
                .queued = false,
                .round_trip_us = 40'000,
                .in_flight_bytes = 64 << 10});
  CHECK_FALSE(watched.rate().slow(100e6));
}

TEST_CASE("a few bytes that take long say nothing of a rail that has no rate yet") {
  Watched watched;
  watched.look(9,
               {.bytes_per_second = 1e6,
                .queued = false,
                .round_trip_us = 90'000,
                .in_flight_bytes = 90 << 10});
  CHECK_FALSE(watched.rate().now());
  watched.look(9, {.bytes_per_second = 1e6, .queued = false, .round_trip_us = 96'000});
  CHECK(*watched.rate().now() == Approx(1e6));
}

TEST_CASE("what a rail carries for others counts as its rate, so a shared rail is not slow") {
  Watched watched;
  watched.look(6, {.bytes_per_second = 100e6});
  watched.look(8, {.bytes_per_second = 50e6, .others = 50e6});
  CHECK(*watched.rate().now() == Approx(100e6));
}

TEST_CASE("where other rails help, a rate counts although the connection is not always busy") {
  Watched watched;
  watched.look(6, {.bytes_per_second = 100e6});
  watched.rate().restart();
  CHECK_FALSE(watched.rate().now());
  watched.look(6, {.bytes_per_second = 95e6, .busy = 0.3, .queued = false}, true);
  CHECK(*watched.rate().now() == Approx(95e6));
  CHECK(watched.rate().best() == Approx(100e6));
}

TEST_CASE("a rail that shares is no slower for what other links send while it is busy") {
  Watched watched;
  watched.look(5, {.bytes_per_second = 100e6});
  // Half of the time 25 MB a second, of which 15 are another link's.
  watched.look(8, {.bytes_per_second = 10e6, .busy = 0.5, .others = 7.5e6}, true);
  CHECK(*watched.rate().now() == Approx(12.5e6));
  CHECK(*watched.rate().at_most() == Approx(25e6));
  CHECK_FALSE(watched.rate().slow(25e6));
  watched.look(8, {.bytes_per_second = 10e6, .busy = 0.5, .others = 4e6}, true);
  CHECK(watched.rate().slow(25e6));
  CHECK_FALSE(watched.rate().slow_with_queue(25e6));
  watched.look(4, {.bytes_per_second = 10e6}, true);
  CHECK(watched.rate().slow_with_queue(25e6));
}

TEST_CASE("the weights of a slow rail let all links end at the same time") {
  CHECK(weights_of_slow_rail(0.25, 3) == RailWeights{4, 3});
  CHECK(weights_of_slow_rail(0.5, 1) == RailWeights{2, 1});
  CHECK(weights_of_slow_rail(1.0, 3) == RailWeights{1, 0});
  CHECK(weights_of_slow_rail(0.25, 0) == RailWeights{1, 0});
  for (double part = 0.05; part < 0.8; part += 0.05) {
    for (size_t others = 1; others <= 7; ++others) {
      const RailWeights weights = weights_of_slow_rail(part, others);
      const double sum = weights.own + static_cast<double>(others) * weights.other;
      // By how much the slowest rail is slower than with ideal parts of the messages.
      const double ideal = (static_cast<double>(others) + 1) / (static_cast<double>(others) + part);
      const double own = weights.own / sum / part;
      const double other = 1 + weights.other / sum;
      INFO("part " << part << ", " << others << " others: " << int{weights.own} << " to "
                   << int{weights.other});
      CHECK(std::max(own, other) < ideal * 1.05);
    }
  }
}

}  // namespace ho::tcp
