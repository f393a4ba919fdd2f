#include "host_job.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <stdexcept>

namespace ho::plugin_host_test {
namespace {

constexpr const char* kError = "error: ";
constexpr const char* kEnd = "\x04";

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) {
      return;
    }
    at += static_cast<size_t>(wrote);
  }
}

// The node's own environment: its devices, and that it is another host than the other nodes.
void set_environment(const HostJobOptions& options, uint32_t rank) {
  const uint32_t node = options.shape.node_of(rank);
  const uint32_t rails = options.rails == 0 ? options.shape.ranks_per_node : options.rails;
  ::unsetenv("HORING_SOCKET_IFNAME");
  std::string devices;
  for (uint32_t rail = 0; rail < rails; ++rail) {
    devices += (rail == 0 ? "" : ",") + ("rail" + std::to_string(rail)) + "=127." +
               std::to_string(20 + rail) + ".0." + std::to_string(node + 1);
  }
  ::setenv("HORING_EMULATED_RAILS", devices.c_str(), 1);
  ::setenv("HORING_HOST_ID", ("node" + std::to_string(node)).c_str(), 1);
  ::setenv("HORING_JOB_KEY", "a key for tests of the plugin only", 1);
  ::setenv("HORING_CONNECT_TIMEOUT_MS", std::to_string(options.connect_timeout.count()).c_str(), 1);
  if (options.prepare) {
    options.prepare(rank);
  }
}

// Log lines of the plugin that tell why something failed.
std::string warnings() {
  std::string text;
  for (const std::string& line : nccl_host::PluginLibrary::log_lines()) {
    text += line.starts_with("warn") ? "\n  " + line : "";
  }
  return text;
}

// The child's whole life.
void run_rank(const HostJobOptions& options,
              nccl_host::JobMemory& memory,
              uint32_t rank,
              const HostJob::Body& body,
              int pipe) {
  std::string error;
  try {
    set_environment(options, rank);
    HostRank self(options, memory, rank, pipe);
    body(self);
  } catch (const std::exception& thrown) {
    error = thrown.what() + warnings();
    memory.comm(0, rank, options.timeout).fail();
  }
  write_all(pipe, kError + error + kEnd);
}

}  // namespace

void HostRank::say(const std::string& line) const {
  write_all(pipe_, line + "\n");
}

HostJob::HostJob(const HostJobOptions& options, const Body& body)
    : options_(options),
      memory_(nccl_host::JobMemory::create(
          {options.shape, options.communicators, options.buffer_bytes, options.link_bytes})) {
  for (uint32_t rank = 0; rank < options.shape.world(); ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) {
      throw std::runtime_error("pipe");
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      run_rank(options_, memory_, rank, body, ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    ranks_.push_back({pid, ends[0], "", false, 0});
  }
}

HostJob::~HostJob() {
  for (Process& process : ranks_) {
    if (!process.reaped) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
    ::close(process.pipe);
  }
}

void HostJob::read_some(Process& process) {
  pollfd waited{process.pipe, POLLIN, 0};
  if (::poll(&waited, 1, 20) > 0) {
    char text[4096];
    const ssize_t got = ::read(process.pipe, text, sizeof(text));
    if (got > 0) {
      process.received.append(text, static_cast<size_t>(got));
    } else {
      ::usleep(1000);
    }
  }
}

void HostJob::wait_for_line(const std::string& line, const std::vector<uint32_t>& ranks) {
  std::vector<uint32_t> all(ranks_.size());
  std::iota(all.begin(), all.end(), 0U);
  const auto until = std::chrono::steady_clock::now() + options_.wait_limit;
  for (const uint32_t rank : ranks.empty() ? all : ranks) {
    Process& process = ranks_.at(rank);
    while (process.received.find(line + "\n") == std::string::npos) {
      if (std::chrono::steady_clock::now() > until ||
          process.received.find(kEnd) != std::string::npos) {
        throw std::runtime_error("rank " + std::to_string(rank) + " did not say '" + line +
                                 "': " + process.received);
      }
      read_some(process);
    }
  }
}

void HostJob::send_signal(uint32_t rank, int signal) const {
  ::kill(ranks_.at(rank).pid, signal);
}

HostOutcome HostJob::outcome(uint32_t rank) {
  Process& process = ranks_.at(rank);
  const auto until = std::chrono::steady_clock::now() + options_.wait_limit;
  while (!process.reaped) {
    read_some(process);
    process.reaped = ::waitpid(process.pid, &process.state, WNOHANG) == process.pid;
    if (!process.reaped && std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("rank " + std::to_string(rank) +
                               " hangs; it said: " + process.received);
    }
  }
  while (process.received.find(kEnd) == std::string::npos && !WIFSIGNALED(process.state)) {
    const size_t before = process.received.size();
    read_some(process);
    if (process.received.size() == before) {
      break;
    }
  }
  HostOutcome outcome;
  outcome.exited = WIFEXITED(process.state) && WEXITSTATUS(process.state) == 0;
  outcome.signal = WIFSIGNALED(process.state) ? WTERMSIG(process.state) : 0;
  const size_t at = process.received.find(kError);
  if (at != std::string::npos) {
    outcome.error = process.received.substr(at + std::string(kError).size());
    outcome.error = outcome.error.substr(0, outcome.error.find(kEnd));
  }
  return outcome;
}

}  // namespace ho::plugin_host_test
