// `horing cluster`, and `horing node-exec` and `horing cluster-link` inside it.
#include "cli/run/cluster_command.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/env.hpp"
#include "base/quantity.hpp"
#include "cli/run/cluster.hpp"
#include "cli/run/emulation.hpp"
#include "cli/run/process.hpp"
#include "cli/run/signals.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace ho {
namespace {

constexpr std::string_view kCluster = "horing cluster";

// Stays with the one program, and reaps what others leave when this is the outer init process.
int wait_and_pass_signals(pid_t program, SignalQueue& signals) {
  while (true) {
    const Signal signal = signals.wait();
    if (signal.number != SIGCHLD) {
      // The terminal signals the program by itself.
      if (!signal.from_terminal) {
        (void)::kill(program, signal.number);
      }
      continue;
    }
    int status = 0;
    while (const pid_t ended = ::waitpid(-1, &status, WNOHANG)) {
      if (ended == program) {
        return exit_status(status);
      }
      if (ended < 0) {
        break;
      }
    }
  }
}

// The description as a file that goes with this process: in memory, seen through /proc.
Result<Fd> cluster_file(const Cluster& cluster) {
  Fd file(::memfd_create("horing-cluster", MFD_CLOEXEC));
  if (!file.valid() || !write_all(file.get(), to_json(cluster))) {
    return system_error("describing the cluster", errno);
  }
  return file;
}

Result<int> run_beside(const Cluster& cluster, const std::vector<std::string>& command) {
  HORING_ASSIGN(SignalQueue signals, SignalQueue::open());
  HORING_ASSIGN(const Fd file, cluster_file(cluster));
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file.get());
  HORING_ASSIGN(const pid_t program, spawn(0, [&] {
                  die_with_parent();
                  ::setenv(std::string(env::kCluster.name).c_str(), path.c_str(), 1);
                  return replace_process(command);
                }));
  return wait_and_pass_signals(program, signals);
}

Result<Cluster> cluster_around() {
  HORING_ASSIGN(std::optional<Cluster> cluster, surrounding_cluster());
  if (!cluster.has_value()) {
    return invalid("HORING_CLUSTER is not set: this works inside `horing cluster -n .. -- CMD`");
  }
  return *std::move(cluster);
}

// "3", or the number behind a prefix: "node3".
std::optional<uint32_t> parse_index(std::string_view text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) == prefix) {
    text.remove_prefix(prefix.size());
  }
  return whole_number<uint32_t>(text);
}

// With "--" the words are a program and its arguments; without, they are a line for the shell, as
// with ssh (which is how mpirun and others start their helpers).
std::vector<std::string> program_of(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 2, argv + argc);
  if (words.front() == "--") {
    words.erase(words.begin());
    return words;
  }
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + word;
  }
  return {"/bin/sh", "-c", line};
}

Result<int> execute_on(const Cluster& cluster,
                       uint32_t node,
                       const std::vector<std::string>& program) {
  HORING_ASSIGN(SignalQueue signals, SignalQueue::open());
  HORING_ASSIGN(
      const pid_t child, spawn_in_node(cluster.nodes[node].init_pid, [&] {
        die_with_parent();
        ::unsetenv(std::string(env::kCluster.name).c_str());
        for (const auto& [name, value] : node_environment(cluster, node, cluster.shape.rails)) {
          ::setenv(name.c_str(), value.c_str(), 1);
        }
        return replace_process(program);
      }));
  return wait_and_pass_signals(child, signals);
}

// Prints usage: for --help, or because the arguments are incomplete.
int show_usage(int argc, const char* const* argv, const char* usage) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  const bool help = word == "--help" || word == "-h";
  std::fprintf(help ? stdout : stderr, "usage: %s\n", usage);
  return help ? 0 : kUsageError;
}

Status change_link(const Cluster& cluster, uint32_t node, uint32_t rail, std::string_view change) {
  constexpr std::array<std::pair<std::string_view, LinkState>, 3> kStates{
      {{"up", LinkState::kUp}, {"down", LinkState::kDown}, {"blackhole", LinkState::kBlackhole}}};
  for (const auto& [name, state] : kStates) {
    if (change == name) {
      return set_link_state(cluster, node, rail, state);
    }
  }
  const Result<uint64_t> rate = parse_rate_limit("rate", change, env::kMaxMbit);
  if (!rate.ok()) {
    return invalid("a link is changed by up, down, blackhole or a rate; " +
                   rate.status().message());
  }
  return set_link_rate(cluster, node, rail, *rate);
}

}  // namespace

int cluster_command(int argc, const char* const* argv) {
  const Parsed<ClusterCommandOptions> parsed = parse_cluster_options(argc, argv);
  if (parsed.exit_status.has_value()) {
    return *parsed.exit_status;
  }
  const ClusterCommandOptions& options = parsed.options;
  if (options.cluster.probe_only) {
    return print_probe();
  }
  const Result<int> status = run_on_cluster(options.cluster, true, kCluster, [&](Cluster cluster) {
    cluster.sizes = options.cluster.sizes->to_string();
    return run_beside(cluster, options.command);
  });
  return status.ok() ? status.value() : print_error(kCluster, status.status());
}

int node_exec_command(int argc, const char* const* argv) {
  constexpr std::string_view kWho = "horing node-exec";
  const std::optional<uint32_t> node =
      argc > 1 ? parse_index(argv[1], "node") : std::optional<uint32_t>();
  if (!node.has_value() || argc < 3 || (argc == 3 && std::string_view(argv[2]) == "--")) {
    return show_usage(
        argc, argv, "horing node-exec NODE -- CMD ARGS  (or, for the shell: NODE LINE)");
  }
  const Result<Cluster> cluster = cluster_around();
  if (!cluster.ok()) {
    return print_error(kWho, cluster.status());
  }
  if (*node >= cluster.value().shape.nodes) {
    return print_error(kWho,
                       invalid("no node " + std::to_string(*node) + "; the cluster has " +
                               std::to_string(cluster.value().shape.nodes)));
  }
  const Result<int> status = execute_on(cluster.value(), *node, program_of(argc, argv));
  return status.ok() ? status.value() : print_error(kWho, status.status());
}

int cluster_link_command(int argc, const char* const* argv) {
  constexpr std::string_view kWho = "horing cluster-link";
  const bool complete = argc == 4;
  const std::optional<uint32_t> node =
      complete ? parse_index(argv[1], "node") : std::optional<uint32_t>();
  const std::optional<uint32_t> rail =
      complete ? parse_index(argv[2], "rail") : std::optional<uint32_t>();
  if (!node.has_value() || !rail.has_value()) {
    return show_usage(argc, argv, "horing cluster-link NODE RAIL up|down|blackhole|RATE");
  }
  const Result<Cluster> cluster = cluster_around();
  const Status status =
      cluster.ok() ? change_link(cluster.value(), *node, *rail, argv[3]) : cluster.status();
  return status.ok() ? 0 : print_error(kWho, status);
}

}  // namespace ho
