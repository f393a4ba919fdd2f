#include "process_job.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "call_memory.hpp"
#include "group/group_map.hpp"
#include "reserved_port.hpp"

namespace ho::test {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr const char* kEnd = "\x04";  // closes the outcome text

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote <= 0) {
      return;
    }
    at += static_cast<size_t>(wrote);
  }
}

// The child's whole life. False: it has left something behind on its device, which is told.
bool run_child(size_t rank,
               size_t world,
               const std::string& host,
               const std::string& rendezvous,
               const ProcessJobOptions& options,
               const ProcessJob::Body& body,
               int pipe) {
  if (options.prepare) {
    options.prepare(rank);
  }
  ho_comm_options comm_options = HO_COMM_OPTIONS_INIT;
  comm_options.rank = static_cast<int32_t>(rank);
  comm_options.world_size = static_cast<int32_t>(world);
  comm_options.store = options.store;
  comm_options.rendezvous = options.store == nullptr ? rendezvous.c_str() : nullptr;
  comm_options.job_key = options.store == nullptr ? "a key for tests only" : nullptr;
  comm_options.host_id = host.c_str();
  comm_options.timeout_ms = options.timeout_ms;
  comm_options.device = device_of(rank);
  ho_comm* comm = nullptr;
  ho_status status = ho_comm_create(&comm_options, &comm);
  std::string message = ho_last_error_message();
  if (status == HO_OK) {
    try {
      status = body({comm, pipe});
      message = ho_last_error_message();
    } catch (const std::exception& error) {  // else the child would go on as the test's process
      status = HO_INTERNAL;
      message = error.what();
    }
  }
  write_all(pipe, "outcome " + std::to_string(status) + " " + message + kEnd);
  ho_comm_destroy(comm);
  const std::string left = memory_left_behind();
  if (!left.empty()) {
    std::fprintf(stderr, "rank %zu: %s", rank, left.c_str());
  }
  return left.empty();
}

}  // namespace

void ProcessJob::Rank::say(const std::string& line) const {
  write_all(pipe, line + "\n");
}

ProcessJob::ProcessJob(const ProcessJobOptions& options, const Body& body) {
  ::setenv("HORING_SOCKET_IFNAME", "=lo", 1);
  ::setenv("HORING_RAILS", std::to_string(options.rails).c_str(), 1);
  ::setenv("HORING_TCP_STREAMS", std::to_string(options.tcp_connections).c_str(), 1);
  const GroupMap map = GroupMap::parse(options.groups).value();
  const ReservedPort address;
  const std::string rendezvous = address.text();
  for (size_t rank = 0; rank < map.world_size(); ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) {
      throw std::runtime_error("pipe");
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      const uint32_t group = map.group_of(GlobalRank(rank)).value();
      const bool clean = run_child(rank,
                                   map.world_size(),
                                   "node" + std::to_string(group),
                                   rendezvous,
                                   options,
                                   body,
                                   ends[1]);
      ::_exit(clean ? 0 : 1);
    }
    ::close(ends[1]);
    ranks_.push_back({pid, ends[0], "", false});
  }
}

ProcessJob::~ProcessJob() {
  for (Process& process : ranks_) {
    if (!process.reaped) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
    ::close(process.pipe);
  }
}

void ProcessJob::read_available(Process& process, std::chrono::milliseconds timeout) {
  pollfd waited{process.pipe, POLLIN, 0};
  if (::poll(&waited, 1, static_cast<int>(timeout.count())) > 0) {
    char text[4096];
    const ssize_t got = ::read(process.pipe, text, sizeof(text));
    if (got > 0) {
      process.received.append(text, static_cast<size_t>(got));
    } else {
      ::usleep(1000);
    }
  }
}

void ProcessJob::wait_for_line(const std::string& line) {
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  for (Process& process : ranks_) {
    while (process.received.find(line + "\n") == std::string::npos) {
      if (std::chrono::steady_clock::now() > until) {
        throw std::runtime_error("a rank did not say '" + line + "': " + process.received);
      }
      read_available(process, std::chrono::milliseconds(100));
    }
  }
}

void ProcessJob::send_signal(size_t rank, int signal) const {
  ::kill(ranks_[rank].pid, signal);
}

RankOutcome ProcessJob::outcome(size_t rank) {
  Process& process = ranks_[rank];
  const auto until = std::chrono::steady_clock::now() + kTimeout;
  int state = 0;
  while (!process.reaped) {
    read_available(process, std::chrono::milliseconds(20));
    process.reaped = ::waitpid(process.pid, &state, WNOHANG) == process.pid;
    if (!process.reaped && std::chrono::steady_clock::now() > until) {
      throw std::runtime_error("rank " + std::to_string(rank) +
                               " hangs; it said: " + process.received);
    }
  }
  read_available(process, std::chrono::milliseconds(0));
  RankOutcome outcome;
  outcome.exited = WIFEXITED(state) && WEXITSTATUS(state) == 0;
  outcome.signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  const size_t at = process.received.find("outcome ");
  if (at != std::string::npos) {
    char* rest = nullptr;
    const char* number = process.received.c_str() + at + 8;
    outcome.status = static_cast<ho_status>(std::strtol(number, &rest, 10));
    outcome.message = std::string(rest + 1);
    outcome.message = outcome.message.substr(0, outcome.message.find(kEnd));
  }
  return outcome;
}

}  // namespace ho::test
