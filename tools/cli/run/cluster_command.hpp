#pragma once

namespace ho {

// argv[0] is the subcommand's name. The value is the status to exit with.
int cluster_command(int argc, const char* const* argv);
// Inside a cluster: a program on one node, and changes to one link.
int node_exec_command(int argc, const char* const* argv);
int cluster_link_command(int argc, const char* const* argv);

}  // namespace ho
