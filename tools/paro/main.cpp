// The `paro` program: what one asks about training with sharded states before and beside a job.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "paro/plan_command.hpp"
#include "paro/strategies_command.hpp"
#include "paro/train_command.hpp"

namespace paro::tool {
namespace {

struct Command {
  const char* name;
  int (*run)(int argc, const char* const* argv);
  const char* purpose;
};

constexpr std::array kCommands{
    Command{"plan",
            plan_command,
            "memory and time of each strategy on a cluster, and which one to take"},
    Command{
        "train", train_command, "the toy model in a running job, with one strategy or with all"},
    Command{"strategies", strategies_command, "the 14 strategies and what they are known as"},
};

void print_usage(std::FILE* stream) {
  std::fputs("usage: paro COMMAND [ARGUMENTS]\n\n", stream);
  for (const Command& command : kCommands) {
    std::fprintf(stream, "  %-13s %s\n", command.name, command.purpose);
  }
  std::fputs("\n`paro COMMAND --help` says more. `paro --version` prints the version.\n", stream);
}

int dispatch(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "--version") {
    std::puts("paro " HORING_VERSION);
    return 0;
  }
  const auto* const command =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const Command& candidate) {
        return candidate.name == name;
      });
  if (command == kCommands.end()) {
    if (name.empty()) {
      print_usage(stderr);
    } else {
      std::fprintf(stderr, "paro: unknown command '%s'; `paro --help` lists them\n", argv[1]);
    }
    return 2;
  }
  return command->run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace paro::tool

int main(int argc, char** argv) {
  return paro::tool::dispatch(argc, argv);
}
