#include "cli/subcommands/table.hpp"

#include <spdlog/fmt/fmt.h>

#include <string>

#include "cli/paro/advice.hpp"
#include "cli/paro/figure_columns.hpp"
#include "cli/paro/head.hpp"
#include "cli/paro/report.hpp"
#include "planner/text/group_text.hpp"

namespace paro::tool {
namespace {

std::string columns_text(const Report& report) {
  const PlannerRequest& request = report.options.request;
  const FigureColumns figures = figure_columns(report, Precise::kNo);
  return fmt::format(
      "Memory per rank in {}; time in {}: param and gradient per micro-batch, the rest per "
      "step.\n"
      "comm: {} x (param + gradient) + sync-g + sync-p. step: the critical path of the step "
      "plan, and what comes on top of it.\nexposed: communication in it that computation does "
      "not hide. T = max(comm, "
      "computation).\n\n{}",
      figures.memory_unit,
      figures.time_unit,
      request.sequences > 0 ? "accumulation" : std::to_string(request.micro_batches),
      ho::aligned(figures.columns));
}

}  // namespace

std::string table_text(const Report& report) {
  const auto named = [](const StrategyFigures* figures, const char* mark) {
    return figures == nullptr ? "none" : letters(figures->strategy) + " (" + mark + ")";
  };
  return head_text(report) + columns_text(report) + sizes_text(report) +
         fmt::format("\nrecommended: {}\nrunner-up:   {}\n{}why:         {}\n{}",
                     named(report.recommendation.recommended(), "*"),
                     named(report.recommendation.runner_up(), "+"),
                     others_text(report),
                     report.recommendation.why(),
                     warnings_text(report.options.request.assumed));
}

}  // namespace paro::tool
