#include "cli/run/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/env.hpp"
#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace ho {
namespace {

constexpr uint32_t kMaxDefaultRails = 4;

// CLI11 does not know that what follows the options is a command.
class CommandUsage : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] [--] CMD [ARGUMENTS]\n";
  }
};

// The options as text, before they are checked.
struct Texts {
  std::string sizes;
  std::string rail_rate = "200mbit";
  std::string emulate = "auto";
  uint32_t rails = 0;
  double timeout_s = 0;
  std::string bind_to = "none";
  bool no_prefix = false;
  bool cluster_around = false;  // which has what -n would give
};

void add_cluster_options(CLI::App& app, Texts& texts, ClusterOptions& options) {
  app.add_option("-n", texts.sizes, "Nodes and ranks: 4x4, 1+3, 3+5+1, or 8 (one node)");
  app.add_option("--rails",
                 texts.rails,
                 "Rails (network interfaces) of each node; with fewer than ranks the ranks share "
                 "them, more than the smallest node has ranks stay unused [ranks of the smallest "
                 "node, at most 4]")
      ->check(CLI::Range(1, 64));
  app.add_option("--rail-rate",
                 texts.rail_rate,
                 "Rate of each rail, each way: 200mbit, 1gbit, or none for no limit")
      ->capture_default_str();
  app.add_option("--emulate",
                 texts.emulate,
                 "How nodes are made: namespaces, paced (loopback, paced by the sender), none "
                 "(loopback at full speed), or auto: namespaces where this machine permits them, "
                 "otherwise paced")
      ->capture_default_str();
  app.add_flag("--quiet,-q", options.quiet, "Do not print how the cluster is emulated");
  app.add_flag("--probe",
               options.probe_only,
               "Print which parts of an emulated cluster this machine permits, and run nothing");
  app.prefix_command();
  app.formatter(std::make_shared<CommandUsage>());
}

Status check_sizes(const Texts& texts, ClusterOptions& options) {
  if (texts.sizes.empty()) {
    return texts.cluster_around ? Status()
                                : invalid("-n is missing: nodes and ranks, for example -n 4x4");
  }
  const auto sizes = GroupMap::parse(texts.sizes);
  if (!sizes.ok() || sizes->world_size() > kMaxRanks) {
    return invalid("-n " + texts.sizes +
                   ": takes nodes and ranks, as 4x4, 1+3 or 8 (one node); at most " +
                   std::to_string(kMaxRanks) + " ranks run on one machine");
  }
  options.sizes = *sizes;
  return {};
}

Status check_cluster_options(const CLI::App& app, const Texts& texts, ClusterOptions& options) {
  if (options.probe_only) {
    return {};
  }
  HORING_TRY(check_sizes(texts, options));
  HORING_ASSIGN(options.rail_rate_mbit,
                parse_rate_limit("--rail-rate", texts.rail_rate, env::kMaxMbit));
  if (app.count("--rails") > 0) {
    options.rails = texts.rails;
  }
  if (texts.emulate != "auto") {
    HORING_ASSIGN(options.emulation, parse_emulation(texts.emulate));
  }
  return options.sizes.has_value() ? check_shape(shape_of(options)) : Status();
}

std::vector<std::string> command_of(const CLI::App& app) {
  std::vector<std::string> words = app.remaining();
  if (!words.empty() && words.front() == "--") {
    words.erase(words.begin());
  }
  return words;
}

int usage_error(const CLI::App& app, const std::string& message) {
  std::fprintf(stderr,
               "%s: %s\nTry '%s --help'.\n",
               app.get_name().c_str(),
               message_text(message).c_str(),
               app.get_name().c_str());
  return kUsageError;
}

// Parses; the exit status where the program must not go on.
std::optional<int> parse_words(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  }
  return std::nullopt;
}

