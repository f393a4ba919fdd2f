// The threads of this process that call in any communicator, and which of them wait for an
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
    std::atomic<uint32_t> waits = 0;  // that it is in; more than one: see Engine::Hold
    std::atomic<bool> ended = false;
  };
  struct Memberships;

 public:
  // Of all jobs: a thread that waits in one calls in no other. A forked child begins anew.
  [[nodiscard]] static std::shared_ptr<CallingThreads> of_process();

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
        : thread_(threads == nullptr ? nullptr : threads->this_thread()) {
      if (thread_ != nullptr) {
        ++thread_->waits;
      }
    }
    ~Waiting() {
      if (thread_ != nullptr) {
        --thread_->waits;
      }
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    const std::shared_ptr<Thread> thread_;  // another thread may end the wait
  };

 private:
  [[nodiscard]] static Memberships& memberships();
  [[nodiscard]] std::shared_ptr<Thread> this_thread();

  const uint64_t number_;  // no other one in this process ever has it
  std::mutex mutex_;
  std::vector<std::shared_ptr<Thread>> threads_;
};

}  // namespace ho
