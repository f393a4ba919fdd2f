// The `horing` program: one subcommand each for what one does with a job from a shell.
#include <array>

#include "cli/host/doctor_command.hpp"
#include "cli/host/env_command.hpp"
#include "cli/host/topo_command.hpp"
#include "cli/plan/plan_command.hpp"
#include "cli/plugin/plugin_check_command.hpp"
#include "cli/plugin/tune_command.hpp"
#include "cli/run/cluster_command.hpp"
#include "cli/run/run_command.hpp"
#include "cli/status/status_command.hpp"
#include "cli/subcommands/dispatch.hpp"

namespace ho {
namespace {

constexpr std::array kCommands{
    Subcommand{"run", run_command, "run a program as ranks on an emulated cluster on this machine"},
    Subcommand{"cluster", cluster_command, "bring an emulated cluster up around a program"},
    Subcommand{"node-exec", node_exec_command, "inside a cluster: run a program on one node"},
    Subcommand{"cluster-link",
               cluster_link_command,
               "inside a cluster: take a link down or up, let nothing pass, or change its rate"},
    Subcommand{"status", status_command, "where each rank of a running job is, also when it hangs"},
    Subcommand{
        "topo", topo_command, "what this host has, and which network interfaces can be rails"},
    Subcommand{"plan", plan_command, "print and verify the steps of an algorithm"},
    Subcommand{"tune", tune_command, "what the NCCL tuner chooses for given nodes, and why"},
    Subcommand{"plugin-check",
               plugin_check_command,
               "what NCCL would make of the plugin in this environment, and what is wrong"},
    Subcommand{"doctor", doctor_command, "inside a job: test every link that it will use"},
    Subcommand{"env", env_command, "the environment variables and their values in effect"},
};

}  // namespace
}  // namespace ho

int main(int argc, char** argv) {
  return ho::dispatch({"horing", HORING_VERSION, ho::kCommands}, argc, argv);
}
