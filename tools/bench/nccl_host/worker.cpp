#include "bench/nccl_host/worker.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "bench/nccl_host/error.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"

namespace ho::nccl_host {

Worker::Worker(const char* name) : thread_([this] { loop(); }) {
  ::pthread_setname_np(thread_.native_handle(), name);
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::future<void> Worker::post(std::function<void()> task) {
  std::packaged_task<void()> packaged(std::move(task));
  std::future<void> done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(packaged));
  }
  changed_.notify_all();
  return done;
}

void Worker::loop() {
  while (true) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) {
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void wait_for_all(std::initializer_list<std::future<void>*> tasks) {
  std::exception_ptr first;
  for (std::future<void>* const task : tasks) {
    try {
      task->get();
    } catch (...) {
      first = first ? first : std::current_exception();
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

// Either the waiter sees the event, or the notifier sees the waiter: all four are one order.
void EventCount::notify() {
  events_.fetch_add(1, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) > 0) {
    futex_wake(events_, 1);
  }
}

void EventCount::wait(uint32_t seen, std::chrono::milliseconds most) {
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  static_cast<void>(futex_wait(events_, seen, deadline_after(most)));
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

void Backoff::count_turn() {
  const auto now = std::chrono::steady_clock::now();
  if (turns_++ == 0) {
    since_ = now;
  }
  if (now - since_ > timeout_) {
    throw HostError(what_ + ": nothing for " +
                    std::to_string(std::chrono::duration<double>(timeout_).count()) + " s");
  }
}

void Backoff::pause(EventCount& counted, uint32_t seen) {
  constexpr std::chrono::milliseconds kLook{10};  // whether timeout is over
  count_turn();
  counted.wait(seen, kLook);
}

// Few yields: where others compute, each may cost a whole turn of theirs, while a sleeper is woken
// into its own. The pauses double: with many ranks on few cores short ones alone fill the cores.
void Backoff::pause() {
  using std::chrono::microseconds;
  constexpr unsigned kYields = 3;
  constexpr unsigned kDoublings = 4;
  constexpr unsigned kLongPauses = 500;
  count_turn();
  if (turns_ <= kYields) {
    std::this_thread::yield();
  } else if (turns_ < kLongPauses) {
    std::this_thread::sleep_for(microseconds(10U << std::min(turns_ - kYields - 1, kDoublings)));
  } else {
    std::this_thread::sleep_for(microseconds(1000));
  }
}

}  // namespace ho::nccl_host
