#include "cli/paro/plan_arguments.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/escaped.hpp"
#include "base/near_names.hpp"
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
        ->type_name(option.kind);
  }
  app.add_flag("--no-overlap", texts.no_overlap, wrapped(kNoOverlapHelp))->group("Model and step");
  app.add_flag("--measure",
               texts.measure,
               wrapped("take nodes, ranks and rates from a running job, as horing doctor does: "
                       "start this on every rank (horing run -n 4x4 -- paro plan --measure ..); "
                       "rank 0 prints"))
      ->group("Cluster");
}

void declare_files(CLI::App& app, PlanArguments& arguments) {
  app.add_option("--export-to",
                 arguments.program_path,
                 wrapped("the file that --export writes, beside the table; one that is there is "
                         "replaced [standard output, without the table]"))
      ->type_name("FILE")
      ->group("From plan to run");
  app.add_option(
         "--write",
         arguments.cluster_path,
         wrapped("the file that --measure writes the cluster to, for --cluster; one that is "
                 "there is replaced"))
      ->type_name("FILE")
      ->group("Cluster");
  app.add_option("--csv",
                 arguments.csv,
                 wrapped("write every figure to this file too, or with --sweep a row for each "
                         "value; - prints it instead"))
      ->type_name("FILE");
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    names.push_back(option->get_name());
  }
  return names;
}

// The parser's own words name no remedy.
std::string problem_text(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    const std::string word = app.remaining().front();
    const std::vector<std::string> names = names_of(app);
    const auto near = ho::near_names(word, {names.begin(), names.end()});
    return fmt::format("'{}' is no option, nor the value of one{}; paro plan --help lists them",
                       word,
                       near.empty() ? "" : fmt::format("; near it: {}", fmt::join(near, ", ")));
  }
  const std::string name = text.substr(0, text.find(':'));
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr ||
      error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ArgumentMismatch)) {
    return text;
  }
  return option->count() > 1 ? fmt::format("{} is given {} times ({}): give it once",
                                           name,
                                           option->count(),
                                           fmt::join(option->results(), ", "))
                             : fmt::format("{} takes {} behind it", name, option->get_type_name());
}

// The first option that is given and not among those that count.
std::optional<std::string> other_than(const CLI::App& app,
                                      std::initializer_list<std::string_view> counting) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 &&
        std::find(counting.begin(), counting.end(), name) == counting.end()) {
      return name;
    }
  }
  return std::nullopt;
}

// Of options that say what to print in place of a plan; nothing where none of them is there.
ho::Status check_alone(const CLI::App& app) {
  for (const std::string_view alone : {"--names", "--validate", "--fit"}) {
    if (app.count(std::string(alone)) == 0) {
      continue;
    }
    const bool json = alone != "--names";
    if (const auto other = other_than(app, {alone, json ? "--json" : alone})) {
      return ho::invalid(fmt::format("{} beside {}: it takes no {}",
                                     *other,
                                     alone,
                                     json ? "other option than --json" : "other option"));
    }
  }
  return {};
}

// Options that would not count.
ho::Status check_output(const PlanTexts& texts, const PlanArguments& arguments) {
  if (arguments.json && arguments.csv == "-") {
    return ho::invalid("--csv - beside --json, which prints too: give --csv a file");
  }
  if (texts.sweep && arguments.verbose) {
    return ho::invalid("--verbose beside --sweep, which prints a row for each value: leave it out");
  }
  if (!arguments.program_path.empty() && !texts.export_to) {
    return ho::invalid("--export-to takes --export beside it");
  }
  if (!arguments.cluster_path.empty() && !texts.measure) {
    return ho::invalid("--write takes --measure beside it: a cluster that is given needs no file");
  }
  return {};
}

int refuse(const std::string& message) {
  if (ho::first_rank()) {
    // What was typed may have line ends.
    std::fprintf(stderr, "paro plan: %s\n", ho::escaped(message, message.size()).c_str());
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
  declare_files(app, parsed.options);
  app.add_flag("--verbose", parsed.options.verbose, "print every figure of every strategy");
  app.add_flag("--json", parsed.options.json, "print JSON; memory in bytes, times in seconds");
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
    parsed.exit_status = refuse(problem_text(app, error));
    return parsed;
  }
  ho::Status status = check_alone(app);
  if (status.ok()) {
    status = check_output(texts, parsed.options);
  }
  if (!status.ok()) {
    parsed.exit_status = refuse(status.message());
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
  return parsed;
}

}  // namespace paro::tool
