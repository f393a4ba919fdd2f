// Who moves a communicator's operations, and when. There is one driver at a time: the thread that
// calls a blocking operation or waits for a request, else a progress thread (made with the first
// background operation). It holds the mutex while it moves pieces and lets go of it while it
// sleeps, so that other threads can submit, abort or ask where the rank is.
//
// The mutex is that of all of the engine's state. Functions that take a Lock want it held.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "os/clock.hpp"

namespace ho {

class Driver {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // What is driven. All are called with the lock held.
  class Driven {
   public:
    Driven() = default;
    Driven(const Driven&) = delete;
    Driven& operator=(const Driven&) = delete;
    // One pass over all that can move; it may let go of the lock. true: something moved or ended.
    virtual bool turn(Lock& lock) = 0;
    // Nothing can move: sleeps until something may, or until the deadline.
    virtual void sleep(Lock& lock, Deadline deadline) = 0;
    // Whether all that is under way is so small that a peer's next message is near.
    [[nodiscard]] virtual bool latency_bound() const = 0;
    // Whether something is to move though nobody waits for it.
    [[nodiscard]] virtual bool has_background() const = 0;

   protected:
    ~Driven() = default;
  };

  struct Options {
    std::chrono::nanoseconds spin{0};     // before the driver offers its core
    std::vector<uint32_t> progress_cpus;  // for the progress thread; empty: anywhere
  };

  Driver(Options options, Driven& driven) : options_(std::move(options)), driven_(driven) {}
  ~Driver() { stop(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  [[nodiscard]] Lock lock() { return Lock(mutex_); }
  // The lock for a question from outside, which a driver that finds work in every turn lets in.
  class Visit {
   public:
    explicit Visit(Driver& driver) : driver_(driver) {
      ++driver_.visitors_;
      lock_ = driver_.lock();
    }
    ~Visit() { --driver_.visitors_; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    [[nodiscard]] Lock& lock() { return lock_; }

   private:
    Driver& driver_;
    Lock lock_;
  };

  // Drives, or waits while another thread does, until there is enough or the deadline has passed.
  void drive(Lock& lock, const std::function<bool()>& enough, Deadline deadline);
  // One turn, where no other thread drives.
  void turn_once(Lock& lock);
  [[nodiscard]] bool driving() const { return driving_; }
  // The lock, where no thread drives or holds it.
  [[nodiscard]] std::optional<Lock> lock_if_idle();
  // There is something to do though nobody waits for it: the progress thread does it.
  void drive_in_background();
  // Ends the progress thread. Any number of times, by one thread.
  void stop();

  // Lets go of the lock until change() is called. false: the deadline has passed.
  [[nodiscard]] bool await_change(Lock& lock, Deadline deadline) {
    return changed_.wait_until(lock, deadline) != std::cv_status::timeout;
  }
  // All who wait look again.
  void change() { changed_.notify_all(); }
  // The same where an operation has ended. Most often nobody waits: that costs nothing.
  void wake_waiters() {
    if (waiters_ > 0 || progress_.joinable()) {
      changed_.notify_all();
    }
  }

 private:
  // What a driver does when nothing moves: spin, offer the core to others, sleep.
  struct Idleness {
    int64_t since_ns = 0;
    int yields = 0;
  };
  void idle(Lock& lock, Deadline deadline, Idleness& idleness);
  // false: the deadline has passed.
  [[nodiscard]] bool wait_for_driver(Lock& lock, Deadline deadline);
  void let_visitors_in(Lock& lock) const;
  void progress_loop();

  const Options options_;
  Driven& driven_;
  std::atomic<int> visitors_ = 0;  // threads that want the lock for a question
  std::mutex mutex_;
  std::condition_variable changed_;  // driver left, operation ended, new work, failure
  bool driving_ = false;
  bool stopping_ = false;  // the progress thread ends
  int waiters_ = 0;        // threads that wait while another one drives
  std::thread progress_;
};

}  // namespace ho
