#include "cli/run/namespaces.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/env.hpp"
#include "cli/run/process.hpp"
#include "cli/run/signals.hpp"
#include "status/folder.hpp"

namespace ho {
namespace {

constexpr std::chrono::seconds kSetUpTimeout{30};
constexpr std::string_view kReady = "ready";

Status write_file(const std::string& path, std::string_view text) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) < 0) {
    return system_error("writing '" + std::string(text) + "' to " + path, errno);
  }
  return {};
}

Status mount_fresh(const char* kind, const char* where, const char* settings) {
  if (::mount(kind, where, kind, MS_NOSUID | MS_NODEV, settings) != 0) {
    return system_error(std::string("mounting a ") + kind + " on " + where, errno);
  }
  return {};
}

// What the outer set and each node have in common.
Status set_up_common() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return system_error("making the mounts private", errno);
  }
  HORING_TRY(mount_fresh("proc", "/proc", nullptr));
  // The new network namespace's interfaces; without permission libraries see the outer ones here.
  (void)mount_fresh("sysfs", "/sys", nullptr);
  // BBR, where it is the system's default, paces bursts of messages to a third of the link.
  HORING_TRY(write_file("/proc/sys/net/ipv4/tcp_congestion_control", "reno"));
  // No link-local IPv6 addresses on rails. Absent where IPv6 is.
  (void)write_file("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1");
  return {};
}

Status set_up_outer(bool keeps_terminal) {
  if (!keeps_terminal) {
    (void)::setsid();
  }
  HORING_TRY(set_up_common());
  return mount_fresh("tmpfs", "/run", "mode=0755");
}

Status set_up_node(const std::string& name) {
  if (::sethostname(name.data(), name.size()) != 0) {
    return system_error("sethostname(" + name + ")", errno);
  }
  HORING_TRY(set_up_common());
  return mount_fresh("tmpfs", "/dev/shm", "mode=1777");
}

// Sends the outcome of a set-up to the parent, who waits in await_ready.
bool report(Pipe& pipe, const Status& status) {
  (void)write_all(pipe.write.get(), status.ok() ? kReady : std::string_view(status.message()));
  pipe.write.reset();
  return status.ok();
}

Status await_ready(Pipe& pipe) {
  pipe.write.reset();
  HORING_ASSIGN(const std::string text, read_all(pipe.read.get(), kSetUpTimeout));
  if (text != kReady) {
    return {StatusCode::kSystem, text.empty() ? "the process ended during its set-up" : text};
  }
  return {};
}

Status map_to_root(pid_t child) {
  const std::string directory = "/proc/" + std::to_string(child) + "/";
  HORING_TRY(write_file(directory + "uid_map", "0 " + std::to_string(::geteuid()) + " 1"));
  HORING_TRY(write_file(directory + "setgroups", "deny"));
  return write_file(directory + "gid_map", "0 " + std::to_string(::getegid()) + " 1");
}

// Ranks are user 0 inside, and would make a folder that this user's `horing status` does not look
// in.
void keep_status_folder() {
  const std::string name(env::kStatusDir.name);
  const Result<std::string> folder = make_status_folder(status_folders());
  if (folder.ok()) {
    ::setenv(name.c_str(), folder->c_str(), 0);
  }
}

[[noreturn]] void reap_for_ever() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  while (true) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    (void)::sigwaitinfo(&child, nullptr);
  }
}

int watch(pid_t outer, bool keeps_terminal, SignalQueue& signals) {
  int passed_on = 0;
  bool seen = false;
  while (true) {
    const Signal signal = signals.wait();
    if (signal.number == SIGCHLD) {
      int status = 0;
      if (::waitpid(outer, &status, WNOHANG) == outer) {
        return passed_on == 0 ? exit_status(status) : 128 + passed_on;
      }
      continue;
    }
    if (keeps_terminal && signal.from_terminal && !seen) {
      seen = true;
      continue;
    }
    // `horing run` names the signal, so it gets the one that arrived. The program of `horing
    // cluster` gets SIGTERM: a shell that waits for a command would outlive a SIGINT meant for
    // both.
    const int first = keeps_terminal ? SIGTERM : signal.number;
    (void)::kill(outer, passed_on == 0 ? first : SIGKILL);
    passed_on = signal.number;
  }
}

}  // namespace

bool needs_user_namespace() {
  const Result<pid_t> attempt = spawn(CLONE_NEWNET | CLONE_NEWNS, [] { return 0; });
  return !attempt.ok() || wait_for(attempt.value()) != 0;
}

Result<int> run_in_outer_namespaces(bool keeps_terminal, const std::function<int()>& body) {
  HORING_ASSIGN(SignalQueue signals, SignalQueue::open());
  HORING_ASSIGN(Pipe gate, make_pipe());
  HORING_ASSIGN(Pipe ready, make_pipe());
  const bool mapped = needs_user_namespace();
  if (mapped) {
    keep_status_folder();
  }
  uint64_t kinds = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID;
  kinds |= mapped ? static_cast<uint64_t>(CLONE_NEWUSER) : 0;
  const auto outer_init = [&] {
    die_with_parent();
    gate.write.reset();
    ready.read.reset();
    // Blocks the signals before the parent may pass them on.
    const Result<SignalQueue> queue = SignalQueue::open();
    const Result<std::string> opened = read_all(gate.read.get(), kSetUpTimeout);
    if (!opened.ok() || opened.value() != kReady) {
      return 1;
    }
    if (!report(ready, queue.ok() ? set_up_outer(keeps_terminal) : queue.status())) {
      return 1;
    }
    return body();
  };
  HORING_ASSIGN(const pid_t outer, spawn(kinds, outer_init));
  Status status = mapped ? map_to_root(outer) : Status();
  if (status.ok() && !write_all(gate.write.get(), kReady)) {
    status = Status(StatusCode::kSystem, "the outer process ended at once");
  }
  gate.write.reset();
  if (status.ok()) {
    status = await_ready(ready);
  }
  if (!status.ok()) {
    (void)::kill(outer, SIGKILL);
    (void)wait_for(outer);
    return status;
  }
  return watch(outer, keeps_terminal, signals);
}

Result<pid_t> start_node(const std::string& name) {
  HORING_ASSIGN(Pipe ready, make_pipe());
  const uint64_t kinds = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWPID;
  const auto node_init = [&]() -> int {
    die_with_parent();
    (void)::setsid();
    ready.read.reset();
    if (!report(ready, set_up_node(name))) {
      return 1;
    }
    reap_for_ever();
  };
  HORING_ASSIGN(const pid_t init, spawn(kinds, node_init));
  if (const Status status = await_ready(ready); !status.ok()) {
    (void)::kill(init, SIGKILL);
    (void)wait_for(init);
    return status.with_context(name);
  }
  return init;
}

}  // namespace ho
