// The command line of `paro plan`. Prints usage.
#pragma once

#include <optional>
#include <string>

#include "cli/subcommands/exit_status.hpp"
#include "planner/text/plan_options.hpp"

namespace paro::tool {

struct PlanArguments {
  PlanOptions plan;  // nothing in it where one of the three below is there
  std::optional<PlanTexts> sweep;
  bool validate = false;
  bool fit = false;
  bool json = false;
  std::string program_path;  // of what plan.export_to asks for; empty: standard output
  std::string cluster_path;  // that --measure writes what it found to; empty: to none
  bool verbose = false;
  std::string csv;  // a file; "-": standard output, and nothing else there
};

// argv[0] is the subcommand's name.
[[nodiscard]] ho::Parsed<PlanArguments> parse_plan_arguments(int argc, const char* const* argv);

}  // namespace paro::tool
