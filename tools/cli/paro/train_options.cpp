#include "cli/paro/train_options.hpp"

#include <CLI/CLI.hpp>

#include "base/quantity.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::tool {
namespace {

constexpr double kMaxForwardMs = 10000;
constexpr double kMaxBytes = 1e18;

// Arguments as they were typed, where CLI11 does not understand them itself.
struct TrainTexts {
  std::string strategy = "all";
  std::string dtype = "float32";
  std::string forward_ms = "0";
  std::string budget;
  std::string bucket;
  std::string memory = "host";
  std::string collectives;
};

void declare(CLI::App& app, TrainTexts& texts, TrainOptions& options) {
  app.add_option("--strategy", texts.strategy, "letters, a known name, or all [all]");
  app.add_option("--steps", options.steps, "[12]")->check(CLI::Range(3, 1000000));
  app.add_option("--accumulation", options.accumulation, "micro-batches per step [1]")
      ->check(CLI::Range(1, 1024));
  app.add_option("--prefetch", options.prefetch, "units gathered ahead [1]")
      ->check(CLI::Range(0, 3));
  app.add_option("--dtype", texts.dtype, "of parameters and gradients [float32]")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_flag(
      "--fp32-gradients", options.fp32_gradients, "send gradients in float32, whatever --dtype is");
  app.add_option("--place",
                 texts.memory,
                 "where states live: host, or device, each rank's GPU (the model computes on the "
                 "host, with copies) [host]")
      ->check(CLI::IsMember({"host", "device"}));
  app.add_option("--collectives",
                 texts.collectives,
                 "what moves states: horing on a host, nccl on devices [as --place takes it]")
      ->check(CLI::IsMember({"horing", "nccl"}));
  app.add_option("--units", options.units, "units of the model, all but three of them blocks [5]")
      ->check(CLI::Range(kUnitsBesideBlocks + 1, 1000U));
  app.add_option("--unit-elements",
                 options.unit_elements,
                 "fill every unit up to so many parameters [0: none]")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 28U));
  app.add_option(
      "--forward-ms",
      texts.forward_ms,
      "least time of a unit's forward pass, backward twice that, as on a device; at most "
      "10000 [0]");
  app.add_option("--bucket-bytes",
                 texts.bucket,
                 "reduce gradients of neighbouring units together that have at most so many bytes: "
                 "256KiB; 0: every unit's alone [1MiB]");
  app.add_option("--budget",
                 texts.budget,
                 "bytes that a rank may hold of states: 64MB, 1GiB; a strategy that needs more is "
                 "refused, with those that would fit [no limit]");
  app.add_option("--save",
                 options.save,
                 "folder for checkpoints, on a file system that all ranks share; takes one "
                 "--strategy");
  app.add_option("--save-every", options.save_every, "steps between checkpoints [the last only]")
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--resume",
               options.resume,
               "go on from the newest checkpoint in --save, with these ranks and this strategy, "
               "to step --steps");
  app.add_option("--json", options.json, "write everything measured to this file (rank 0)");
}

ho::Status check_saving(const TrainOptions& options) {
  const auto refused = [](const char* what) { return ho::invalid(what); };
  if (options.save.empty()) {
    return options.resume || options.save_every > 0
               ? refused("--resume and --save-every need --save FOLDER")
               : ho::Status();
  }
  return options.strategies.size() == 1 ? ho::Status()
                                        : refused("--save takes one --strategy, not all of them");
}

// CLI11's own range check lets a NaN pass.
ho::Status understand(const TrainTexts& texts, TrainOptions& options) {
  if (texts.strategy == "all") {
    options.strategies = {all_strategies().begin(), all_strategies().end()};
  } else {
    const auto one = parse_strategy(texts.strategy);
    if (!one.ok()) {
      return {one.status().code(), "--strategy: " + one.status().message()};
    }
    options.strategies = {*one};
  }
  if (texts.dtype != "float32") {
    options.dtype = texts.dtype == "float16" ? ho::DType::kFloat16 : ho::DType::kBfloat16;
  }
  options.on_device = texts.memory == "device";
  if (texts.collectives == (options.on_device ? "horing" : "nccl")) {
    return ho::invalid(options.on_device
                           ? "--collectives horing moves states on a host: it needs --place host"
                           : "--collectives nccl moves states on GPUs: it needs --place device");
  }
  HORING_ASSIGN(options.forward_ms,
                ho::parse_number_up_to("--forward-ms", texts.forward_ms, kMaxForwardMs));
  if (!texts.budget.empty()) {
    HORING_ASSIGN(const double bytes, ho::parse_size("--budget", texts.budget));
    if (!(bytes >= 1 && bytes <= kMaxBytes)) {
      return ho::invalid("--budget '" + texts.budget +
                         "': takes 1 byte to 1e18; leave it out for no limit");
    }
    options.budget_bytes = static_cast<uint64_t>(bytes);
  }
  if (!texts.bucket.empty()) {
    HORING_ASSIGN(const double bytes, ho::parse_size("--bucket-bytes", texts.bucket));
    if (!(bytes <= kMaxBytes)) {
      return ho::invalid("--bucket-bytes '" + texts.bucket + "': takes 0 (none) to 1e18 bytes");
    }
    options.bucket_bytes = static_cast<uint64_t>(bytes);
  }
  return check_saving(options);
}

}  // namespace

ho::Parsed<TrainOptions> parse_train_options(int argc, const char* const* argv) {
  CLI::App app(
      "Trains a small language model in this job (start it with `horing run`), with one strategy "
      "or with all 14 in turn, and prints what each step took, sent and held, beside the step "
      "plan's figures.\n\nExit status: 1 also where the training went wrong: a gradient was not "
      "finite although no\nloss scale had to settle, or the loss is not one rank's (up to 100 "
      "steps).",
      "paro train");
  ho::Parsed<TrainOptions> parsed;
  TrainTexts texts;
  declare(app, texts, parsed.options);
  parsed.exit_status =
      ho::exit_unless_parsed(app, argc, argv, [&] { return understand(texts, parsed.options); });
  return parsed;
}

}  // namespace paro::tool
