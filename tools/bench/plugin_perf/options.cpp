#include "bench/plugin_perf/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "abi/releases.hpp"
#include "base/quantity.hpp"
#include "cli/subcommands/option_error.hpp"

namespace ho::plugin_perf {
namespace {

using nccl_host::Collective;

struct Text {
  std::string collectives = "all";
  std::string sizes = "64K:50,1M:10,16M:3";
  std::string dtype = "float";
  std::string op = "sum";
  std::string paths = "both";
  std::string slot;
  std::string chunk;
};

uint64_t bytes_of(const std::string& option, const std::string& text, uint64_t fallback) {
  const auto bytes = text.empty() ? fallback : parse_bytes(text);
  if (!bytes || (!text.empty() && (*bytes == 0 || *bytes % sizeof(uint64_t) != 0))) {
    throw CLI::ValidationError(option, "'" + text + "' is no size like 128K, a multiple of 8");
  }
  return *bytes;
}

void check_release(const std::string& release) {
  const auto found = nccl_abi::find_release(release);
  if (!found || found->release->net.front() < nccl_abi::kOldestNet) {
    throw CLI::ValidationError(
        "--release",
        release +
            (nccl_abi::parse_version(release) ? " loads nothing of this plugin"
                                              : " is no release of NCCL") +
            "; takes " + nccl_abi::releases_text(nccl_abi::kOldestNet) +
            ", one between these as the one before it, and a later one as the last");
  }
}

void understand(const Text& text, Options& options) {
  check_release(options.release);
  for (const Collective each :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
    if (text.collectives == "all" || text.collectives == harness::to_string(each)) {
      options.collectives.push_back(each);
    }
  }
  constexpr uint32_t kIterations = 5;
  const auto sizes = harness::parse_sizes(text.sizes, kIterations);
  const auto dtype = parse_dtype(text.dtype);
  const auto op = parse_reduce_op(text.op);
  if (!sizes || sizes->empty()) {
    throw CLI::ValidationError("--sizes", "'" + text.sizes + "' is not a list like 64K:100,1M");
  }
  if (!dtype || !op || *op >= ReduceOp::kAvg || !reduction_supported(*dtype, *op)) {
    throw CLI::ValidationError("-d, -o",
                               text.op + " of " + text.dtype + " is not what CollNet reduces");
  }
  const auto smallest = std::ranges::min(*sizes, {}, &harness::SizeRun::size_bytes);
  if (smallest.size_bytes < ho::size_bytes(*dtype)) {
    throw CLI::ValidationError(
        "--sizes", std::to_string(smallest.size_bytes) + " bytes are less than one " + text.dtype);
  }
  options.sizes = *sizes;
  options.dtype = *dtype;
  options.op = *op;
  options.coll_net = text.paths != "ring";
  options.ring = text.paths != "collnet";
  options.slot_bytes = bytes_of("--slot", text.slot, options.slot_bytes);
  options.chunk_bytes = bytes_of("--chunk", text.chunk, 0);
  if (options.chunk_bytes > options.slot_bytes) {
    throw CLI::ValidationError("--chunk", "is more than a slot holds (--slot)");
  }
}

void add_options(CLI::App& app, Text& text, Options& options) {
  app.add_option("--collectives", text.collectives, "all_reduce, all_gather, reduce_scatter or all")
      ->check(CLI::IsMember({"all_reduce", "all_gather", "reduce_scatter", "all"}));
  app.add_option("--sizes",
                 text.sizes,
                 "sizes, each with its count of operations: 64K:50,1M:10,16M:3 (default)");
  app.add_option("-d", text.dtype, "data type (float)");
  app.add_option("-o", text.op, "sum (default), prod, min or max");
  app.add_option("--rounds", options.rounds, "rounds; medians of them are shown (5)")
      ->check(CLI::Range(1, 1000));
  app.add_option("-w", options.warmup, "operations before the timed ones of each round (3)");
  app.add_option("--channels", options.channels, "of NCCL, both ways (4)")
      ->check(CLI::Range(1, 64));
  app.add_option("--slot", text.slot, "CollNet: bytes of a slot, NCCL_BUFFSIZE / 8 (512K)");
  app.add_option("--chunk",
                 text.chunk,
                 "CollNet: bytes of a chunk (as NCCL chooses by size; a v6 tuner may raise it to a "
                 "slot)");
  app.add_option("--paths", text.paths, "collnet, ring or both (default)")
      ->check(CLI::IsMember({"collnet", "ring", "both"}));
  app.add_flag("--link-limit,!--no-link-limit",
               options.measure_link_limit,
               "measure what plain TCP moves over the same rails first (default)");
  app.add_option("--release", options.release, "of NCCL, whose tables are used (2.30.7)");
  app.add_option(
      "--plugin", options.plugin, "the library (NCCL_NET_PLUGIN, else the one of this build)");
}

}  // namespace

uint64_t Options::largest() const {
  return std::ranges::max(sizes, {}, &harness::SizeRun::size_bytes).size_bytes;
}

Parsed<Options> parse_options(int argc, const char* const* argv) {
  Parsed<Options> parsed;
  Text text;
  CLI::App app(
      "Collectives through the NCCL plugin, driven as NCCL does: CollNet against flat rings over "
      "the plugin's network, in turns, in nccl-tests' columns. Start it with horing run:\n"
      "  horing run -n 4x4 --rails 4 --rail-rate 200mbit -- plugin_perf");
  add_options(app, text, parsed.options);
  parsed.exit_status = exit_unless_parsed(app, argc, argv, [&] {
    understand(text, parsed.options);
    return Status();
  });
  return parsed;
}

}  // namespace ho::plugin_perf
