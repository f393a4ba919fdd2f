// A counter behind a file descriptor: readable, so epoll can wait for it, once somebody rang.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

class EventFd {
 public:
  // Non-blocking, close-on-exec, count 0.
  [[nodiscard]] static Result<EventFd> create();
  // Takes over a descriptor that another process sent.
  explicit EventFd(Fd fd) : fd_(std::move(fd)) {}

  // Adds one. Never blocks: a full counter is readable already.
  void ring() const;
  // Takes the whole count and resets it; 0 where nobody rang.
  [[nodiscard]] uint64_t drain() const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

}  // namespace ho
