#include "transport/tcp/rail_suspicion.hpp"

#include "catch.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

using Finding = RailSuspicion::Finding;

// A rail that carries messages in bursts, looked at four times a second.
class Suspected {
 public:
  struct Did {
    double rate = 0;  // bytes a second, while it is busy
    double busy = 0.2;
    double message_bytes = 65536;
    double peer_full = 0;
  };
  void look(int times, const Did& did) {
    for (int i = 0; i < times; ++i) {
      look(did);
    }
  }
  // How many looks until it is raised.
  int until_raised(const Did& did, size_t more = 0) {
    for (int looks = 1; looks <= 100; ++looks) {
      look(did);
      if (suspicion_.raised(now_.time_ns, more)) {
        return looks;
      }
    }
    return 0;
  }
  Finding go_on_comparing(const Did& other) {
    suspicion_.look_at_other(now_);
    add(other);
    suspicion_.look_at_other(now_);
    return suspicion_.finding(false);
  }
  // With another rail, which is busy for a part of a quarter of a second.
  Finding compare(const Did& other, bool last = false) {
    suspicion_.restart();
    now_.connection.acknowledged_bytes = 0;  // other connections
    suspicion_.look_at_other(now_);
    add(other);
    suspicion_.look_at_other(now_);
    return suspicion_.finding(last);
  }
  RailSuspicion& suspicion() { return suspicion_; }
  int64_t& time_ns() { return now_.time_ns; }

 private:
  void look(const Did& did) {
    add(did);
    suspicion_.look(now_);
  }
  void add(const Did& did) {
    const double seconds = 0.25 * did.busy;
    const auto bytes = static_cast<uint64_t>(did.rate * seconds);
    now_.time_ns += kSecondNs / 4;
    now_.connection.acknowledged_bytes += bytes;
    now_.busy_us += static_cast<uint64_t>(seconds * 1e6);
    now_.peer_full_us += static_cast<uint64_t>(seconds * did.peer_full * 1e6);
    now_.written_bytes += bytes;
    unsent_bytes_ += static_cast<double>(bytes);
    for (; unsent_bytes_ >= did.message_bytes; unsent_bytes_ -= did.message_bytes) {
      ++now_.messages;
    }
  }

  RailSuspicion suspicion_;
  RailLook now_{};
  double unsent_bytes_ = 0;
};

}  // namespace

TEST_CASE("a rail seems slow once it has been slower than usual for four samples in a row") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 71e6}) == 0);
  suspected.look(4000, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 50e6}) == 8);  // two looks have 0.1 s of busy time
  CHECK(suspected.suspicion().rate() == Approx(50e6));
  CHECK(suspected.suspicion().usual() == Approx(100e6).epsilon(0.02));
  suspected.look(2, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 50e6, .busy = 1}, 2) == 6);
}

TEST_CASE("a slow rail can do what it has done at most since it seems slow") {
  Suspected rail;
  rail.look(20, {.rate = 10e6, .busy = 0.5});
  for (const double rate : {4e6, 5e6, 3e6, 2e6}) {
    rail.look(1, {.rate = rate, .busy = 0.5});
  }
  CHECK(rail.suspicion().rate() == Approx(5e6));
  rail.look(1, {.rate = 9e6, .busy = 0.5});
  rail.look(1, {.rate = 3e6, .busy = 0.5});
  CHECK(rail.suspicion().rate() == Approx(3e6));
}

TEST_CASE("a rail is in doubt from its first slow sample on, while it is in use") {
  Suspected rail;
  const auto in_doubt = [&rail] { return rail.suspicion().in_doubt(rail.time_ns()); };
  rail.look(20, {.rate = 10e6, .busy = 0.5});
  CHECK_FALSE(in_doubt());
  rail.look(1, {.rate = 4e6, .busy = 0.5});
  CHECK(in_doubt());
  rail.time_ns() += kSecondNs;  // it is not used
  CHECK_FALSE(in_doubt());
  CHECK(rail.until_raised({.rate = 4e6, .busy = 0.5}) == 3);
  CHECK(in_doubt());
  CHECK(rail.compare({.rate = 10e6, .busy = 0.9}) == Finding::kFaster);
  rail.suspicion().on_compared(Finding::kFaster, false, rail.time_ns());
  rail.look(1, {.rate = 4e6, .busy = 0.5});
  CHECK(in_doubt());
  CHECK(rail.compare({.rate = 10e6, .busy = 0.9}, true) != Finding::kNotYet);
  rail.suspicion().on_compared(Finding::kNoFaster, false, rail.time_ns());
  rail.look(5, {.rate = 4e6, .busy = 0.5});
  CHECK_FALSE(in_doubt());
}

