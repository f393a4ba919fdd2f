// Who drives, and what a driver does when nothing moves.
#include "exec/driver.hpp"

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "catch.hpp"

namespace ho {
namespace {

class Scripted final : public Driver::Driven {
 public:
  std::function<bool(Driver::Lock&)> on_turn = [](Driver::Lock&) { return false; };
  std::function<void(Driver::Lock&)> on_sleep = [](Driver::Lock&) {};
  std::function<bool()> background = [] { return false; };
  bool small = true;

  bool turn(Driver::Lock& lock) override { return on_turn(lock); }
  void sleep(Driver::Lock& lock, Deadline /*deadline*/) override { on_sleep(lock); }
  [[nodiscard]] bool latency_bound() const override { return small; }
  [[nodiscard]] bool has_background() const override { return background(); }
};

TEST_CASE("one thread drives at a time, and all have what they wait for") {
  constexpr int kThreads = 4;
  constexpr int kTurns = 200;
  Scripted driven;
  Driver driver({}, driven);
  int drivers = 0;
  bool together = false;
  int turns = 0;
  driven.on_turn = [&](Driver::Lock& lock) {
    together |= ++drivers > 1;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    --drivers;
    if (++turns % (kTurns / kThreads) == 0) {
      driver.wake_waiters();
    }
    return true;
  };
  std::vector<std::thread> threads;
  for (int i = 1; i <= kThreads; ++i) {
    threads.emplace_back([&, i] {
      Driver::Lock lock = driver.lock();
      driver.drive(
          lock, [&, i] { return turns >= i * (kTurns / kThreads); }, Deadline::max());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK_FALSE(together);
  CHECK(turns >= kTurns);
}

TEST_CASE("what is to be done in the background is done while nobody waits for it") {
  Scripted driven;
  Driver driver({}, driven);
  int left = 5;
  std::promise<void> done;
  driven.background = [&] { return left > 0; };
  driven.on_turn = [&](Driver::Lock&) {
    if (--left == 0) {
      done.set_value();
    }
    return true;
  };
  {
    const Driver::Lock lock = driver.lock();
    driver.drive_in_background();
  }
  done.get_future().wait();
  driver.stop();
  driver.stop();
  CHECK(left == 0);
}

TEST_CASE("a visitor gets the lock though its driver finds work in every turn") {
  Scripted driven;
  Driver driver({}, driven);
  driven.on_turn = [](Driver::Lock&) { return true; };
  bool visited = false;
  std::thread visitor([&] {
    const Driver::Visit visit(driver);
    visited = true;
  });
  Driver::Lock lock = driver.lock();
  driver.drive(
      lock, [&] { return visited; }, Deadline::max());
  lock.unlock();
  visitor.join();
  CHECK(visited);
}

TEST_CASE("a driver offers its core before it sleeps, more often where messages are small") {
  for (const bool small : {true, false}) {
    Scripted driven;
    driven.small = small;
    Driver driver({}, driven);
    int turns = 0;
    bool slept = false;
    driven.on_turn = [&](Driver::Lock&) {
      ++turns;
      return false;
    };
    driven.on_sleep = [&](Driver::Lock&) { slept = true; };
    Driver::Lock lock = driver.lock();
    driver.drive(
        lock, [&] { return slept; }, Deadline::max());
    CHECK(turns == (small ? 17 : 5));
  }
}

TEST_CASE("a drive whose deadline has passed moves nothing and does not wait") {
  Scripted driven;
  Driver driver({}, driven);
  int turns = 0;
  driven.on_turn = [&](Driver::Lock&) { return ++turns > 0; };
  Driver::Lock lock = driver.lock();
  driver.drive(
      lock, [] { return false; }, Deadline());
  CHECK(turns == 0);
  CHECK_FALSE(driver.driving());
}

}  // namespace
}  // namespace ho
