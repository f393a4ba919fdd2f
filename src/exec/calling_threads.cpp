#include "exec/calling_threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ho {

// What one thread is in. Its end says so to each.
struct CallingThreads::Memberships {
  Memberships() = default;
  Memberships(const Memberships&) = delete;
  Memberships& operator=(const Memberships&) = delete;
  ~Memberships() {
    for (const auto& [number, thread] : all) {
      thread->ended.store(true, std::memory_order_release);
    }
  }
  std::vector<std::pair<uint64_t, std::shared_ptr<Thread>>> all;
};

CallingThreads::Memberships& CallingThreads::memberships() {
  static thread_local Memberships of_this_thread;
  return of_this_thread;
}

std::shared_ptr<CallingThreads> CallingThreads::of_process() {
  static std::mutex mutex;
  static std::pair<pid_t, std::shared_ptr<CallingThreads>> current;
  const std::lock_guard lock(mutex);
  if (const pid_t self = ::getpid(); current.first != self) {
    current = {self, std::make_shared<CallingThreads>()};
  }
  return current.second;
}

CallingThreads::CallingThreads()
    : number_([] {
        static std::atomic<uint64_t> last = 0;
        return ++last;
      }()) {}

std::shared_ptr<CallingThreads::Thread> CallingThreads::this_thread() {
  auto& all = memberships().all;
  const auto known =
      std::ranges::find_if(all, [this](const auto& each) { return each.first == number_; });
  if (known != all.end()) {
    return known->second;
  }
  // Of jobs that are over only this thread's half is left.
  std::erase_if(all, [](const auto& each) { return each.second.use_count() == 1; });
  auto thread = std::make_shared<Thread>();
  {
    const std::lock_guard lock(mutex_);
    threads_.push_back(thread);
  }
  return all.emplace_back(number_, std::move(thread)).second;
}

bool CallingThreads::all_wait() {
  const std::lock_guard lock(mutex_);
  std::erase_if(threads_, [](const auto& thread) { return thread->ended.load(); });
  return std::ranges::all_of(threads_, [](const auto& thread) { return thread->waits.load() > 0; });
}

}  // namespace ho
