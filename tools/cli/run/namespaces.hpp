// The machine as seen by an emulated cluster: one outer set of namespaces that holds everything,
// and one set per node.
//
// The outer set (net, mount, pid, with a private /run) keeps names apart from all others, and it
// cleans up: when its init process ends, for whatever reason, the kernel ends every process in it
// and removes every interface and mount with it. A node needs more than a network namespace: with a
// shared /dev/shm or ipc namespace libraries would find shared memory between "nodes" and bypass
// the rails. So each node has its own net, uts, ipc, mount and pid namespaces, and an init process
// that reaps what its ranks leave.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/status.hpp"

namespace ho {

// Whether outer namespaces take a user namespace (not root, or root without the rights).
[[nodiscard]] bool needs_user_namespace();

// Runs body as the init process of a fresh outer set and returns its status. SIGINT, SIGTERM and
// SIGHUP are passed on as SIGTERM, a second one kills everything; the status is then 128 + signal.
// keeps_terminal: body runs an interactive program, which gets the terminal's signals by itself.
[[nodiscard]] Result<int> run_in_outer_namespaces(bool keeps_terminal,
                                                  const std::function<int()>& body);

// Inside the outer set: starts a node's init process and returns once the node is ready for links.
[[nodiscard]] Result<pid_t> start_node(const std::string& name);

}  // namespace ho
