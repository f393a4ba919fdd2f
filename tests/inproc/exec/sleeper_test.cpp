// On what a driver sleeps, and what ends that.
#include "exec/sleeper.hpp"

#include <memory>

#include "catch.hpp"
#include "must_have.hpp"
#include "network_double.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"

namespace ho {
namespace {

struct Sleeping {
  test::Journal journal;
  test::SilentLink link;
  test::SilentTransport shm{journal, link};
  test::NetworkDouble network{link};
  std::unique_ptr<Sleeper> sleeper = test::must_have(Sleeper::create(shm, &network, nullptr));
  std::mutex mutex;

  // The lock is held again afterwards.
  bool sleep(const RunWait& wait, Deadline until) {
    std::unique_lock lock(mutex);
    sleeper->sleep(lock, wait, until);
    return lock.owns_lock();
  }
};

RunWait wait_for_network() {
  RunWait wait;
  wait.network = true;
  return wait;
}

}  // namespace

TEST_CASE(
    "who waits for no network sleeps on the doorbell, and a call that came before ends that") {
  Sleeping rank;
  rank.sleeper->wake();
  CHECK(rank.sleep({}, Deadline::max()));
  REQUIRE(rank.journal.sleeps.size() == 1);
  // It is bounded, whatever the caller wants.
  CHECK(rank.journal.sleeps.front() < Deadline::max());
  CHECK(rank.network.waits == 0);
}

TEST_CASE("who sleeps on the doorbell beside links that may be lost looks at them soon") {
  Sleeping rank;
  rank.network.serves = Transport::Service::kNowAndThen;
  rank.sleeper->wake();
  CHECK(rank.sleep({}, Deadline::max()));
  REQUIRE(rank.journal.sleeps.size() == 1);
  CHECK(rank.journal.sleeps.front() <= deadline_after(std::chrono::milliseconds(50)));
}

TEST_CASE("who waits for the network sleeps on its descriptor, and leaves the doorbell alone") {
  Sleeping rank;
  rank.network.ready.ring();
  CHECK(rank.sleep(wait_for_network(), Deadline::max()));
  CHECK(rank.journal.sleeps.empty());
  CHECK(rank.network.waits == 1);
  CHECK(rank.network.ended_waits == 1);
}

TEST_CASE(
    "nobody sleeps where something has happened already, and the wait is ended all the same") {
  Sleeping rank;
  rank.network.may_wait = false;
  CHECK(rank.sleep(wait_for_network(), Deadline::max()));
  CHECK(rank.network.ended_waits == 1);
}

}  // namespace ho
