#include "bench/paro_bench/bench_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/quantity.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::bench {
namespace {

// Arguments as they were typed, where CLI11 does not understand them itself.
struct Texts {
  std::string model = "llama-7b";
  std::string scale = "1/2000";
  std::string systems = "all";
  std::string factors = "1";
  std::string flops = "312e12";
  std::string utilisation = "0.4";
  std::string real_rate = "80Gbit";
  std::string rail_rate = "200Mbit";
  std::string dtype = "bfloat16";
  std::string bucket = "0";
};

void declare_work(CLI::App& app, Texts& texts, BenchOptions& options) {
  WorkloadSpec& load = options.workload;
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group("What is trained");
  };
  add("--model",
      texts.model,
      "llama-7b, llama-65b, or params=7e9,trainable=4e8,layers=32 [llama-7b]");
  add("--scale", texts.scale, "of its parameters: 1/2000, 0.001 [1/2000]");
  add("--units", load.units, "layers are put together into so many units [the layers, at most 8]")
      ->check(CLI::Range(1U, 1000U));
  add("--micro-batch", load.micro_batch, "samples of a rank [4]")->check(CLI::Range(1U, 1000000U));
  add("--sequence", load.sequence, "tokens of a sample [512]")->check(CLI::Range(1U, 10000000U));
  add("--accumulation", load.accumulation, "micro-batches of a step [10]")
      ->check(CLI::Range(1U, 1024U));
  add("--flops", texts.flops, "operations per second of a rank [312e12: A100, bf16]");
  add("--utilisation", texts.utilisation, "of that [0.4]");
  add("--real-rate", texts.real_rate, "of a NIC in the modelled cluster [80Gbit]");
  add("--rail-rate", texts.rail_rate, "of a rail here, as the cluster was made [200Mbit]");
  add("--compute-factors",
      texts.factors,
      "also with computation so many times as long: 0.25,1,4 [1]");
}

void declare_measurement(CLI::App& app, Texts& texts, BenchOptions& options) {
  app.add_option("--systems",
                 texts.systems,
                 "strategies by letters (IIG; IIG/ring: flat rings over the world), ddp, zero1, "
                 "zero2, zero3, mics, hsdp, hpz, ours, baselines, all [all]");
  app.add_option("--rounds", options.rounds, "each measures every system once, in turn [5]")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--steps", options.steps, "timed steps of a round, after one that is not [2]")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--dtype", texts.dtype, "of parameters and gradients [bfloat16]")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--prefetch", options.prefetch, "units gathered ahead [1]")
      ->check(CLI::Range(0U, 3U));
  app.add_option("--bucket-bytes",
                 texts.bucket,
                 "gradients of neighbouring units with at most so many bytes together are reduced "
                 "together [0: none]");
  app.add_option("--json", options.json, "write everything measured to this file (rank 0)");
  app.add_option("--trace",
                 options.trace,
                 "write the last step of every system to this file, for Perfetto or "
                 "chrome://tracing (rank 0)");
}

ho::Result<double> parse_fraction(std::string_view what, std::string_view text) {
  const size_t slash = text.find('/');
  HORING_ASSIGN(const double above, ho::parse_number_up_to(what, text.substr(0, slash), 1));
  double value = above;
  if (slash != std::string_view::npos) {
    HORING_ASSIGN(const double below, ho::parse_number_up_to(what, text.substr(slash + 1), 1e15));
    value = above / below;
  }
  if (!(value > 0 && value <= 1)) {
    return ho::invalid(std::string(what) + " '" + std::string(text) +
                       "': takes more than 0 and at most 1, as 1/2000 or 0.001");
  }
  return value;
}

ho::Result<std::vector<double>> parse_factors(std::string_view text) {
  constexpr double kMaxFactor = 1e6;
  std::vector<double> factors;
  while (true) {
    const size_t comma = text.find(',');
    HORING_ASSIGN(const double factor,
                  ho::parse_number_up_to("--compute-factors", text.substr(0, comma), kMaxFactor));
    if (std::find(factors.begin(), factors.end(), factor) == factors.end()) {
      factors.push_back(factor);
    }
    if (comma == std::string_view::npos) {
      return factors;
    }
    text.remove_prefix(comma + 1);
  }
}

ho::DType dtype_of(const std::string& text) {
  if (text == "float32") {
    return ho::DType::kFloat32;
  }
  return text == "float16" ? ho::DType::kFloat16 : ho::DType::kBfloat16;
}

ho::Status positive(std::string_view what, double value) {
  if (value > 0) {
    return {};
  }
  return ho::invalid(std::string(what) + " of 0: takes more than that");
}

ho::Status understand(const Texts& texts, BenchOptions& options) {
  constexpr double kMaxFlops = 1e21;
  constexpr double kMaxBytes = 1e18;
  WorkloadSpec& load = options.workload;
  HORING_ASSIGN(load.model, parse_model(texts.model));
  if (load.model.sharing_units > 0) {
    return ho::invalid(
        "--model " + texts.model +
        ": shared= is for paro plan; no unit of the measured model shares another's");
  }
  HORING_ASSIGN(load.scale, parse_fraction("--scale", texts.scale));
  HORING_ASSIGN(load.flops, ho::parse_number_up_to("--flops", texts.flops, kMaxFlops));
  HORING_ASSIGN(load.utilisation, ho::parse_number_up_to("--utilisation", texts.utilisation, 1));
  HORING_TRY(positive("--flops", load.flops));
  HORING_TRY(positive("--utilisation", load.utilisation));
  HORING_ASSIGN(load.real_bytes_per_s, ho::parse_rate("--real-rate", texts.real_rate));
  HORING_ASSIGN(load.emulated_bytes_per_s, ho::parse_rate("--rail-rate", texts.rail_rate));
  HORING_ASSIGN(options.compute_factors, parse_factors(texts.factors));
  HORING_ASSIGN(options.systems, parse_systems(texts.systems));
  HORING_ASSIGN(const double bucket, ho::parse_size("--bucket-bytes", texts.bucket));
  if (!(bucket <= kMaxBytes)) {
    return ho::invalid("--bucket-bytes: takes 0 (none) to 1e18 bytes");
  }
  options.bucket_bytes = static_cast<uint64_t>(bucket);
  if (!options.json.empty() && options.json == options.trace) {
    return ho::invalid("--json and --trace name one file: give each its own");
  }
  options.dtype = dtype_of(texts.dtype);
  for (const double factor : options.compute_factors) {
    const auto load_then = workload_of(load, factor);
    HORING_TRY(load_then.status());
  }
  return {};
}

}  // namespace

ho::Parsed<BenchOptions> parse_bench_options(int argc, const char* const* argv) {
  CLI::App app(
      "Measures training steps of libparo's strategies and of what users run today, in one job and "
      "in turn.\nStart it with `horing run`, on a cluster of `horing cluster` or a real one. "
      "Computation is waited\nfor: as long as the model's arithmetic takes on the device that is "
      "modelled, scaled as the links are.",
      "paro-bench");
  ho::Parsed<BenchOptions> parsed;
  Texts texts;
  declare_work(app, texts, parsed.options);
  declare_measurement(app, texts, parsed.options);
  parsed.exit_status =
      ho::exit_unless_parsed(app, argc, argv, [&] { return understand(texts, parsed.options); });
  return parsed;
}

}  // namespace paro::bench
