// One epoll instance and one timer: everything a transport sleeps on, behind one descriptor.
//
// Sockets are registered once, edge-triggered, for both directions. What an edge said is remembered
// in the Socket until a system call answers "would block", so that no descriptor is ever modified
// again and an idle connection costs nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho::tcp {

class TcpLink;

// A registered descriptor and what is known about it. Its address is the epoll key: never moved.
struct Socket {
  explicit Socket(Fd descriptor) : fd(std::move(descriptor)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() = default;

  Fd fd;
  bool readable = false;
  bool writable = false;
  bool hung_up = false;      // end of stream or error seen: stays readable, a read tells which
  TcpLink* owner = nullptr;  // once a link uses it
};

class Poller {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

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
  int64_t timer_set_for_ns_ = kNever;
};

}  // namespace ho::tcp
