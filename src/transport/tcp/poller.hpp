// One epoll instance and one timer: everything a transport sleeps on, behind one descriptor.
//
// Sockets are registered once, edge-triggered, for both directions, and remember what an edge said
// (connect/socket.hpp), so that no descriptor is ever modified again and an idle connection costs
// nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "connect/socket.hpp"
#include "os/fd.hpp"

namespace ho::tcp {

class Poller {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Poller>> create();
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] Status add(Socket& socket);
  // The descriptor becomes readable at that time (or earlier, when an earlier one is set).
  void wake_at(int64_t time_ns);
  // Reads all edges into their sockets; never sleeps. true when the timer went off.
  [[nodiscard]] Result<bool> poll();

 private:
  Poller() = default;
  Fd epoll_;
  std::unique_ptr<Socket> timer_;
  int64_t timer_set_for_ns_ = kNeverNs;
};

}  // namespace ho::tcp
