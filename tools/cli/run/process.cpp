#include "cli/run/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/escaped.hpp"
#include "os/clock.hpp"

namespace ho {
namespace {

// glibc has no fork that takes flags. Safe here because the process has one thread.
pid_t raw_clone(uint64_t flags) {
  return static_cast<pid_t>(
      ::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

[[noreturn]] void run_child(const std::function<int()>& body) {
  sigset_t none;
  ::sigemptyset(&none);
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::_exit(body());
}

// Moves this process into all namespaces of that init; its later children are in the pid namespace.
Status enter_node(pid_t node_init) {
  struct Kind {
    const char* name;
    int flag;
  };
  // The mount namespace last: the others are found through the present /proc.
  constexpr std::array kKinds{Kind{"net", CLONE_NEWNET},
                              Kind{"uts", CLONE_NEWUTS},
                              Kind{"ipc", CLONE_NEWIPC},
                              Kind{"pid", CLONE_NEWPID},
                              Kind{"mnt", CLONE_NEWNS}};
  std::array<char, 4096> directory{};
  const bool has_directory = ::getcwd(directory.data(), directory.size()) != nullptr;
  std::array<Fd, kKinds.size()> handles;
  for (size_t i = 0; i < kKinds.size(); ++i) {
    const std::string path = "/proc/" + std::to_string(node_init) + "/ns/" + kKinds[i].name;
    handles[i] = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!handles[i].valid()) {
      return system_error("open(" + path + ")", errno);
    }
  }
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (::setns(handles[i].get(), kKinds[i].flag) != 0) {
      return system_error(std::string("setns(") + kKinds[i].name + ")", errno);
    }
  }
  // Entering a mount namespace leads to its root directory.
  if (has_directory && ::chdir(directory.data()) != 0) {
    return system_error(std::string("chdir(") + directory.data() + ") inside the node", errno);
  }
  return {};
}

Status enter_network(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/ns/net";
  const Fd handle(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle.valid() || ::setns(handle.get(), CLONE_NEWNET) != 0) {
    return system_error("entering " + path, errno);
  }
  return {};
}

// A file in memory with this text, read from its start.
Result<Fd> text_file(const std::string& text) {
  Fd file(::memfd_create("horing-input", MFD_CLOEXEC));
  if (!file.valid()) {
    return system_error("memfd_create", errno);
  }
  if (!write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return system_error("writing a program's input", errno);
  }
  return file;
}

// The kernel's texts for these errors describe other things.
Status no_namespaces(int error) {
  std::string why = "no new namespaces can be made: ";
  switch (error) {
    case ENOSPC:
    case EUSERS:
      why += "their number is limited here (the sysctls user.max_*_namespaces, or 32 levels)";
      break;
    case EPERM:
      why += "this user may not make them";
      break;
    case EINVAL:
      why += "this kernel has not all of their kinds";
      break;
    default:
      return system_error("making new namespaces", error);
  }
  return {StatusCode::kSystem, std::move(why)};
}

int fail_child(const Status& status) {
  (void)write_all(STDERR_FILENO, status.message() + "\n");
  return 126;
}

}  // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return system_error("pipe", errno);
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<pid_t> spawn(uint64_t namespaces, const std::function<int()>& body) {
  const pid_t child = raw_clone(namespaces);
  if (child < 0) {
    return namespaces == 0 ? system_error("clone", errno) : no_namespaces(errno);
  }
  if (child == 0) {
    run_child(body);
  }
  return child;
}

Result<pid_t> spawn_in_node(pid_t node_init, const std::function<int()>& body) {
  if (node_init == 0) {
    return spawn(0, body);
  }
  // A process's own pid namespace never changes, only that of its children: one helper enters the
  // node and starts the child as its sibling (CLONE_PARENT).
  HORING_ASSIGN(Pipe answer, make_pipe());
  HORING_ASSIGN(const pid_t helper, spawn(0, [&] {
                  if (const Status entered = enter_node(node_init); !entered.ok()) {
                    (void)write_all(answer.write.get(), entered.message());
                    return 1;
                  }
                  const pid_t child = raw_clone(CLONE_PARENT);
                  if (child == 0) {
                    answer.write.reset();
                    run_child(body);
                  }
                  (void)write_all(
                      answer.write.get(),
                      child < 0 ? std::strerror(errno) : "pid " + std::to_string(child));
                  return 0;
                }));
  answer.write.reset();
  const Result<std::string> text = read_all(answer.read.get(), std::chrono::seconds(30));
  (void)wait_for(helper);
  HORING_TRY(text.status());
  if (text.value().rfind("pid ", 0) != 0) {
    return Status(StatusCode::kSystem, "starting a process in a node: " + text.value());
  }
  return static_cast<pid_t>(std::stol(text.value().substr(4)));
}

void die_with_parent() {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int exit_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return 126;
    }
  }
  return exit_status(status);
}

Status run_program(const std::vector<std::string>& arguments,
                   const std::string& input,
                   pid_t network_of) {
  HORING_ASSIGN(const Fd standard_input, text_file(input));
  HORING_ASSIGN(Pipe complaints, make_pipe());
  HORING_ASSIGN(const pid_t child, spawn(0, [&] {
                  die_with_parent();
                  ::dup2(standard_input.get(), STDIN_FILENO);
                  ::dup2(complaints.write.get(), STDERR_FILENO);
                  ::dup2(complaints.write.get(), STDOUT_FILENO);
                  if (network_of != 0) {
                    if (const Status entered = enter_network(network_of); !entered.ok()) {
                      return fail_child(entered);
                    }
                  }
                  return replace_process(arguments);
                }));
  complaints.write.reset();
  const Result<std::string> text = read_all(complaints.read.get(), std::chrono::seconds(30));
  if (!text.ok()) {
    (void)::kill(child, SIGKILL);
  }
  const int status = wait_for(child);
  HORING_TRY(text.status());
  if (status != 0) {
    std::string message = text.value().substr(0, 500);
    while (!message.empty() && message.back() == '\n') {
      message.pop_back();
    }
    return {StatusCode::kSystem, arguments.front() + " failed: " + message};
  }
  return {};
}

int replace_process(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  const int error = errno;
  (void)write_all(
      STDERR_FILENO,
      "horing: cannot run " + escaped(arguments.front()) + ": " + std::strerror(error) + "\n");
  return error == ENOENT ? 127 : 126;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      (void)::poll(&writable, 1, 1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Result<std::string> read_all(int fd, std::chrono::milliseconds timeout) {
  const Deadline deadline = deadline_after(timeout);
  std::string text;
  std::array<char, 4096> buffer{};
  while (!passed(deadline)) {
    pollfd readable{fd, POLLIN, 0};
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline));
    if (::poll(&readable, 1, static_cast<int>(rest.count()) + 1) <= 0) {
      continue;
    }
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count == 0) {
      return text;
    }
    if (count > 0) {
      text.append(buffer.data(), static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return system_error("read from a child process", errno);
    }
  }
  return Status(StatusCode::kTimeout,
                "a child process did not answer within " + std::to_string(timeout.count()) + " ms");
}

}  // namespace ho
