#include "cli/plugin/tune_options.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/env.hpp"
#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/plugin/nccl_filter.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "core/tuner/cost_table.hpp"
#include "core/tuner/levels.hpp"
#include "core/tuner/tuning_file.hpp"

namespace ho {
namespace {

using plugin::Choice;
using plugin::Choices;

constexpr uint32_t kMaxNodes = 65536;
constexpr uint32_t kMaxLocalRanks = 1024;
constexpr uint32_t kMaxMbps = env::kMaxMbit;
constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30U;

// "allreduce", "collnetdirect": as NCCL's settings call what tuning files call with underscores.
std::string nccl_word(std::string_view name) {
  std::string word(name);
  std::erase(word, '_');
  return word;
}

struct Texts {
  std::string min = "8";
  std::string max = "1G";
  std::string buffer = "4M";
  uint32_t intra_gbps = 2400;
};

void declare_topology(CLI::App& app, TuneOptions& options) {
  app.add_option("--nodes", options.nodes, "nodes of the communicator")
      ->check(CLI::Range(1U, kMaxNodes))
      ->capture_default_str();
  app.add_option("--ranks-per-node", options.ranks_per_node, "ranks, that is GPUs, on each node")
      ->check(CLI::Range(1U, kMaxLocalRanks))
      ->capture_default_str();
  app.add_option("--nics", options.nics, "NICs of each node (default: one per rank)")
      ->check(CLI::Range(1U, kMaxLocalRanks));
  app.add_option("--heads",
                 options.heads,
                 "ranks of each node that a rail ring goes through (default: one per NIC)")
      ->check(CLI::Range(1U, kMaxLocalRanks));
  app.add_flag("--nvswitch", options.nvswitch, "the nodes have an NVSwitch");
  app.add_flag("--nvls", options.nvls, "and NVLS (implies --nvswitch)");
}

void declare_rates(CLI::App& app, TuneOptions& options, Texts& texts) {
  app.add_option("--rail-mbps",
                 options.rail_mbps,
                 "Mbit/s that one NIC carries of our rings, per direction")
      ->check(CLI::Range(1U, kMaxMbps))
      ->capture_default_str();
  app.add_option("--nic-mbps",
                 options.nic_mbps,
                 "Mbit/s that one NIC carries of NCCL's own sends (default: as --rail-mbps)")
      ->check(CLI::Range(1U, kMaxMbps));
  app.add_option("--intra-gbps",
                 texts.intra_gbps,
                 "Gbit/s of one GPU to the others of its node, per direction; 0: no limit")
      ->check(CLI::Range(0U, 100'000U))
      ->capture_default_str();
  app.add_option("--hop-us", options.hop_us, "microseconds of a small message between nodes")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
}

void declare_nccl(CLI::App& app, TuneOptions& options, Texts& texts) {
  app.add_option("--channels", options.channels, "NCCL's channels for CollNet; 0: one per NIC")
      ->check(CLI::Range(0U, 1024U))
      ->capture_default_str();
  app.add_option("--buffsize", texts.buffer, "bytes of NCCL_BUFFSIZE, such as 4M or 16M")
      ->capture_default_str();
  app.add_flag("--chunk-sizes",
               options.chunk_sizes,
               "NCCL takes chunk sizes from the tuner (NCCL 2.30.3 and later)");
  app.add_option("--file", options.file, "a tuning file (HORING_TUNING_FILE) to apply");
  app.add_option("--min", texts.min, "smallest size in bytes, with K, M, G or without")
      ->capture_default_str();
  app.add_option("--max", texts.max, "largest size in bytes")->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
}

// The variable's value where the option is not given.
template <typename Number>
Status stand_in(const CLI::App& app,
                const char* option,
                const env::Variable& variable,
                TuneOptions& options,
                Number& into) {
  const auto set = env::text_if_set(variable);
  if (app.count(option) > 0 || !set) {
    return {};
  }
  HORING_ASSIGN(const uint64_t number, env::number(variable));
  into = static_cast<uint32_t>(number);
  options.from_environment.push_back(std::string(variable.name) + "=" + *set);
  return {};
}

// What neither an option nor another variable says.
Status take_levels(const CLI::App& app, TuneOptions& options) {
  HORING_ASSIGN(const auto levels, plugin::levels_from_environment());
  if (!levels) {
    return {};
  }
  if (const uint32_t ranks = options.ranks_per_node;
      ranks > levels->front().size && !cost::inside_groups(*levels, ranks).ok()) {
    return invalid(
        fmt::format("{} {}: no unit of its levels has the {} ranks of a node; takes "
                    "--ranks-per-node {}, or a file of such nodes",
                    env::kLevelsFile.name,
                    env::text(env::kLevelsFile),
                    ranks,
                    fmt::join(cost::group_sizes_near(*levels, ranks), " or ")));
  }
  const auto found = plugin::on_levels(*levels, inputs_of(options));
  if (!found.ok()) {
    return found.status().with_context(std::string(env::kLevelsFile.name));
  }
  options.from_environment.push_back(std::string(env::kLevelsFile.name) + "=" +
                                     env::text(env::kLevelsFile));
  if (app.count("--nics") == 0) {
    options.nics = found->nic_count;
  }
  if (app.count("--nic-mbps") == 0) {
    options.nic_mbps = found->nic_mbps;
  }
  if (app.count("--intra-gbps") == 0) {
    options.intra_mbps = found->intra_mbps;
  }
  if (app.count("--hop-us") == 0 && !env::text_if_set(env::kTunerHopUs)) {
    options.hop_ns = found->hop_ns;
  }
  options.intra_hop_ns = found->intra_hop_ns;
  return {};
}

Status take_environment(const CLI::App& app, TuneOptions& options) {
  HORING_TRY(take_levels(app, options));
  HORING_TRY(stand_in(app, "--nics", env::kTunerNics, options, options.nics));
  HORING_TRY(stand_in(app, "--nic-mbps", env::kTunerNicMbps, options, options.nic_mbps));
  // As in the tuner, rings are as fast as the NIC where nothing else is given.
  if (app.count("--rail-mbps") == 0 && app.count("--nic-mbps") == 0) {
    options.rail_mbps = options.nic_mbps.value_or(options.rail_mbps);
  }
  HORING_TRY(stand_in(app, "--rail-mbps", env::kTunerRailMbps, options, options.rail_mbps));
  HORING_TRY(stand_in(app, "--intra-gbps", env::kTunerIntraMbps, options, options.intra_mbps));
  HORING_TRY(stand_in(app, "--channels", env::kTunerChannels, options, options.channels));
  HORING_TRY(stand_in(app, "--hop-us", env::kTunerHopUs, options, options.hop_us));
  if (app.count("--file") > 0) {
    return options.file.empty() ? invalid("--file '': takes the path of a file") : Status();
  }
  options.file = env::text(env::kTuningFile);
  if (!options.file.empty()) {
    options.from_environment.push_back(std::string(env::kTuningFile.name) + "=" + options.file);
  }
  return {};
}

void take_nccl_settings(TuneOptions& options) {
  for (const auto& [name, value] : {std::pair("NCCL_ALGO", &options.nccl_algorithms),
                                    std::pair("NCCL_PROTO", &options.nccl_protocols)}) {
    if (const char* const set = std::getenv(name); set != nullptr && *set != '\0') {
      *value = set;
      options.from_environment.push_back(std::string(name) + "=" + set);
    }
  }
}

Status take_size(const char* name, const std::string& text, uint64_t& bytes) {
  const auto parsed = parse_bytes(text);
  if (!parsed) {
    return invalid(std::string(name) + " '" + text +
                   "': takes a whole number of bytes, with K, M, G or T or without");
  }
  bytes = *parsed;
  return {};
}

Status finish(const CLI::App& app, const Texts& texts, TuneOptions& options) {
  options.intra_mbps = texts.intra_gbps * 1000;
  HORING_TRY(take_environment(app, options));
  take_nccl_settings(options);
  HORING_TRY(take_size("--min", texts.min, options.min_bytes));
  HORING_TRY(take_size("--max", texts.max, options.max_bytes));
  HORING_TRY(take_size("--buffsize", texts.buffer, options.buffer_bytes));
  if (options.min_bytes == 0 || options.min_bytes > options.max_bytes) {
    return invalid("--min " + texts.min + " and --max " + texts.max +
                   ": sizes are from 1 on, and --max is not less than --min");
  }
  if (options.buffer_bytes < 4096 || options.buffer_bytes > kMaxBufferBytes) {
    return invalid("--buffsize " + texts.buffer + ": takes 4K to 1G");
  }
  if (options.heads.value_or(1) > options.ranks_per_node) {
    return invalid("--heads " + std::to_string(*options.heads) + ": a node has only " +
                   std::to_string(options.ranks_per_node) + " ranks; see --ranks-per-node");
  }
  options.nvswitch = options.nvswitch || options.nvls;
  return {};
}

}  // namespace

Parsed<TuneOptions> parse_tune_options(int argc, const char* const* argv) {
  TuneOptions options;
  Texts texts;
  CLI::App app(
      "Prints what the NCCL tuner chooses for each collective and size on such nodes, and the "
      "modelled times. Sizes are NCCL's: of all ranks together, for all-reduce the buffer. What is "
      "not given is taken from HORING_TUNING_FILE, HORING_TUNER_* and HORING_LEVELS_FILE, as in "
      "the tuner itself; "
      "NCCL_ALGO "
      "and NCCL_PROTO count too.",
      "horing tune");
  declare_topology(app, options);
  declare_rates(app, options, texts);
  declare_nccl(app, options, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return {options, app.exit(error) == 0 ? 0 : kUsageError};
  }
  if (const Status status = finish(app, texts, options); !status.ok()) {
    std::fprintf(stderr, "horing tune: %s\n", message_text(status.message()).c_str());
    return {options, kUsageError};
  }
  return {options, std::nullopt};
}

plugin::CommonInputs inputs_of(const TuneOptions& options) {
  plugin::CommonInputs inputs;
  inputs.node_count = options.nodes;
  inputs.rank_count = options.nodes * options.ranks_per_node;
  inputs.least_local_ranks = options.ranks_per_node;
  inputs.most_local_ranks = options.ranks_per_node;
  inputs.nic_count = options.nics.value_or(options.ranks_per_node);
  inputs.head_count = options.heads.value_or(std::min(inputs.nic_count, options.ranks_per_node));
  inputs.channel_count = options.channels;
  inputs.buffer_bytes = static_cast<uint32_t>(options.buffer_bytes);
  inputs.rail_mbps = options.rail_mbps;
  inputs.nic_mbps = options.nic_mbps.value_or(options.rail_mbps);
  inputs.intra_mbps = options.intra_mbps;
  inputs.hop_ns = options.hop_ns.value_or(options.hop_us * 1000);
  inputs.intra_hop_ns = options.intra_hop_ns.value_or(inputs.intra_hop_ns);
  inputs.collnet_connected = 1;
  inputs.sets_chunk_size = options.chunk_sizes ? 1 : 0;
  inputs.reduces_all_types = 1;
  inputs.algorithms_filtered = options.nccl_algorithms || options.nccl_protocols ? 1 : 0;
  return inputs;
}

bool nccl_settings_leave(const TuneOptions& options,
                         plugin::TunedCollective collective,
                         Choice choice) {
  const std::string function = nccl_word(to_string(collective));
  const auto leaves = [&function](const std::optional<std::string>& setting,
                                  std::string_view word) {
    return setting_leaves(setting, true, function, word);
  };
  const bool any_protocol = choice == Choice::kRing || choice == Choice::kTree;
  return leaves(options.nccl_algorithms, nccl_word(to_string(choice))) &&
         (any_protocol || leaves(options.nccl_protocols, "simple"));
}

namespace {

Choices before_settings(const TuneOptions& options, plugin::TunedCollective collective) {
  const plugin::CommonInputs inputs = inputs_of(options);
  Choices allowed = Choices().with(Choice::kRing);
  if (options.nodes < 2) {
    return allowed;
  }
  if (collective == plugin::TunedCollective::kAllReduce) {
    allowed = allowed.with(Choice::kTree).with(Choice::kCollNetChain);
    allowed = options.nvls ? allowed.with(Choice::kNvlsTree) : allowed;
  } else if (inputs.one_rank_per_node()) {
    allowed = allowed.with(Choice::kPat);
  }
  allowed = options.nvls ? allowed.with(Choice::kNvls) : allowed;
  return options.nvswitch ? allowed.with(Choice::kCollNetDirect) : allowed;
}

}  // namespace

Choices allowed_by_nccl(const TuneOptions& options, plugin::TunedCollective collective) {
  const Choices before = before_settings(options, collective);
  Choices allowed;
  for (const Choice choice : plugin::kAlgorithmChoices) {
    if (before.has(choice) && nccl_settings_leave(options, collective, choice)) {
      allowed = allowed.with(choice);
    }
  }
  return allowed;
}

Choices allowed_by(const TuneOptions& options, plugin::TunedCollective collective) {
  const Choices allowed = allowed_by_nccl(options, collective);
  const bool direct = plugin::may_force_collnet_direct(inputs_of(options), collective, allowed);
  return direct ? allowed.with(Choice::kCollNetDirect) : allowed;
}

}  // namespace ho
