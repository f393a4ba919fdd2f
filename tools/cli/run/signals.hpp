// The signals that matter to a process that waits for others, as a readable descriptor.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

struct Signal {
  int number = 0;
  bool from_terminal = false;  // the whole foreground process group got it, not only this process
};

[[nodiscard]] std::string signal_name(int number);  // "SIGINT"

class SignalQueue {
 public:
  // Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD, and ignores SIGPIPE, for the rest of this process.
  [[nodiscard]] static Result<SignalQueue> open();
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The next signal that arrived, or nothing. Never waits.
  [[nodiscard]] std::optional<Signal> next();
  // Waits for a signal.
  [[nodiscard]] Signal wait();

 private:
  explicit SignalQueue(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace ho
