#include "transport/link_service.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace ho {
namespace {

// A link that is whole is looked at so often, one that is being mended as soon as this.
constexpr std::chrono::milliseconds kPeriod{50};
constexpr std::chrono::milliseconds kSoon{5};

}  // namespace

LinkService::Member::Member(std::shared_ptr<LinkService> service, Serve serve)
    : service_(std::move(service)) {
  const std::scoped_lock lock(service_->mutex_);
  position_ = service_->members_.insert(service_->members_.end(), std::move(serve));
}

LinkService::Member::~Member() {
  if (service_->process_ != ::getpid()) {
    return;  // the lock may have been the thread's when this process was forked
  }
  const std::scoped_lock lock(service_->mutex_);
  service_->members_.erase(position_);
}

std::shared_ptr<LinkService> LinkService::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<LinkService> current;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<LinkService> service = current.lock();
  if (service == nullptr || service->process_ != ::getpid()) {
    service = std::make_shared<LinkService>();
    current = service;
  }
  return service;
}

LinkService::LinkService() : process_(::getpid()), thread_([this] { serve_all(); }) {}

LinkService::~LinkService() {
  if (process_ != ::getpid()) {
    thread_.detach();  // a fork has no threads but the one that forked
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void LinkService::serve_all() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    bool soon = false;
    for (const Serve& serve : members_) {
      soon |= serve();
    }
    stopped_.wait_for(lock, soon ? kSoon : kPeriod);
  }
}

}  // namespace ho
