// Child processes: in new namespaces, inside a node, or running another program.
//
// No child outlives its parent: every child dies with its parent
// (PR_SET_PDEATHSIG), and a namespace's init takes the whole namespace with it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "os/fd.hpp"

namespace ho {

struct Pipe {
  Fd read;
  Fd write;
};
// Both ends are closed on exec.
[[nodiscard]] Result<Pipe> make_pipe();

// Runs body in a child that may start in new namespaces (CLONE_NEW*); the child ends with body's
// value as its status. Its signal mask is empty and SIGPIPE has its default action.
[[nodiscard]] Result<pid_t> spawn(uint64_t namespaces, const std::function<int()>& body);
// The same inside all namespaces of the node that has this init process (0: here). The child is a
// child of the caller.
[[nodiscard]] Result<pid_t> spawn_in_node(pid_t node_init, const std::function<int()>& body);

// To be called in a child: SIGKILL when the parent ends.
void die_with_parent();
// Waits for a child and returns its exit status, 128 + signal when it was killed.
[[nodiscard]] int wait_for(pid_t child);
[[nodiscard]] int exit_status(int wait_status);

// Runs a program to its end with `input` on its standard input, in the network namespace of
// `network_of` (0: here). An error has what the program wrote to standard error.
[[nodiscard]] Status run_program(const std::vector<std::string>& arguments,
                                 const std::string& input,
                                 pid_t network_of = 0);
// Replaces this process. Returns only when that failed: 127 (not found) or 126.
[[nodiscard]] int replace_process(const std::vector<std::string>& arguments);

// One text through a pipe from a child to its parent.
[[nodiscard]] bool write_all(int fd, std::string_view bytes);
// Everything until the other end closes, or an error at the deadline.
[[nodiscard]] Result<std::string> read_all(int fd, std::chrono::milliseconds timeout);

}  // namespace ho
