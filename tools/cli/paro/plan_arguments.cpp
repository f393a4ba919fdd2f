#include "cli/paro/plan_arguments.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "cli/paro/names_table.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::tool {
namespace {

// Breaks lines between words, for the column right of the options.
std::string wrapped(std::string_view text) {
  constexpr size_t kWidth = 68;
  std::string lines;
  while (text.size() > kWidth) {
    const size_t blank = text.rfind(' ', kWidth);
    lines += std::string(text.substr(0, blank)) + "\n";
    text.remove_prefix(blank + 1);
  }
  return lines + std::string(text);
}

// As a shell takes it.
std::string command_of(int argc, const char* const* argv) {
  std::string command = "paro plan";
  for (int at = 1; at < argc; ++at) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%";
    const std::string_view word = argv[at];
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos;
    std::string quoted;
    for (const char letter : word) {
      quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    }
    command += plain ? fmt::format(" {}", word) : fmt::format(" '{}'", quoted);
  }
  return command;
}

void declare(CLI::App& app, PlanTexts& texts) {
  for (const PlanOption& option : plan_options()) {
    app.add_option(std::string("--") + option.name, texts.*(option.text), wrapped(option.help))
        ->group(option.group)
        ->type_name(option.kind)
        ->take_last();
  }
  app.add_flag("--no-overlap", texts.no_overlap, wrapped(kNoOverlapHelp))->group("Model and step");
  app.add_flag("--measure",
               texts.measure,
               wrapped("take nodes, ranks and rates from a running job, as horing doctor does: "
                       "start this on every rank (horing run -n 4x4 -- paro plan --measure ..); "
                       "rank 0 prints"))
      ->group("Cluster");
}

int refuse(const std::string& message) {
  if (ho::first_rank()) {
    std::fprintf(stderr, "paro plan: %s\n", message.c_str());
  }
  return ho::fail_after_first_rank(ho::kUsageError);
}

}  // namespace

ho::Parsed<PlanArguments> parse_plan_arguments(int argc, const char* const* argv) {
  CLI::App app(
      "Works out memory and time of the 14 ways to shard a model's states over a cluster, and\n"
      "recommends one.\n\n"
      "  paro plan --model llama-65b --nodes 4 --ranks-per-node 8 --memory 80GB --intra 2000Gbit\n"
      "            --inter 80Gbit --nics 8 --accumulation 10 --compute-time 54s\n",
      "paro plan");
  app.get_formatter()->column_width(26);
  PlanTexts texts;
  texts.command = command_of(argc, argv);
  declare(app, texts);
  ho::Parsed<PlanArguments> parsed;
  bool names = false;
  app.add_flag("--names", names, wrapped("print all names that are known, and end"))
      ->group("By name, for a model with a name or a config.json");
  app.add_flag("--validate",
               parsed.options.validate,
               wrapped("hold the planner against published tables, row by row; takes --json"))
      ->group("Proof");
  app.add_flag("--fit",
               parsed.options.fit,
               wrapped("fit what --effects gpu stands for on those of them that are there for it; "
                       "takes --json"))
      ->group("Proof");
  app.add_option("--export-to",
                 parsed.options.program_path,
                 wrapped("the file that --export writes, beside the table; one that is there is "
                         "replaced [standard output, without the table]"))
      ->type_name("FILE")
      ->group("From plan to run");
  app.add_flag("--verbose", parsed.options.verbose, "print every figure of every strategy");
  app.add_flag("--json", parsed.options.json, "print JSON; memory in bytes, times in seconds");
  app.add_option("--csv",
                 parsed.options.csv,
                 wrapped("write every figure to this file too, or with --sweep a row for each "
                         "value; - prints it instead"))
      ->type_name("FILE");
  app.footer(
      "\nUnits: k M G T P are powers of 1000, Ki Mi Gi Ti Pi of 1024; 80Gbit and 10GB are the same "
      "rate.\nExit status: 0, also where nothing fits; 2 for wrong arguments; 1 for a job "
      "that\ncannot be measured.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    parsed.exit_status = ho::exit_after(app, help);
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit_status = refuse(error.what());
    return parsed;
  }
  if (names) {
    std::fputs(names_text().c_str(), stdout);
    parsed.exit_status = 0;
    return parsed;
  }
  if (parsed.options.validate || parsed.options.fit) {
    return parsed;
  }
  if (parsed.options.json && parsed.options.csv == "-") {
    parsed.exit_status = refuse("--csv - beside --json, which prints too: give --csv a file");
    return parsed;
  }
  if (texts.sweep) {
    parsed.options.sweep = std::move(texts);
    return parsed;
  }
  auto understood = understand(texts);
  if (!understood.ok()) {
    parsed.exit_status = refuse(understood.status().message());
    return parsed;
  }
  parsed.options.plan = std::move(understood).value();
  if (!parsed.options.program_path.empty() && !parsed.options.plan.export_to) {
    parsed.exit_status = refuse("--export-to takes --export beside it");
  }
  return parsed;
}

}  // namespace paro::tool
