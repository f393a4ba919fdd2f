// What a program does after its command line did not parse, when each rank of a job is that
// program: one rank speaks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/escaped.hpp"
#include "base/status.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace ho {

// True also where nothing shows that this process is a rank.
inline bool first_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* const rank = std::getenv(name)) {
      return std::string_view(rank) == "0";
    }
  }
  return true;
}

// Launchers end a job with the first rank that fails, so the others give rank 0 time to print; on a
// busy host it may start seconds later. Its end then ends them.
inline int fail_after_first_rank(int status) {
  if (status != 0 && !first_rank()) {
    std::this_thread::sleep_for(std::chrono::seconds(10));
  }
  return status;
}

// After --help: prints it, 0. After an error: prints it, 2.
inline int exit_after(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream help;
  std::ostringstream fault;
  const bool failed = app.exit(error, help, fault) != 0;
  if (first_rank()) {
    std::cout << help.str() << std::flush;
    std::cerr << message_text(fault.str());
  }
  return fail_after_first_rank(failed ? kUsageError : 0);
}

// Nothing where the arguments parse and `understand`, which then checks them, has no objection;
// otherwise the status to end with, after everything was printed.
template <typename Understand>
std::optional<int> exit_unless_parsed(CLI::App& app,
                                      int argc,
                                      const char* const* argv,
                                      const Understand& understand) {
  try {
    app.parse(argc, argv);
    if (const Status status = understand(); !status.ok()) {
      throw CLI::ValidationError(status.message());
    }
  } catch (const CLI::ParseError& error) {
    return exit_after(app, error);
  }
  return std::nullopt;
}

}  // namespace ho
