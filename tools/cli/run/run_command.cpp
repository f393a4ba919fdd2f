// `horing run`: a job's ranks on an emulated cluster.
#include "cli/run/run_command.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>

#include "auth/job_key.hpp"
#include "base/text_file.hpp"
#include "cli/run/cluster.hpp"
#include "cli/run/emulation.hpp"
#include "cli/run/process.hpp"
#include "os/clock.hpp"
#include "os/fd_passing.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

constexpr std::string_view kWho = "horing run";
// One page holds the shared pace of every rail of a node.
constexpr off_t kPaceBytes = 4096;
constexpr std::chrono::milliseconds kHandOverTime{30'000};

Result<std::string> read_order_file(const std::string& path) {
  const auto refused = [&path](const std::string& why) {
    return invalid("--order " + path + ": " + why +
                   "; takes block, round-robin or a file with the node number of each rank");
  };
  constexpr size_t kMaxBytes = size_t{1} << 20U;  // of 65536 ranks, with room
  auto text = read_text_file(path, kMaxBytes);
  return text.ok() ? std::move(text) : refused(text.status().message());
}

Result<GroupMap> place_ranks(const RunOptions& options) {
  const GroupMap& sizes = *options.cluster.sizes;
  if (options.order == "block" || options.order == "round-robin") {
    return place_block_or_round_robin(sizes, options.order == "round-robin");
  }
  HORING_ASSIGN(const std::string text, read_order_file(options.order));
  return place_by_list(sizes, text);
}

// In a child on that node. Sends the descriptor, or why there is none.
int hand_over_port(const Fd& to) {
  const auto reserved = reserve_port(SocketAddress::any(0).back());
  const std::string why = reserved.ok() ? " " : reserved.status().message();
  std::vector<int> fds;
  if (reserved.ok()) {
    fds.push_back(reserved->get());
  }
  const auto message = std::as_bytes(std::span(why));
  return send_with_fds(to, message, fds, deadline_after(kHandOverTime)).ok() ? 0 : 1;
}

// A port of the node where rank 0 will run. Held until the job is over: rank 0 listens there, and
// no other process gets it before.
Result<Fd> reserve_port_on(pid_t node_init) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return system_error("socketpair", errno);
  }
  const Fd here(ends[0]);
  Fd there(ends[1]);
  HORING_ASSIGN(const pid_t child, spawn_in_node(node_init, [&] { return hand_over_port(there); }));
  there.reset();
  pollfd answer{.fd = here.get(), .events = POLLIN, .revents = 0};
  std::string message(512, '\0');
  ReceivedFds received;
  if (::poll(&answer, 1, static_cast<int>(kHandOverTime.count())) > 0) {
    HORING_ASSIGN(received, receive_with_fds(here, std::as_writable_bytes(std::span(message))));
  }
  message.resize(received.message_bytes);
  if (wait_for(child) == 0 && received.fds.size() == 1) {
    return std::move(received.fds.front());
  }
  return Status(StatusCode::kSystem, "no TCP port could be reserved on rank 0's node; " + message);
}

// Memory that the ranks of each node inherit and share; empty where nothing is paced.
Result<std::vector<Fd>> pace_memories(const Cluster& cluster) {
  std::vector<Fd> memories;
  if (cluster.emulation != Emulation::kPaced) {
    return memories;
  }
  for (uint32_t node = 0; node < cluster.shape.nodes; ++node) {
    Fd memory(::memfd_create("horing-pace", MFD_CLOEXEC));
    if (!memory.valid() || ::ftruncate(memory.get(), kPaceBytes) != 0) {
      return system_error("memfd_create(horing-pace)", errno);
    }
    memories.push_back(std::move(memory));
  }
  return memories;
}

Status set_job_key(const RunOptions& options, JobFacts& facts) {
  if (options.key_file.empty()) {
    facts.job_key = JobKey::generate_text();
    return {};
  }
  HORING_TRY(JobKey::from_file(options.key_file).status().with_context("--key-file"));
  const std::unique_ptr<char, decltype(&std::free)> path(
      ::realpath(options.key_file.c_str(), nullptr), &std::free);
  if (path == nullptr) {
    return system_error("realpath(" + options.key_file + ")", errno);
  }
  facts.job_key_file = path.get();
  return {};
}

Result<int> run_job(const RunOptions& options, const GroupMap& placement, const Cluster& cluster) {
  JobFacts facts;
  facts.rails = options.cluster.rails.value_or(cluster.shape.rails);
  HORING_TRY(set_job_key(options, facts));
  const GroupIndex node = placement.group_of(GlobalRank(0));
  facts.master_address =
      cluster.emulation == Emulation::kNamespaces ? management_address(node.value()) : "127.0.0.1";
  HORING_ASSIGN(const Fd port, reserve_port_on(cluster.nodes[node.at()].init_pid));
  HORING_ASSIGN(const SocketAddress reserved, local_address(port.get()));
  facts.master_port = reserved.port();
  HORING_ASSIGN(const std::vector<Fd> memories, pace_memories(cluster));
  std::vector<int> pace_fds;
  pace_fds.reserve(memories.size());
  for (const Fd& memory : memories) {
    pace_fds.push_back(memory.get());
  }
  return run_ranks(cluster, placement, facts, pace_fds, options.job);
}

// Whether the job fits on a cluster that is up already.
Status check_fit(const ClusterOptions& options, const Cluster& cluster) {
  if (options.sizes->group_count() > cluster.shape.nodes) {
    return invalid("-n " + options.sizes->to_string() + " takes " +
                   std::to_string(options.sizes->group_count()) +
                   " nodes, but the cluster around this job has " +
                   std::to_string(cluster.shape.nodes));
  }
  if (options.rails.value_or(0) > cluster.shape.rails) {
    return invalid("--rails " + std::to_string(*options.rails) +
                   ", but the cluster around this job has " + std::to_string(cluster.shape.rails));
  }
  if (options.emulation.has_value() && *options.emulation != cluster.emulation) {
    return invalid("--emulate " + std::string(to_string(*options.emulation)) +
                   ", but the cluster around this job is " +
                   std::string(to_string(cluster.emulation)) +
                   "; leave the option out, or unset HORING_CLUSTER");
  }
  return {};
}

Result<GroupMap> sizes_of(const Cluster& around) {
  if (around.sizes.empty()) {
    return invalid(
        "-n is missing, and the cluster around this job does not say how many ranks it "
        "is for");
  }
  return GroupMap::parse(around.sizes);
}

Result<int> run(const RunOptions& input) {
  RunOptions options = input;
  HORING_ASSIGN(const std::optional<Cluster> around, surrounding_cluster());
  if (around.has_value() && !input.cluster.sizes.has_value()) {
    HORING_ASSIGN(options.cluster.sizes, sizes_of(*around));
  }
  HORING_ASSIGN(const GroupMap placement, place_ranks(options));
  if (around.has_value()) {
    HORING_TRY(check_fit(options.cluster, *around));
    return run_job(options, placement, *around);
  }
  return run_on_cluster(options.cluster, false, kWho, [&](const Cluster& cluster) {
    return run_job(options, placement, cluster);
  });
}

}  // namespace

int run_command(int argc, const char* const* argv) {
  const Parsed<RunOptions> parsed = parse_run_options(argc, argv);
  if (parsed.exit_status.has_value()) {
    return *parsed.exit_status;
  }
  if (parsed.options.cluster.probe_only) {
    return print_probe();
  }
  const Result<int> status = run(parsed.options);
  return status.ok() ? status.value() : print_error(kWho, status.status());
}

}  // namespace ho
