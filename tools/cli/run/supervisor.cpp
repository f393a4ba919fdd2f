#include "cli/run/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/env.hpp"
#include "cli/run/output.hpp"
#include "cli/run/process.hpp"
#include "cli/run/signals.hpp"
#include "os/affinity.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kGrace{2};
// How long output that is still open after the last rank's end is waited for.
constexpr std::chrono::seconds kLastOutput{1};
constexpr int kTimedOut = 124;

struct Output {
  Fd fd;
  int target;
  LinePrefixer lines;
};

struct Rank {
  GlobalRank number;
  std::string node;
  pid_t pid = 0;
  bool running = true;
};

// What a rank's process begins with.
struct RankStart {
  Environment environment;
  int pace_fd = -1;
  std::vector<uint32_t> cpus;  // none: all
};

class Supervisor {
 public:
  Supervisor(SignalQueue signals, const JobOptions& options)
      : signals_(std::move(signals)), options_(options) {}
  // Whatever happens: no rank outlives its supervisor.
  ~Supervisor() { kill_ranks(SIGKILL); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  [[nodiscard]] Status start(const Cluster& cluster,
                             const GroupMap& placement,
                             JobFacts facts,
                             const std::vector<int>& pace_fds);
  [[nodiscard]] int stay();

 private:
  [[nodiscard]] Status start_rank(const ClusterNode& node, GlobalRank rank, const RankStart& start);
  void step();
  [[nodiscard]] int poll_timeout_ms() const;
  void forward(Output& output);
  void handle_signals();
  void reap();
  void note_end(Rank& rank, const siginfo_t& ending);
  void end_job(int status, const std::string& why);
  void kill_ranks(int signal);
  [[nodiscard]] bool any_running() const;
  static void say(const std::string& text) {
    (void)write_all(STDERR_FILENO, "horing run: " + text + "\n");
  }

  SignalQueue signals_;
  const JobOptions& options_;
  Pipe go_;
  std::vector<Rank> ranks_;
  std::vector<Output> outputs_;
  std::optional<Deadline> time_up_;
  std::optional<Deadline> kill_at_;
  bool ending_ = false;
  int exit_status_ = 0;
};

// In the rank's process. Exec or bust.
int become_rank(const JobOptions& options, const RankStart& start, Pipe& go) {
  die_with_parent();
  (void)::setpgid(0, 0);
  go.write.reset();
  char byte = 0;
  // The supervisor writes when all ranks have started, and is gone when nothing arrives.
  if (::read(go.read.get(), &byte, 1) != 1) {
    return 1;
  }
  ::unsetenv(std::string(env::kCluster.name).c_str());
  ::unsetenv(std::string(env::kJobKey.name).c_str());
  ::unsetenv(std::string(env::kJobKeyFile.name).c_str());
  for (const auto& [name, value] : start.environment) {
    // An interface filter that the user set stays.
    ::setenv(name.c_str(), value.c_str(), name == env::kSocketIfname.name ? 0 : 1);
  }
  if (start.pace_fd >= 0) {
    (void)::fcntl(start.pace_fd, F_SETFD, 0);  // only this node's memory goes on to the program
  }
  if (const Status bound = bind_current_thread(start.cpus); !bound.ok()) {
    (void)write_all(STDERR_FILENO, "--bind-to node: " + bound.message() + "\n");
    return 1;
  }
  return replace_process(options.command);
}

Status Supervisor::start_rank(const ClusterNode& node, GlobalRank rank, const RankStart& start) {
  HORING_ASSIGN(Pipe out, make_pipe());
  HORING_ASSIGN(Pipe err, make_pipe());
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  HORING_ASSIGN(const pid_t pid, spawn_in_node(node.init_pid, [&] {
                  ::dup2(nothing.get(), STDIN_FILENO);
                  ::dup2(out.write.get(), STDOUT_FILENO);
                  ::dup2(err.write.get(), STDERR_FILENO);
                  return become_rank(options_, start, go_);
                }));
  (void)::setpgid(pid, pid);
  ranks_.push_back({rank, node.name, pid});
  const std::string prefix =
      options_.prefix ? "[" + std::to_string(rank.value()) + "] " : std::string();
  const bool raw = options_.rank0_raw && rank == GlobalRank(0);
  outputs_.push_back({std::move(out.read), STDOUT_FILENO, LinePrefixer(prefix, raw)});
  outputs_.push_back({std::move(err.read), STDERR_FILENO, LinePrefixer(prefix, false)});
  for (size_t i = outputs_.size() - 2; i < outputs_.size(); ++i) {
    (void)::fcntl(outputs_[i].fd.get(), F_SETFL, O_NONBLOCK);
  }
  return {};
}

Status Supervisor::start(const Cluster& cluster,
                         const GroupMap& placement,
                         JobFacts facts,
                         const std::vector<int>& pace_fds) {
  HORING_ASSIGN(go_, make_pipe());
  HORING_ASSIGN(const std::vector<uint32_t> cpus, allowed_cpus());
  for (uint32_t i = 0; i < placement.world_size(); ++i) {
    const GlobalRank rank(i);
    const size_t node = placement.group_of(rank).at();
    facts.pace_fd = pace_fds.empty() ? -1 : pace_fds[node];
    RankStart start{rank_environment(cluster, placement, rank, facts), facts.pace_fd, {}};
    if (options_.own_cpus) {
      start.cpus = cpus_of_node(cpus, static_cast<uint32_t>(node), placement.group_count());
    }
    HORING_TRY(
        start_rank(cluster.nodes[node], rank, start).with_context("rank " + std::to_string(i)));
  }
  if (!write_all(go_.write.get(), std::string(ranks_.size(), 'g'))) {
    return {StatusCode::kSystem, "the ranks ended before they could start"};
  }
  if (options_.timeout.has_value()) {
    time_up_ = deadline_after(*options_.timeout);
  }
  return {};
}

int Supervisor::stay() {
  while (any_running()) {
    step();
  }
  kill_at_ = deadline_after(kLastOutput);
  while (!outputs_.empty() && !passed(*kill_at_)) {
    step();
  }
  for (Output& output : outputs_) {
    (void)write_all(output.target, output.lines.finish());
  }
  return exit_status_;
}

bool Supervisor::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.running; });
}

