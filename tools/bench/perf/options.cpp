#include "bench/perf/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/quantity.hpp"
#include "cli/subcommands/option_error.hpp"

namespace ho::perf {
namespace {

using NamedAlgorithm = std::pair<std::string_view, ho_algorithm>;
constexpr std::array<NamedAlgorithm, 6> kAlgorithms{{
    {"auto", HO_ALGORITHM_AUTO},
    {"ring", HO_ALGORITHM_RING},
    {"multi_ring", HO_ALGORITHM_MULTI_RING},
    {"hierarchical", HO_ALGORITHM_HIERARCHICAL},
    {"ho_ring", HO_ALGORITHM_HO_RING},
    {"direct", HO_ALGORITHM_DIRECT},
}};

constexpr std::array<std::string_view, 3> kMemories{"host", "device", "mixed"};  // as the enum

// The option values as typed, before they are understood.
struct Text {
  std::string min_bytes;
  std::string max_bytes;
  std::string step_bytes;
  std::string dtype = "float";
  std::string op = "sum";
  std::string algorithm = "auto";
  std::string index;
  std::string memory = "host";
  std::string sizes;
  int check = 1;
  int blocking = 0;
};

void add_nccl_options(CLI::App& app, Text& text, Options& options) {
  app.add_option("-b,--minbytes", text.min_bytes, "smallest size in bytes; K, M, G (default 32M)");
  app.add_option("-e,--maxbytes", text.max_bytes, "largest size in bytes (default 32M)");
  app.add_option("-i,--stepbytes", text.step_bytes, "bytes between sizes (default 1M)");
  app.add_option("-f,--stepfactor", options.step_factor, "factor between sizes, instead of -i")
      ->check([](const std::string& input) {
        const bool fits = CLI::Range(1, 1 << 20)(input).empty();
        return fits ? std::string() : "(-f) takes a whole number from 1 to 1048576, not " + input;
      });
  app.add_option("-n,--iters", options.iterations, "operations timed per size (default 20)")
      ->check(CLI::Range(1U, harness::kMaxIterations));
  app.add_option(
         "-w,--warmup_iters", options.warmup, "operations right before them, not timed (default 5)")
      ->check(CLI::Range(0U, harness::kMaxIterations));
  app.add_option("-c,--check", text.check, "1 checks every byte of the results (default), 0 none")
      ->check(CLI::Range(0, 1));
  app.add_option("-o,--op",
                 text.op,
                 "sum, prod, min, max, avg, band, bor, bxor, premul_sum or all (default sum)");
  app.add_option("-d,--datatype",
                 text.dtype,
                 "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 fp8_e4m3 "
                 "fp8_e5m2, for all_gather also int16 uint16 bool complex64 complex128; or all "
                 "(default float)");
  app.add_option("-z,--blocking",
                 text.blocking,
                 "0 times operations back to back, total / n (default); 1 puts a barrier before "
                 "each and times it alone")
      ->check(CLI::Range(0, 1));
  app.add_option(
      "-J,--output_file",
      options.json_file,
      "also write the results to this JSON file, with nccl-tests' keys; a file of that name is "
      "replaced");
}

void add_own_options(CLI::App& app, Text& text, Options& options) {
  app.add_option("--algorithm",
                 text.algorithm,
                 "auto, ring, multi_ring, hierarchical, ho_ring or direct (default auto)");
  app.add_option("--sizes",
                 text.sizes,
                 "exactly these sizes, each with its own count of operations if given: "
                 "64K:100,1M,64M (instead of -b, -e, -f, -i)");
  app.add_option("--place", text.index, "out (of place), in (place) or both (default)")
      ->check(CLI::IsMember({"out", "in", "both"}));
  app.add_option("--memory",
                 text.memory,
                 "buffers of the host (default), of the device (CUDA) of the local rank, or mixed: "
                 "sends from the device, receives in pinned memory of the host, out of place")
      ->check(CLI::IsMember({"host", "device", "mixed"}));
  app.add_flag("--phases", options.phases, "time and bytes of each phase under each row");
  app.add_flag("--groups", options.groups, "print which rank is in which group and on which rail");
  app.add_flag("--link-limit,!--no-link-limit",
               options.measure_link_limit,
               "measure what plain TCP moves over the same rails first (default)");
  app.add_option("--link-limit-rate",
                 options.link_limit,
                 "use this limit, bytes per second of one node, instead of measuring")
      ->check([](const std::string& input) {
        const double rate = std::strtod(input.c_str(), nullptr);
        return rate > 0.0 && std::isfinite(rate)
                   ? std::string()
                   : "takes bytes per second, a number above 0, not " + input;
      });
}

uint64_t require_bytes(const std::string& option, const std::string& text, uint64_t fallback) {
  if (text.empty()) {
    return fallback;
  }
  const auto bytes = parse_bytes(text);
  if (!bytes) {
    throw CLI::ValidationError(option,
                               "'" + text + "' is not a size; give bytes, 8K, 4M, 1G or 1T");
  }
  return *bytes;
}

// The one that the text names, or all.
template <typename Value>
std::vector<Value> require_values(const std::string& option,
                                  const char* what,
                                  const std::string& text,
                                  uint8_t count,
                                  const std::optional<Value>& named) {
  std::vector<Value> values;
  if (text == "all") {
    for (uint8_t i = 0; i < count; ++i) {
      values.push_back(static_cast<Value>(i));
    }
  } else if (named) {
    values.push_back(*named);
  } else {
    throw CLI::ValidationError(option, "'" + text + "' is not " + what + "; --help lists them");
  }
  return values;
}

Memory require_memory(const std::string& text) {
  const auto* const found = std::find(kMemories.begin(), kMemories.end(), text);
  return static_cast<Memory>(found - kMemories.begin());  // the option takes nothing else
}

void understand(const Text& text, Options& options) {
  options.min_bytes = require_bytes("-b", text.min_bytes, options.min_bytes);
  const uint64_t default_max = std::max(options.min_bytes, options.max_bytes);
  options.max_bytes = require_bytes("-e", text.max_bytes, default_max);
  options.step_bytes = require_bytes("-i", text.step_bytes, options.step_bytes);
  if (options.min_bytes > options.max_bytes) {
    throw CLI::ValidationError("-b", text.min_bytes + " is above -e " + text.max_bytes);
  }
  if (options.step_bytes == 0 && options.step_factor == 1) {
    throw CLI::ValidationError("-i", "0 never reaches -e; give a step or a factor (-f)");
  }
  if (options.min_bytes == 0 && options.step_factor > 1) {
    throw CLI::ValidationError("-b", "0 does not grow by a factor; start at 1 byte or more");
  }
  const auto listed = harness::parse_sizes(text.sizes, options.iterations);
  if (!listed) {
    throw CLI::ValidationError("--sizes", "'" + text.sizes + "' is not a list like 64K:100,1M");
  }
  options.listed_sizes = *listed;
  options.dtypes =
      require_values("-d", "a data type", text.dtype, kDTypeCount, parse_dtype(text.dtype));
  options.ops =
      require_values("-o", "an operation", text.op, kReduceOpCount, parse_reduce_op(text.op));
  const auto algorithm = parse_algorithm(text.algorithm);
  if (!algorithm) {
    throw CLI::ValidationError("--algorithm", "'" + text.algorithm + "' is not one; see --help");
  }
  options.algorithm = *algorithm;
  options.check = text.check != 0;
  options.barrier_each = text.blocking != 0;
  options.memory = require_memory(text.memory);
  const bool mixed = options.memory == Memory::kMixed;
  if (mixed && (text.index == "in" || text.index == "both")) {
    throw CLI::ValidationError(
        "--place", text.index + ": --memory mixed has two buffers, which are not in place");
  }
  options.out_of_place = text.index != "in";
  options.in_place = text.index != "out" && !mixed;
}

}  // namespace

std::string_view to_string(ho_algorithm algorithm) {
  const auto* const found = std::ranges::find(kAlgorithms, algorithm, &NamedAlgorithm::second);
  return found == kAlgorithms.end() ? "?" : found->first;
}

std::string_view to_string(Memory memory) {
  return kMemories.at(static_cast<size_t>(memory));
}

std::optional<ho_algorithm> parse_algorithm(std::string_view name) {
  const auto* const found = std::ranges::find(kAlgorithms, name, &NamedAlgorithm::first);
  return found == kAlgorithms.end() ? std::nullopt : std::optional(found->second);
}

std::vector<harness::SizeRun> Options::sizes() const {
  if (!listed_sizes.empty()) {
    return listed_sizes;
  }
  std::vector<harness::SizeRun> runs;
  uint64_t size = min_bytes;
  while (size <= max_bytes) {
    runs.push_back({size, iterations});
    const uint64_t next = step_factor > 1 ? size * step_factor : size + step_bytes;
    if (next <= size) {  // wrapped around
      break;
    }
    size = next;
  }
  return runs;
}

Parsed<Options> parse_options(harness::Collective collective, int argc, const char* const* argv) {
  const std::string name(to_string(collective));
  CLI::App app("Times " + name +
                   " over a range of sizes and checks every byte of the results. Start one process "
                   "per rank: horing run -n 4x4 " +
                   name + "_perf -b 8 -e 64M -f 2",
               name + "_perf");
  Text text;
  Parsed<Options> parsed;
  parsed.options.words.assign(argv, argv + argc);
  add_nccl_options(app, text, parsed.options);
  add_own_options(app, text, parsed.options);
  parsed.exit_status = exit_unless_parsed(app, argc, argv, [&] {
    understand(text, parsed.options);
    return Status();
  });
  return parsed;
}

}  // namespace ho::perf
