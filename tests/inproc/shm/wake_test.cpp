// When a sleeping rank is woken, and when not: first with one thread that drives both ranks, so
// that the order of events is known, then with threads that sleep and wake at random.
#include <poll.h>

#include <random>
#include <thread>

#include "catch.hpp"
#include "conformance.hpp"
#include "shm_ranks.hpp"
#include "transport/device_link.hpp"

namespace ho::conformance {
namespace {

// Two ranks in one thread.
class Pair {
 public:
  explicit Pair(const ShmCase& config = {}) : ranks_(make_all(config, 2)) {}

  [[nodiscard]] ShmTransport& rank(uint32_t rank) { return *ranks_.at(rank); }
  [[nodiscard]] Link* link(uint32_t from) {
    LinkKey key;
    key.peer = GlobalRank(1 - from);
    return *ranks_.at(from)->link(key);
  }
  [[nodiscard]] bool send(size_t bytes) {
    const ConstBytes part = ConstBytes(payload_).first(bytes);
    const auto sent = link(0)->try_send(frame_of(sent_, bytes), std::span(&part, 1));
    REQUIRE(sent.ok());
    sent_ += *sent ? 1U : 0U;
    return *sent;
  }
  [[nodiscard]] bool receive(size_t bytes) {
    const Bytes part = Bytes(into_).first(bytes);
    const auto got = link(1)->try_recv(frame_of(received_, bytes), std::span(&part, 1));
    REQUIRE(got.ok());
    received_ += *got ? 1U : 0U;
    return *got;
  }
  // Whether an epoll sleep of this rank would end now.
  [[nodiscard]] bool rung(uint32_t rank) {
    pollfd waiting{ranks_.at(rank)->wait_fd(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 1;
  }

 private:
  std::vector<std::unique_ptr<ShmTransport>> ranks_;
  std::vector<std::byte> payload_ = pattern(9, 1 << 20);
  std::vector<std::byte> into_ = std::vector<std::byte>(1 << 20);
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

WaitHint hint_of(uint32_t arrivals, bool releases) {
  WaitHint hint;
  hint.intra_arrivals = arrivals;
  hint.intra_releases = releases;
  return hint;
}

TEST_CASE("a sleeper is woken by the arrival that completes its count") {
  Pair pair;
  REQUIRE_FALSE(pair.receive(8));
  REQUIRE(pair.rank(1).prepare_wait(hint_of(3, false)));
  REQUIRE(pair.send(8));
  REQUIRE(pair.send(8));
  CHECK_FALSE(pair.rung(1));
  REQUIRE(pair.send(8));
  CHECK(pair.rung(1));
  pair.rank(1).finish_wait();
  CHECK_FALSE(pair.rung(1));
  CHECK(pair.receive(8));
}

TEST_CASE("what has arrived before the sleep counts") {
  Pair pair;
  REQUIRE_FALSE(pair.receive(8));
  REQUIRE(pair.send(8));
  REQUIRE(pair.send(8));
  REQUIRE(pair.rank(1).prepare_wait(hint_of(3, false)));
  REQUIRE(pair.send(8));
  CHECK(pair.rung(1));
  pair.rank(1).finish_wait();
  REQUIRE(pair.receive(8));
  REQUIRE(pair.receive(8));
  REQUIRE(pair.receive(8));
  REQUIRE(pair.send(8));
  CHECK_FALSE(pair.rank(1).prepare_wait(hint_of(1, false)));  // news: do not sleep
  // A rank that has been told and does not want the message may sleep.
  CHECK(pair.rank(1).prepare_wait(hint_of(1, false)));
  pair.rank(1).finish_wait();
}

TEST_CASE("a half full ring wakes a sleeper that does not count") {
  Pair pair;
  REQUIRE_FALSE(pair.receive(960));
  REQUIRE(pair.rank(1).prepare_wait(hint_of(0, false)));
  for (int i = 0; i < 31; ++i) {
    REQUIRE(pair.send(960));  // 1 KiB each with its header, in a ring of 64 KiB
    CHECK_FALSE(pair.rung(1));
  }
  REQUIRE(pair.send(960));
  CHECK(pair.rung(1));
  pair.rank(1).finish_wait();
}

TEST_CASE("a reader's acknowledgement wakes the sender that asked for it, and only that") {
  Pair pair;
  REQUIRE(pair.send(100000));
  REQUIRE(pair.send(100000));
  REQUIRE(pair.rank(0).prepare_wait(hint_of(0, false)));
  REQUIRE(pair.receive(100000));
  CHECK_FALSE(pair.rung(0));
  pair.rank(0).finish_wait();
  CHECK(pair.link(0)->released() == 1);
  REQUIRE(pair.rank(0).prepare_wait(hint_of(0, true)));
  REQUIRE(pair.receive(100000));
  CHECK(pair.rung(0));
  pair.rank(0).finish_wait();
  CHECK(pair.link(0)->released() == 2);
}

TEST_CASE("an offer wakes whoever may have to answer it, and its answer who has made it") {
  Pair pair;
  REQUIRE_FALSE(pair.receive(8));
  REQUIRE(pair.rank(1).prepare_wait(hint_of(3, false)));
  REQUIRE(pair.link(0)->offsets()->try_offer(pattern(1, 100)).value());
  CHECK(pair.rung(1));
  pair.rank(1).finish_wait();
  REQUIRE(pair.rank(0).prepare_wait(hint_of(0, false)));
  REQUIRE_FALSE(pair.receive(8));
  CHECK(pair.rung(0));
  pair.rank(0).finish_wait();
  CHECK(pair.link(0)->offsets()->offer_answer().value() == OffsetMessages::OfferAnswer::kRefused);
  // Who is awake does not fall asleep over either.
  LinkKey other;
  other.peer = GlobalRank(1);
  other.channel = 1;
  Link* const again = pair.rank(0).link(other).value();
  REQUIRE(again->offsets()->try_offer(pattern(1, 100)).value());
  CHECK_FALSE(pair.rank(1).prepare_wait(hint_of(3, false)));
}

TEST_CASE("space wakes the sender that found none") {
  Pair pair;
  while (pair.send(960)) {
  }
  REQUIRE(pair.rank(0).prepare_wait(hint_of(0, true)));
  CHECK_FALSE(pair.rung(0));
  REQUIRE(pair.receive(960));
  CHECK(pair.rung(0));
  pair.rank(0).finish_wait();
  CHECK(pair.send(960));
}

TEST_CASE("wake() ends a sleep, and is remembered by a rank that is awake") {
  Pair pair;
  pair.rank(0).wake();
  CHECK_FALSE(pair.rank(0).prepare_wait(hint_of(0, false)));
  REQUIRE(pair.rank(0).prepare_wait(hint_of(0, false)));
  pair.rank(0).wake();
  CHECK(pair.rung(0));
  pair.rank(0).finish_wait();
  std::thread waker([&] { pair.rank(0).wake(); });
  pair.rank(0).wait(hint_of(0, false), Deadline::max());  // a lost wake() hangs here
  waker.join();
}

TEST_CASE("wait() ends at its deadline") {
  Pair pair;
  const Deadline deadline = deadline_after(std::chrono::milliseconds(20));
  pair.rank(0).wait(hint_of(1, true), deadline);
  CHECK(passed(deadline));
}

// Each turn of the conversation is a burst of messages of random sizes; both sides draw the same
// numbers. Sleeps with every kind of hint that suffices for the rest of the burst.
class Talker {
 public:
  Talker(ShmTransport& transport, Link* link, uint32_t self)
      : transport_(transport), link_(link), self_(self), own_random_(self + 99) {}

  [[nodiscard]] Status talk(uint32_t messages) {
    while (done_ < messages) {
      const auto burst = static_cast<uint32_t>(shared_random_() % 8 + 1);
      std::vector<size_t> sizes;
      for (uint32_t i = 0; i < burst; ++i) {
        const size_t limit = shared_random_() % 64 == 0 ? 60000 : 300;
        sizes.push_back(shared_random_() % limit);
      }
      HORING_TRY(turn_ % 2 == self_ ? send(sizes) : receive(sizes));
      ++turn_;
      done_ += burst;
    }
    return {};
  }

 private:
  [[nodiscard]] Status send(const std::vector<size_t>& sizes) {
    for (const size_t size : sizes) {
      const ConstBytes part = ConstBytes(payload_).first(size);
      while (true) {
        HORING_ASSIGN(const bool sent, link_->try_send(frame_of(index_, size), {&part, 1}));
        if (sent) {
          break;
        }
        HORING_TRY(sleep(0));
      }
      ++index_;
      ++sent_;
    }
    while (link_->released() < sent_) {
      HORING_TRY(sleep(0));
    }
    return {};
  }
  [[nodiscard]] Status receive(const std::vector<size_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Bytes part = Bytes(into_).first(sizes[i]);
      while (true) {
        HORING_ASSIGN(const bool got, link_->try_recv(frame_of(index_, sizes[i]), {&part, 1}));
        if (got) {
          break;
        }
        HORING_TRY(sleep(static_cast<uint32_t>(sizes.size() - i)));
      }
      if (!std::equal(part.begin(), part.end(), payload_.begin())) {
        return {StatusCode::kInternal, "message " + std::to_string(index_) + " differs"};
      }
      ++index_;
    }
    return {};
  }
  [[nodiscard]] Status sleep(uint32_t missing) {
    const uint32_t arrivals = missing == 0 ? 0 : static_cast<uint32_t>(own_random_() % missing) + 1;
    const WaitHint hint = hint_of(arrivals, missing == 0);
    const Deadline deadline = deadline_after(std::chrono::seconds(60));
    if (own_random_() % 2 == 0) {
      transport_.wait(hint, deadline);
    } else if (transport_.prepare_wait(hint)) {
      pollfd waiting{transport_.wait_fd(), POLLIN, 0};
      ::poll(&waiting, 1, 60000);
      transport_.finish_wait();
    }
    return passed(deadline) ? Status(StatusCode::kTimeout,
                                     "rank " + std::to_string(self_) +
                                         " was not woken for message " + std::to_string(index_))
                            : Status();
  }

  ShmTransport& transport_;
  Link* link_;
  uint32_t self_;
  std::mt19937 shared_random_{5};
  std::mt19937 own_random_;
  std::vector<std::byte> payload_ = pattern(3, 60000);
  std::vector<std::byte> into_ = std::vector<std::byte>(60000);
  uint32_t turn_ = 0;
  uint32_t done_ = 0;
  uint32_t index_ = 0;
  uint64_t sent_ = 0;
};

TEST_CASE("no wake-up is lost in 100000 messages with random hints") {
  Pair pair;
  Status errors[2];
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank, link = pair.link(rank)] {
      errors[rank] = Talker(pair.rank(rank), link, rank).talk(100000);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(errors[0].to_string() == Status().to_string());
  CHECK(errors[1].to_string() == Status().to_string());
}

}  // namespace
}  // namespace ho::conformance
