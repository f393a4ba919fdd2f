// A rank of a world of control planes that is a process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "planes.hpp"

namespace ho::test {

// A rank in a process of its own, so that it can die without a goodbye.
class RankProcess {
 public:
  static constexpr int kRefused = 3;
  // Gathers under that tag, once, and does that then; ends where that is refused.
  explicit RankProcess(
      const Rendezvous& rendezvous,
      const char* tag = "up",
      const std::function<void()>& then = [] {})
      : pid_(::fork()) {
    if (pid_ == 0) {
      auto created = ControlPlane::create(rendezvous, key_of(), deadline_after(kFar));
      if (created.ok()) {
        (*created)->start({});
        if (!(*created)->barrier(tag, {}, deadline_after(kFar)).ok()) {
          ::_exit(kRefused);
        }
        then();
        ::pause();
      }
      ::_exit(1);
    }
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (!ended_) {
      end(SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  void end(int signal) const { ::kill(pid_, signal); }
  // Returns when it has stopped.
  void stop() const {
    end(SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  // -1: it did not end by itself.
  [[nodiscard]] int exit_status() {
    for (const Deadline limit = deadline_after(kFar); !passed(limit);) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(10ms);
    }
    return -1;
  }
  [[nodiscard]] std::string pid() const { return std::to_string(pid_); }

 private:
  pid_t pid_;
  bool ended_ = false;
};

}  // namespace ho::test
