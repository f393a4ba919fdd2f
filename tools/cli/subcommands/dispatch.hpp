// A program of several subcommands: which one the first argument names, and usage where it names
// none.
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "base/escaped.hpp"
#include "cli/subcommands/standard_output.hpp"

namespace ho {

struct Subcommand {
  const char* name;
  int (*run)(int argc, const char* const* argv);  // argv[0] is its name
  const char* purpose;
};

struct Program {
  const char* name;
  const char* version;
  std::span<const Subcommand> commands;
};

inline void print_usage(const Program& program, std::FILE* file) {
  std::fprintf(file, "usage: %s COMMAND [ARGUMENTS]\n\n", program.name);
  for (const Subcommand& command : program.commands) {
    std::fprintf(file, "  %-13s %s\n", command.name, command.purpose);
  }
  std::fprintf(file,
               "\n`%s COMMAND --help` has more. `%s --version` prints the version.\n",
               program.name,
               program.name);
}

// The exit status, but for what becomes of standard output.
inline int run_command_of(const Program& program, int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(program, stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("%s %s\n", program.name, program.version);
    return 0;
  }
  const auto command = std::ranges::find(program.commands, name, &Subcommand::name);
  if (command != program.commands.end()) {
    try {
      return command->run(argc - 1, argv + 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s %s: %s\n", program.name, command->name, error.what());
      return 1;
    }
  }
  if (!name.empty()) {
    std::fprintf(stderr, "%s: unknown command '%s'\n", program.name, escaped(argv[1]).c_str());
  }
  print_usage(program, stderr);
  return 2;
}

// The exit status.
inline int dispatch(const Program& program, int argc, const char* const* argv) {
  return status_after_output(program.name, run_command_of(program, argc, argv));
}

}  // namespace ho