int Supervisor::poll_timeout_ms() const {
  const Deadline soonest = std::min(kill_at_.value_or(Deadline::max()),
                                    ending_ ? Deadline::max() : time_up_.value_or(Deadline::max()));
  if (soonest == Deadline::max()) {
    return -1;
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(left(soonest)).count();
  return static_cast<int>(std::min<int64_t>(rest, 1000));
}

void Supervisor::step() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  for (const Output& output : outputs_) {
    waits.push_back({output.fd.get(), POLLIN, 0});
  }
  (void)::poll(waits.data(), waits.size(), poll_timeout_ms());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (waits[i + 1].revents != 0) {
      forward(outputs_[i]);
    }
  }
  std::erase_if(outputs_, [](const Output& output) { return !output.fd.valid(); });
  if (waits[0].revents != 0) {
    handle_signals();
  }
  if (!ending_ && time_up_.has_value() && passed(*time_up_)) {
    end_job(kTimedOut, "the time of --timeout is up");
  }
  if (kill_at_.has_value() && passed(*kill_at_)) {
    kill_ranks(SIGKILL);
    kill_at_ = any_running() ? std::optional(deadline_after(kGrace)) : kill_at_;
  }
}

void Supervisor::forward(Output& output) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(output.fd.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  const std::string text = count > 0 ? output.lines.add({buffer.data(), static_cast<size_t>(count)})
                                     : output.lines.finish();
  if (count <= 0) {
    output.fd.reset();
  }
  if (!write_all(output.target, text)) {
    end_job(128 + SIGPIPE, "no process reads the output any more");
  }
}

void Supervisor::handle_signals() {
  while (const std::optional<Signal> signal = signals_.next()) {
    if (signal->number == SIGCHLD) {
      continue;
    }
    if (ending_) {
      kill_ranks(SIGKILL);
    }
    end_job(128 + signal->number, "interrupted by " + signal_name(signal->number));
  }
  reap();
}

void Supervisor::reap() {
  while (true) {
    siginfo_t ending{};
    // First a check, so that the process group is signalled while its number is still taken.
    if (::waitid(P_ALL, 0, &ending, WEXITED | WNOHANG | WNOWAIT) != 0 || ending.si_pid == 0) {
      return;
    }
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& candidate) {
      return candidate.running && candidate.pid == ending.si_pid;
    });
    if (rank != ranks_.end()) {
      (void)::kill(-rank->pid, SIGKILL);
      note_end(*rank, ending);
    }
    (void)::waitpid(ending.si_pid, nullptr, WNOHANG);
  }
}

void Supervisor::note_end(Rank& rank, const siginfo_t& ending) {
  rank.running = false;
  if (ending_ || (ending.si_code == CLD_EXITED && ending.si_status == 0)) {
    return;
  }
  const std::string who = "rank " + std::to_string(rank.number.value()) + " (" + rank.node + ") ";
  const bool exited = ending.si_code == CLD_EXITED;
  const std::string what = exited ? "exited with status " + std::to_string(ending.si_status)
                                  : "was killed by signal " + std::to_string(ending.si_status) +
                                        " (" + ::strsignal(ending.si_status) + ")";
  const int status = exited ? ending.si_status : 128 + ending.si_status;
  if (options_.keep_going) {
    exit_status_ = exit_status_ == 0 ? status : exit_status_;
    say(who + what);
  } else {
    end_job(status, who + what);
  }
}

void Supervisor::end_job(int status, const std::string& why) {
  if (ending_) {
    return;
  }
  ending_ = true;
  exit_status_ = exit_status_ == 0 ? status : exit_status_;
  say(why + (any_running() ? "; ending the other ranks" : ""));
  kill_ranks(SIGTERM);
  // A stopped process sees SIGTERM only when it goes on.
  kill_ranks(SIGCONT);
  kill_at_ = deadline_after(kGrace);
}

void Supervisor::kill_ranks(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.running) {
      (void)::kill(-rank.pid, signal);
    }
  }
}

}  // namespace

Result<int> run_ranks(const Cluster& cluster,
                      const GroupMap& placement,
                      const JobFacts& facts,
                      const std::vector<int>& pace_fds,
                      const JobOptions& options) {
  HORING_ASSIGN(SignalQueue signals, SignalQueue::open());
  Supervisor supervisor(std::move(signals), options);
  HORING_TRY(supervisor.start(cluster, placement, facts, pace_fds));
  return supervisor.stay();
}

}  // namespace ho