TEST_CASE("a rail that is faster than usual for seconds does not seem slow when that ends") {
  Suspected suspected;
  const auto at = [](double rate) { return Suspected::Did{rate, 1, 16384}; };
  suspected.look(20, at(25e6));
  suspected.look(28, at(50e6));  // 7 s
  CHECK(suspected.suspicion().usual() < 34e6);
  CHECK(suspected.until_raised(at(25e6)) == 0);
  suspected.look(240, at(50e6));
  CHECK(suspected.until_raised(at(25e6)) == 4);
}

TEST_CASE("a rate that changes by a twentieth up and down raises no suspicion") {
  Suspected suspected;
  for (int i = 0; i < 400; ++i) {
    CHECK(suspected.until_raised({.rate = 100e6 * (i % 3 == 0 ? 0.95 : 1.05)}) == 0);
  }
}

TEST_CASE("messages of another size are compared with such messages alone, and tiny ones never") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 20e6, .message_bytes = 8192}) == 0);
  suspected.look(20, {.rate = 1e6, .message_bytes = 1024});
  CHECK(suspected.until_raised({.rate = 0.1e6, .message_bytes = 1024}) == 0);
  CHECK(suspected.until_raised({.rate = 50e6, .message_bytes = 70000}) == 8);
}

TEST_CASE("a peer that takes no more makes no rail seem slow") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 10e6, .peer_full = 0.5}) == 0);
}

TEST_CASE("a suspicion is founded where another rail is much faster with the same messages") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  CHECK(suspected.compare({.rate = 200e6, .busy = 0.5}) == Finding::kNotYet);
  CHECK(suspected.compare({.rate = 80e6, .busy = 1}) == Finding::kFaster);
  CHECK(suspected.compare({.rate = 70e6, .busy = 1}) == Finding::kNoFaster);
  CHECK(suspected.suspicion().rate() == Approx(50e6));
}

TEST_CASE("where time is over, less is enough for a rail that is faster, and for no other") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  CHECK(suspected.compare({.rate = 100e6, .busy = 0.5}, true) == Finding::kFaster);
  CHECK(suspected.compare({.rate = 50e6, .busy = 0.5}, true) == Finding::kNothing);
  CHECK(suspected.compare({.rate = 100e6, .busy = 0.1}, true) == Finding::kNothing);
  CHECK(suspected.compare({.rate = 100e6, .busy = 1, .message_bytes = 1e9}) == Finding::kNotYet);
}

TEST_CASE("messages of another size, or a full peer, show nothing of another rail") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  for (const double bytes : {65536 * 1.5, 65536 / 1.5}) {
    const Suspected::Did other = {.rate = 200e6, .busy = 1, .message_bytes = bytes};
    CHECK(suspected.compare(other) == Finding::kNotYet);  // others may come
    CHECK(suspected.compare(other, true) == Finding::kNothing);
  }
  const Suspected::Did full = {.rate = 200e6, .busy = 1, .peer_full = 0.5};
  CHECK(suspected.compare(full, true) == Finding::kNothing);
  CHECK(suspected.compare({.rate = 200e6, .busy = 1, .message_bytes = 80000}) == Finding::kFaster);
}

TEST_CASE("a comparison that shows nothing changes nothing, and the next one waits longer") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  for (const int seconds : {10, 20}) {
    const int64_t from = suspected.time_ns();
    suspected.suspicion().on_compared(Finding::kNothing, false, from);
    suspected.suspicion().restart();
    REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
    CHECK(suspected.time_ns() - from >= seconds * kSecondNs);
    CHECK(suspected.time_ns() - from <= (seconds + 1) * kSecondNs);
  }
}

TEST_CASE("a rail that is idle is not compared") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  suspected.look(1, {.rate = 50e6, .busy = 0});
  CHECK_FALSE(suspected.suspicion().raised(suspected.time_ns(), 0));
  CHECK(suspected.until_raised({.rate = 50e6}) <= 2);
}

TEST_CASE("a rail that was slow from the beginning is suspected once another one has been seen") {
  const bool comparable = GENERATE(true, false);
  Suspected suspected;
  suspected.look(32, {.rate = 25e6});
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  suspected.look(1, {.rate = 25e6});
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 1));
  const Finding finding = suspected.compare(
      {.rate = 100e6, .busy = 1, .message_bytes = comparable ? 65536.0 : 1048576}, true);
  suspected.suspicion().on_compared(finding, true, suspected.time_ns());
  suspected.suspicion().restart();
  CHECK((suspected.until_raised({.rate = 25e6}) > 0) == comparable);
  suspected.look(comparable ? 2 : 3, {.rate = 100e6});
  suspected.time_ns() += 10 * kSecondNs;
  // What could not be compared needs one still.
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0) == !comparable);
}

