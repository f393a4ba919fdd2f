// A job whose ranks are processes, for tests that kill, stop or mislead some of them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "horing.h"

namespace ho::test {

struct ProcessJobOptions {
  std::string groups = "2x2";
  uint64_t timeout_ms = 120000;  // for hangs: a busy machine may take ten times as long
  uint32_t rails = 64;  // as HORING_RAILS: one per rank of the smallest group; 0: by the NICs, one
  uint32_t tcp_connections = 1;
  const ho_store* store = nullptr;  // where the ranks find each other, instead of an address
  // Runs in each rank's process before it creates its communicator: its own environment.
  std::function<void(size_t rank)> prepare = {};
};

// What became of one rank.
struct RankOutcome {
  bool exited = false;  // by itself, with status 0
  int signal = 0;       // that ended it
  ho_status status = HO_OK;
  std::string message;  // of the error, or what the body left with say()
};

class ProcessJob {
 public:
  // What a rank's body may tell the test.
  struct Rank {
    ho_comm* comm;
    int pipe;
    // Becomes visible to wait_for_line(): "ready".
    void say(const std::string& line) const;
  };
  // The body returns the status that the outcome will show; the library's last message goes with
  // it. What it throws is HO_INTERNAL.
  using Body = std::function<ho_status(const Rank&)>;

  // Forks one process per rank, whose calls may have CallMemory. One that leaves anything behind on
  // its device says so on stderr and does not count as exited. The calling process must have no
  // other threads.
  ProcessJob(const ProcessJobOptions& options, const Body& body);
  ~ProcessJob();  // kills whoever is left
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  [[nodiscard]] pid_t pid(size_t rank) const { return ranks_[rank].pid; }
  [[nodiscard]] size_t size() const { return ranks_.size(); }
  // Waits until every rank in `who` (all: empty) has said the line; throws after a minute.
  void wait_for_line(const std::string& line);
  void send_signal(size_t rank, int signal) const;
  // Waits for the rank's end, a minute at most (then throws: somebody hangs).
  RankOutcome outcome(size_t rank);

 private:
  struct Process {
    pid_t pid = -1;
    int pipe = -1;
    std::string received;
    bool reaped = false;
  };
  void read_available(Process& process, std::chrono::milliseconds timeout);
  std::vector<Process> ranks_;
};

}  // namespace ho::test
