#include "collectives/nccl_looker.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace paro {

// Owned by the thread too.
struct NcclLooker::Shared {
  // kAbandoned: whoever requested has gone, and the answer is still to come.
  enum class Phase : uint8_t { kFree, kRequested, kAnswered, kAbandoned };
  std::mutex mutex;
  std::condition_variable changed;
  Phase phase = Phase::kFree;
  Events events;
  Answers answers;
  bool stopping = false;
  bool stopped = false;

  void run(const ho::device::Device& device) {
    std::unique_lock lock(mutex);
    const auto is_requested = [this] { return phase == Phase::kRequested; };
    for (;;) {
      changed.wait(lock, [&] { return is_requested() || stopping; });
      if (stopping) {
        return;
      }
      Events requested = std::move(events);
      lock.unlock();
      Answers found = look(device, requested);
      requested.clear();
      lock.lock();
      answers = std::move(found);
      phase = is_requested() ? Phase::kAnswered : Phase::kFree;
      changed.notify_all();
    }
  }

  static Answers look(const ho::device::Device& device, const Events& events) {
    const auto current = ho::device::CurrentContext::enter(device);
    Answers found;
    for (const auto& event : events) {
      found.push_back(current.ok() ? event->passed() : ho::Result<bool>(current.status()));
    }
    return found;
  }
};

NcclLooker::NcclLooker(std::shared_ptr<const ho::device::Device> device,
                       std::chrono::milliseconds timeout)
    : timeout_(timeout),
      shared_(std::make_shared<Shared>()),
      thread_([shared = shared_, device = std::move(device)]() mutable {
        shared->run(*device);
        device.reset();
        const std::lock_guard lock(shared->mutex);
        shared->stopped = true;
        shared->changed.notify_all();
      }) {}

NcclLooker::~NcclLooker() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  const bool stopped = shared_->changed.wait_until(
      lock, ho::deadline_after(timeout_), [this] { return shared_->stopped; });
  lock.unlock();
  if (stopped) {
    thread_.join();
    return;
  }
  thread_.detach();
  ho::log_warn(
      "the driver has not answered whether NCCL's collectives are over: the thread that asks is "
      "left behind; end this process, and look for work on the device that does not end "
      "(nvidia-smi, py-spy)");
}

std::optional<NcclLooker::Answers> NcclLooker::ask(Events events) {
  if (events.empty()) {
    return Answers();
  }
  const ho::Deadline until = ho::deadline_after(timeout_);
  std::unique_lock lock(shared_->mutex);
  const auto wait_for = [&](Shared::Phase phase) {
    return shared_->changed.wait_until(lock, until, [&] { return shared_->phase == phase; });
  };
  if (!wait_for(Shared::Phase::kFree)) {
    return std::nullopt;
  }
  shared_->events = std::move(events);
  shared_->phase = Shared::Phase::kRequested;
  shared_->changed.notify_all();
  const bool answered = wait_for(Shared::Phase::kAnswered);
  const bool taken = shared_->events.empty();
  shared_->events.clear();
  shared_->phase = answered || !taken ? Shared::Phase::kFree : Shared::Phase::kAbandoned;
  shared_->changed.notify_all();
  return answered ? std::optional(std::move(shared_->answers)) : std::nullopt;
}

}  // namespace paro
