// A socket, and what is known about whether it can be read and written.
//
// What an edge said is remembered here until a system call answers "would block". Whoever has no
// poller sets both flags before it tries.
#pragma once

#include <sys/types.h>

#include <functional>
#include <limits>
#include <memory>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

// A time that never comes, of now_ns().
inline constexpr int64_t kNeverNs = std::numeric_limits<int64_t>::max();

// Its address is the key of its poller: never moved. One thread at a time.
struct Socket {
  explicit Socket(Fd descriptor) : fd(std::move(descriptor)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }
  // Leaves its poller first: where a child that was forked keeps the connection open, the kernel
  // would go on to wake the poller for it.
  void close();

  Fd fd;
  bool readable = false;
  bool writable = false;
  bool hung_up = false;   // end of stream or error seen: stays readable, a read tells which
  bool* event = nullptr;  // set with each edge, once somebody uses the socket
  int epoll = -1;         // which it is in, by this process
  pid_t process = 0;
};

// Makes a poller wake its sleeper at each edge of the socket, and note the edges in it. The socket
// leaves the poller when it is closed. None: there is no poller, and each step tries everything.
using Watch = std::function<Status(Socket&)>;

}  // namespace ho
