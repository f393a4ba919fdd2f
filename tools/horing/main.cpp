// The `horing` program: one subcommand each for what one does with a job from a shell.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "horing/cluster_command.hpp"
#include "horing/doctor_command.hpp"
#include "horing/env_command.hpp"
#include "horing/plan_command.hpp"
#include "horing/run_command.hpp"
#include "horing/topo_command.hpp"

namespace ho {
namespace {

struct Command {
  const char* name;
  int (*run)(int argc, const char* const* argv);
  const char* purpose;
};

constexpr std::array kCommands{
    Command{"run", run_command, "run a program as ranks on an emulated cluster on this machine"},
    Command{"cluster", cluster_command, "bring an emulated cluster up around a program"},
    Command{"node-exec", node_exec_command, "inside a cluster: run a program on one node"},
    Command{"cluster-link",
            cluster_link_command,
            "inside a cluster: take a link down or up, or change its rate"},
    Command{"topo", topo_command, "what this host has, and which network interfaces can be rails"},
    Command{"plan", plan_command, "print and verify the steps of an algorithm"},
    Command{"doctor", doctor_command, "inside a job: test every link that it will use"},
    Command{"env", env_command, "the environment variables and their values in effect"},
};

void print_usage(std::FILE* stream) {
  std::fputs("usage: horing COMMAND [ARGUMENTS]\n\n", stream);
  for (const Command& command : kCommands) {
    std::fprintf(stream, "  %-13s %s\n", command.name, command.purpose);
  }
  std::fputs("\n`horing COMMAND --help` says more. `horing --version` prints the version.\n",
             stream);
}

int dispatch(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "--version") {
    std::puts("horing " HORING_VERSION);
    return 0;
  }
  const auto* const command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& candidate) {
        return candidate.name == name;
      });
  if (command == kCommands.end()) {
    if (!name.empty()) {
      std::fprintf(stderr, "horing: unknown command '%s'\n", argv[1]);
    }
    print_usage(stderr);
    return 2;
  }
  return command->run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace ho

int main(int argc, char** argv) {
  return ho::dispatch(argc, argv);
}
