// A thread of NCCL's that does what it is given, one thing after another.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <initializer_list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace ho::nccl_host {

class Worker {
 public:
  // name: at most 15 characters.
  explicit Worker(const char* name);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Does what it still has to do.
  ~Worker();

  [[nodiscard]] std::future<void> post(std::function<void()> task);
  // Waits for it; throws what it throws.
  void run(std::function<void()> task) { post(std::move(task)).get(); }

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

// Waits for all of them, then throws what the first that failed threw.
void wait_for_all(std::initializer_list<std::future<void>*> tasks);

// What one thread counts and another thread of this process sleeps on.
class EventCount {
 public:
  [[nodiscard]] uint32_t events() const { return events_.load(std::memory_order_acquire); }
  void notify();
  // Until there have been more than `seen` events, at most `most`.
  void wait(uint32_t seen, std::chrono::milliseconds most);

 private:
  std::atomic<uint32_t> events_{0};
  std::atomic<uint32_t> waiting_{0};
};

// Between checks of something that another thread or process changes: the core is given away at
// once, and for longer the longer nothing happens.
class Backoff {
 public:
  // After `timeout` of nothing pause() throws a HostError: "WHAT: nothing for N s".
  Backoff(std::string what, std::chrono::milliseconds timeout)
      : what_(std::move(what)), timeout_(timeout) {}
  void reset() { turns_ = 0; }
  void pause();
  // The same where `counted` counts all that is waited for: sleeps until something happens after
  // the `seen` events that the last check found. Waiting then costs no turns.
  void pause(EventCount& counted, uint32_t seen);

 private:
  void count_turn();

  std::string what_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point since_;
  unsigned turns_ = 0;
};

}  // namespace ho::nccl_host
