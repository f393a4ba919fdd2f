#include "transport/tcp/rail_suspicion.hpp"

#include "catch.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

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
  void compare(double rate, double busy, double message_bytes = 65536) {
    suspicion_.restart();
    now_.connection.acknowledged_bytes = 0;  // other connections
    for (int i = 0; i < 2; ++i) {
      suspicion_.look_at_other(now_);
      add({.rate = rate, .busy = busy, .message_bytes = message_bytes});
    }
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
    now_.connection.busy_us += static_cast<uint64_t>(seconds * 1e6);
    now_.connection.peer_full_us += static_cast<uint64_t>(seconds * did.peer_full * 1e6);
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
  suspected.look(400, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 50e6}) == 8);  // two looks have 0.1 s of busy time
  CHECK(suspected.suspicion().rate() == Approx(50e6));
  CHECK(suspected.suspicion().usual() == Approx(100e6));
  suspected.look(2, {.rate = 100e6});
  CHECK(suspected.until_raised({.rate = 50e6, .busy = 1}, 2) == 6);
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
  suspected.compare(200e6, 0.5);
  CHECK_FALSE(suspected.suspicion().founded());  // a short look
  suspected.compare(72e6, 1);
  CHECK(suspected.suspicion().founded() == true);
  suspected.compare(71e6, 1);
  CHECK(suspected.suspicion().founded() == false);
  suspected.compare(200e6, 1, 1048576);  // larger messages are faster on any rail
  CHECK(suspected.suspicion().founded() == false);
  CHECK(suspected.suspicion().rate() == Approx(50e6));
}

TEST_CASE("a rail that was slow from the beginning is suspected once another one has been seen") {
  const bool comparable = GENERATE(true, false);
  Suspected suspected;
  suspected.look(32, {.rate = 25e6});
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  suspected.look(1, {.rate = 25e6});
  CHECK(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 1));
  suspected.compare(100e6, 1, comparable ? 65536 : 1048576);
  suspected.suspicion().take_baseline();
  suspected.suspicion().restart();
  CHECK((suspected.until_raised({.rate = 25e6}) > 0) == comparable);
  CHECK_FALSE(suspected.suspicion().confirmed());
  CHECK_FALSE(suspected.suspicion().needs_baseline(suspected.time_ns(), 0));
}

TEST_CASE("another rail that has sent no whole message yet shows nothing") {
  Suspected suspected;
  suspected.look(21, {.rate = 100e6});
  REQUIRE(suspected.until_raised({.rate = 50e6}) > 0);
  suspected.compare(100e6, 1, 1e9);
  CHECK_FALSE(suspected.suspicion().founded());
}

TEST_CASE("what is found not to be the rail is usual from then on, and waits longer each time") {
  Suspected suspected;
  double rate = 100e6;
  for (const int seconds : {10, 20, 40, 80, 160, 320, 640, 640}) {
    suspected.look(21, {.rate = rate});
    rate /= 2;
    REQUIRE(suspected.until_raised({.rate = rate}) > 0);
    suspected.suspicion().on_unfounded(suspected.time_ns());
    suspected.suspicion().restart();
    const int64_t from = suspected.time_ns();
    CHECK(suspected.until_raised({.rate = rate}) == 0);
    suspected.time_ns() = from;
    suspected.look(20, {.rate = rate / 2});
    CHECK_FALSE(suspected.suspicion().raised(from + seconds * kSecondNs - 1, 0));
    CHECK(suspected.suspicion().raised(from + seconds * kSecondNs, 0));
    suspected.time_ns() = from + seconds * kSecondNs;
    rate = 100e6;
  }
}

}  // namespace ho::tcp