TEST_CASE("each size of messages has its own slow samples in a row, and a baseline if need be") {
  const bool faster = GENERATE(true, false);
  Suspected suspected;
  const Suspected::Did small = {.rate = 33e6, .message_bytes = 16384};
  const auto in_turns = [&](int times, double rate) {
    for (int i = 0; i < times; ++i) {
      suspected.look(2, small);
      suspected.look(2, {.rate = rate});
    }
  };
  suspected.look(1, small);
  in_turns(17, 100e6);
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  suspected.suspicion().on_compared(
      faster ? Finding::kFaster : Finding::kNoFaster, true, suspected.time_ns());
  suspected.look(2, small);  // on a rail that is well smaller ones need none
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0) == faster);
  suspected.look(34, {.rate = 150e6, .message_bytes = 262144});
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  in_turns(3, 50e6);
  CHECK(suspected.until_raised({.rate = 50e6}) <= 2);
}

TEST_CASE("two sizes of messages are confirmed each by itself, until a while has passed") {
  Suspected suspected;
  const auto both = [&](int times, double part) {
    for (int i = 0; i < times; ++i) {
      suspected.look(2, {.rate = part * 33e6, .message_bytes = 16384});
      suspected.look(2, {.rate = part * 100e6});
    }
  };
  suspected.look(1, {.rate = 100e6});
  both(5, 1);
  both(5, 0.5);
  suspected.suspicion().on_compared(Finding::kFaster, false, suspected.time_ns());
  suspected.look(2, {.rate = 16e6, .message_bytes = 16384});
  CHECK_FALSE(suspected.suspicion().confirmed());
  suspected.suspicion().on_compared(Finding::kFaster, false, suspected.time_ns());
  CHECK(suspected.suspicion().confirmed());
  suspected.look(2, {.rate = 50e6});
  CHECK(suspected.suspicion().confirmed());
  suspected.look(2, {.rate = 100e6});
  CHECK_FALSE(suspected.suspicion().confirmed());
  suspected.look(2, {.rate = 16e6, .message_bytes = 16384});
  CHECK(suspected.suspicion().confirmed());
  suspected.look(2 * 64, {.rate = 100e6});
  suspected.look(2, {.rate = 16e6, .message_bytes = 16384});
  CHECK_FALSE(suspected.suspicion().confirmed());
}

TEST_CASE("of another rail's messages those of the same size are compared") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  suspected.suspicion().restart();
  for (int i = 0; i < 3; ++i) {
    CHECK(suspected.go_on_comparing({.rate = 300e6, .busy = 1, .message_bytes = 1048576}) ==
          Finding::kNotYet);
    const Finding finding = suspected.go_on_comparing({.rate = 40e6, .busy = 0.3});
    CHECK(finding == (i < 2 ? Finding::kNotYet : Finding::kNoFaster));
  }
}

TEST_CASE("baselines that show nothing hold up no suspicion") {
  Suspected suspected;
  suspected.look(33, {.rate = 100e6});
  for (int i = 0; i < 7; ++i) {
    suspected.suspicion().on_compared(Finding::kNothing, true, suspected.time_ns());
  }
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  CHECK(suspected.until_raised({.rate = 50e6}) == 8);
}

TEST_CASE("what is found not to be the rail is usual from then on, and waits longer each time") {
  Suspected suspected;
  double rate = 100e6;
  for (const int seconds : {10, 20, 40, 80, 160, 320, 640, 640}) {
    suspected.look(2001, {.rate = rate});
    rate /= 2;
    REQUIRE(suspected.until_raised({.rate = rate}) > 0);
    suspected.suspicion().on_compared(Finding::kNoFaster, false, suspected.time_ns());
    suspected.suspicion().restart();
    const int64_t from = suspected.time_ns();
    CHECK(suspected.until_raised({.rate = rate}) == 0);
    suspected.time_ns() = from;
    suspected.look(21, {.rate = rate / 2});
    CHECK_FALSE(suspected.suspicion().raised(from + seconds * kSecondNs - 1, 0));
    CHECK(suspected.suspicion().raised(from + seconds * kSecondNs, 0));
    suspected.time_ns() = from + seconds * kSecondNs;
    rate = 100e6;
  }
}

}  // namespace ho::tcp