// Checks what both commands share, and that there is a command to run.
std::optional<int> finish(const CLI::App& app,
                          const Texts& texts,
                          ClusterOptions& options,
                          std::vector<std::string>& command) {
  if (const Status status = check_cluster_options(app, texts, options); !status.ok()) {
    return usage_error(app, status.message());
  }
  command = command_of(app);
  if (!command.empty() && command.front().rfind('-', 0) == 0) {
    return usage_error(app, "unknown option " + command.front());
  }
  if (command.empty() && !options.probe_only) {
    return usage_error(app, "there is no command to run");
  }
  return std::nullopt;
}

}  // namespace

ClusterShape shape_of(const ClusterOptions& options) {
  const GroupMap& sizes = *options.sizes;
  const uint32_t usual =
      sizes.group_count() == 1 ? 0 : std::min(sizes.rail_count(), kMaxDefaultRails);
  return {sizes.group_count(), options.rails.value_or(usual), options.rail_rate_mbit};
}

Parsed<RunOptions> parse_run_options(int argc, const char* const* argv) {
  Parsed<RunOptions> parsed;
  RunOptions& options = parsed.options;
  Texts texts;
  CLI::App app(
      "Runs a program as ranks on the nodes of an emulated cluster on this machine.\n"
      "Inside `horing cluster` it uses that cluster; without -n all of it.",
      "horing run");
  texts.cluster_around = env::text_if_set(env::kCluster).has_value();
  add_cluster_options(app, texts, options.cluster);
  app.add_option("--order",
                 options.order,
                 "Where ranks go: block (0, 1, .. fill the first node first), round-robin, or a "
                 "FILE with the node number of each rank")
      ->capture_default_str();
  app.add_option("--key-file", options.key_file, "File with the job key [a fresh random key]");
  app.add_option("--timeout", texts.timeout_s, "End the job after that many seconds (status 124)");
  app.add_flag("--no-prefix", texts.no_prefix, "Forward output without [rank] in front");
  app.add_flag("--rank0-raw",
               options.job.rank0_raw,
               "Forward what rank 0 writes to standard output as it is");
  app.add_flag("--keep-going",
               options.job.keep_going,
               "Let the other ranks go on when one fails; the status is still the first failure's");
  app.add_option("--bind-to",
                 texts.bind_to,
                 "node: the ranks of each node keep to CPUs of their own, as on a cluster (more "
                 "nodes than CPUs: nodes take turns); none: all use all")
      ->check(CLI::IsMember(std::vector<std::string>{"node", "none"}))
      ->capture_default_str();
  parsed.exit_status = parse_words(app, argc, argv);
  if (parsed.exit_status.has_value()) {
    return parsed;
  }
  options.job.prefix = !texts.no_prefix;
  options.job.own_cpus = texts.bind_to == "node";
  if (app.count("--timeout") > 0) {
    constexpr double kMaxSeconds = 1e9;
    if (!(texts.timeout_s > 0)) {
      parsed.exit_status = usage_error(app, "--timeout takes a number of seconds above 0");
      return parsed;
    }
    options.job.timeout = std::chrono::milliseconds(
        static_cast<int64_t>(std::min(texts.timeout_s, kMaxSeconds) * 1000));
  }
  parsed.exit_status = finish(app, texts, options.cluster, options.job.command);
  return parsed;
}

Parsed<ClusterCommandOptions> parse_cluster_options(int argc, const char* const* argv) {
  Parsed<ClusterCommandOptions> parsed;
  Texts texts;
  CLI::App app(
      "Brings an emulated cluster up, runs one program beside its nodes, and takes it down.\n"
      "Inside, `horing run` uses the cluster, `horing node-exec NODE -- CMD` runs a program "
      "on one node, and\n`horing cluster-link NODE RAIL up|down|blackhole|RATE` changes a link.",
      "horing cluster");
  add_cluster_options(app, texts, parsed.options.cluster);
  parsed.exit_status = parse_words(app, argc, argv);
  if (!parsed.exit_status.has_value()) {
    parsed.exit_status = finish(app, texts, parsed.options.cluster, parsed.options.command);
  }
  return parsed;
}

}  // namespace ho
