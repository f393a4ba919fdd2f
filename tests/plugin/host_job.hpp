// A job of emulated nodes whose ranks are processes that load the plugin as NCCL does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/plugin_library.hpp"

namespace ho::plugin_host_test {

struct HostJobOptions {
  nccl_host::JobShape shape{2, 2};
  std::string release = "2.32.3";
  std::vector<std::string> releases = {};  // by rank, where they differ
  uint32_t rails = 0;                      // devices of a node; 0: one per local rank
  uint32_t communicators = 1;
  size_t buffer_bytes = size_t{1} << 20;
  size_t link_bytes = 0;
  std::chrono::milliseconds timeout{60'000};  // of the host's own waits
  std::chrono::milliseconds connect_timeout{30'000};
  std::chrono::seconds wait_limit{180};  // for a rank's end, and for what it says
  // Runs in each rank's process before it loads the plugin: its own environment.
  std::function<void(uint32_t rank)> prepare = {};
};

// One rank's view.
class HostRank {
 public:
  HostRank(const HostJobOptions& options, nccl_host::JobMemory& memory, uint32_t rank, int pipe)
      : options_(options),
        memory_(memory),
        rank_(rank),
        pipe_(pipe),
        library_(options.releases.empty() ? options.release : options.releases.at(rank)) {}
  HostRank(const HostRank&) = delete;
  HostRank& operator=(const HostRank&) = delete;
  ~HostRank() = default;

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t node() const { return options_.shape.node_of(rank_); }
  [[nodiscard]] uint32_t local() const { return options_.shape.local_of(rank_); }
  [[nodiscard]] nccl_host::PluginLibrary& library() { return library_; }
  [[nodiscard]] nccl_host::CommMemory memory(uint32_t communicator = 0) {
    return memory_.comm(communicator, rank_, options_.timeout);
  }
  // Becomes visible to HostJob::wait_for_line().
  void say(const std::string& line) const;

 private:
  const HostJobOptions& options_;
  nccl_host::JobMemory& memory_;
  uint32_t rank_;
  int pipe_;
  nccl_host::PluginLibrary library_;
};

struct HostOutcome {
  bool exited = false;  // by itself
  int signal = 0;
  std::string error;  // what the body threw; "" for nothing
};

class HostJob {
 public:
  using Body = std::function<void(HostRank&)>;
  // Forks one process per rank. The calling process must have no other threads.
  HostJob(const HostJobOptions& options, const Body& body);
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;
  ~HostJob();  // kills whoever is left

  [[nodiscard]] size_t size() const { return ranks_.size(); }
  // Waits until each of these ranks (all: empty) has said the line.
  void wait_for_line(const std::string& line, const std::vector<uint32_t>& ranks = {});
  void send_signal(uint32_t rank, int signal) const;
  // Waits for the rank's end; throws where wait_limit ends: it hangs.
  HostOutcome outcome(uint32_t rank);

 private:
  struct Process {
    pid_t pid = -1;
    int pipe = -1;
    std::string received;
    bool reaped = false;
    int state = 0;
  };
  void read_some(Process& process);

  HostJobOptions options_;
  nccl_host::JobMemory memory_;
  std::vector<Process> ranks_;
};

// Runs body on all ranks; everything must go well (Catch2 assertions in the calling thread).
void require_job(const HostJobOptions& options, const HostJob::Body& body);

}  // namespace ho::plugin_host_test
