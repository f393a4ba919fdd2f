// Shared memory with one link, on which nobody rings.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "os/event_fd.hpp"
#include "transport/shm/shm_transport.hpp"

namespace ho::test {

// What the driver did, kept by the test since the engine owns the transport.
struct Journal {
  std::atomic<int> turns = 0;
  std::vector<Deadline> sleeps;
};

class SilentTransport : public ShmTransport {
 public:
  // Both outlive the engine.
  SilentTransport(Journal& journal, Link& link) : journal_(journal), link_(link) {}

  Result<Link*> link(const LinkKey& /*key*/) override { return &link_; }
  [[nodiscard]] std::vector<LinkKey> unrequested_links() const override { return {}; }
  Status progress() override {
    ++journal_.turns;
    // A driver that spins, or sleeps past the deadline, would not end in time otherwise.
    const bool sane = journal_.turns < 10000 && journal_.sleeps.size() < 20;
    return sane ? Status() : Status(StatusCode::kInternal, "the driver does not stop");
  }
  [[nodiscard]] int wait_fd() const override { return event_.fd(); }
  bool prepare_wait(const WaitHint& /*hint*/) override { return true; }
  void finish_wait() override {}
  [[nodiscard]] uint64_t memory_bytes() const override { return 0; }
  bool prepare_sleep(const WaitHint& /*hint*/) override { return true; }
  void finish_sleep() override {}
  // Nobody sends: only wake() or the deadline ends a sleep.
  void sleep(Deadline deadline) override {
    journal_.sleeps.push_back(deadline);
    std::unique_lock lock(mutex_);
    woken_.wait_until(lock, deadline, [this] { return rung_; });
    rung_ = false;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    woken_.notify_all();
  }
  [[nodiscard]] std::shared_ptr<const void> membership() const override { return nullptr; }
  [[nodiscard]] std::function<bool()> others_ended() const override {
    return [] { return true; };
  }
  [[nodiscard]] std::string single_copy_status() const override { return ""; }

 private:
  Journal& journal_;
  Link& link_;
  EventFd event_ = *EventFd::create();
  std::mutex mutex_;
  std::condition_variable woken_;
  bool rung_ = false;
};

}  // namespace ho::test
