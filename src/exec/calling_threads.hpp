// The threads of this rank that call in the communicators of one job, and which of them wait for an
// operation without a limit of their own. Where all do, the rank does nothing more until one of
// these operations ends: a stall report may then follow its waits. Threads that have not called yet
// cannot be known.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace ho {

class CallingThreads {
 private:
  struct Thread {
    std::atomic<bool> waits = false;
    std::atomic<bool> ended = false;
  };
  struct Memberships;

 public:
  CallingThreads();
  CallingThreads(const CallingThreads&) = delete;
  CallingThreads& operator=(const CallingThreads&) = delete;
  ~CallingThreads() = default;

  // This thread calls. It counts until it ends.
  void add() { (void)this_thread(); }
  [[nodiscard]] bool all_wait();

  // While it lives, this thread waits. `threads` may be null: nobody asks.
  class Waiting {
   public:
    explicit Waiting(CallingThreads* threads)
        : thread_(threads == nullptr ? nullptr : &threads->this_thread()) {
      set(true);
    }
    ~Waiting() { set(false); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    void set(bool waits) {
      if (thread_ != nullptr) {
        thread_->waits.store(waits, std::memory_order_release);
      }
    }
    Thread* thread_;
  };

 private:
  [[nodiscard]] static Memberships& memberships();
  [[nodiscard]] Thread& this_thread();

  const uint64_t number_;  // no other one in this process ever has it
  std::mutex mutex_;
  std::vector<std::shared_ptr<Thread>> threads_;
};

}  // namespace ho
