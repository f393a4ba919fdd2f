// Which threads of a rank count as callers, and when all of them wait.
#include "exec/calling_threads.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "catch.hpp"

namespace ho {
namespace {

// Where two threads meet, again and again.
class Turn {
 public:
  void go_to(int turn) {
    const std::lock_guard lock(mutex_);
    turn_ = turn;
    changed_.notify_all();
  }
  void await(int turn) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ >= turn; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
};

}  // namespace

TEST_CASE("all threads wait where each that has called does, and one that has ended counts not") {
  CallingThreads threads;
  std::optional<CallingThreads::Waiting> here(&threads);
  CHECK(threads.all_wait());
  Turn turn;
  std::thread other([&] {
    threads.add();
    turn.go_to(1);
    turn.await(2);
    {
      const CallingThreads::Waiting there(&threads);
      turn.go_to(3);
      turn.await(4);
    }
    turn.go_to(5);
    turn.await(6);
  });
  turn.await(1);
  CHECK_FALSE(threads.all_wait());
  turn.go_to(2);
  turn.await(3);
  CHECK(threads.all_wait());
  turn.go_to(4);
  turn.await(5);
  CHECK_FALSE(threads.all_wait());
  turn.go_to(6);
  other.join();
  CHECK(threads.all_wait());
  here.reset();
  CHECK_FALSE(threads.all_wait());
}

TEST_CASE("a thread that calls in two jobs waits in one of them only") {
  CallingThreads one;
  CallingThreads two;
  two.add();
  const CallingThreads::Waiting here(&one);
  CHECK(one.all_wait());
  CHECK_FALSE(two.all_wait());
}

TEST_CASE("who asks nobody needs no threads") {
  const CallingThreads::Waiting here(nullptr);
  SUCCEED();
}

}  // namespace ho
