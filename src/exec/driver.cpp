#include "exec/driver.hpp"

#include "base/log.hpp"
#include "os/affinity.hpp"

namespace ho {
namespace {

constexpr int kYieldsForLatency = 16;
constexpr int kYieldsForThroughput = 4;

void offer_core(Driver::Lock& lock) {
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

}  // namespace

void Driver::let_visitors_in(Lock& lock) const {
  if (visitors_ > 0) {
    offer_core(lock);
  }
}

// The driver signals when an operation ends or can be joined, and when it leaves.
bool Driver::wait_for_driver(Lock& lock, Deadline deadline) {
  ++waiters_;
  auto woken = std::cv_status::no_timeout;
  if (deadline == Deadline::max()) {
    changed_.wait(lock);
  } else {
    woken = changed_.wait_until(lock, deadline);
  }
  --waiters_;
  return woken == std::cv_status::no_timeout;
}

void Driver::drive(Lock& lock, const std::function<bool()>& enough, Deadline deadline) {
  while (!enough()) {
    if (driving_) {
      if (!wait_for_driver(lock, deadline)) {
        return;
      }
      continue;
    }
    driving_ = true;
    Idleness idleness;
    while (!enough() && !passed(deadline)) {
      let_visitors_in(lock);
      if (driven_.turn(lock)) {
        idleness = {};
      } else {
        idle(lock, deadline, idleness);
      }
    }
    driving_ = false;
    wake_waiters();
    if (!enough() && passed(deadline)) {
      return;
    }
  }
}

void Driver::turn_once(Lock& lock) {
  if (!driving_) {
    (void)driven_.turn(lock);
  }
}

std::optional<Driver::Lock> Driver::lock_if_idle() {
  Lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && !driving_ ? std::optional(std::move(lock)) : std::nullopt;
}

// Where ranks outnumber cores, what this rank waits for is often about to be done by a rank that
// waits for this core: offering it is cheaper than going to sleep and being woken. It costs next to
// nothing when no other process wants to run, but adds up over a long transfer, which gains nothing
// by it.
void Driver::idle(Lock& lock, Deadline deadline, Idleness& idleness) {
  const int64_t now = now_ns();
  idleness.since_ns = idleness.since_ns == 0 ? now : idleness.since_ns;
  if (now - idleness.since_ns < options_.spin.count()) {
    return;
  }
  if (idleness.yields < (driven_.latency_bound() ? kYieldsForLatency : kYieldsForThroughput)) {
    ++idleness.yields;
    offer_core(lock);
    return;
  }
  driven_.sleep(lock, deadline);
}

void Driver::drive_in_background() {
  if (!progress_.joinable()) {
    progress_ = std::thread([this] { progress_loop(); });
  }
  changed_.notify_all();
}

void Driver::progress_loop() {
  if (!options_.progress_cpus.empty()) {
    if (Status status = bind_current_thread(options_.progress_cpus); !status.ok()) {
      log_warn("progress thread stays unbound: {}", status.message());
    }
  }
  Lock lock(mutex_);
  while (!stopping_) {
    if (driven_.has_background() && !driving_) {
      drive(
          lock, [this] { return !driven_.has_background() || stopping_; }, Deadline::max());
    } else {
      changed_.wait(lock);
    }
  }
}

void Driver::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (progress_.joinable()) {
    progress_.join();
  }
}

}  // namespace ho
