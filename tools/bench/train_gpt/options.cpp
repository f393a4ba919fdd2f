#include "bench/train_gpt/options.hpp"

#include <paro.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/quantity.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::gpt {
namespace {

constexpr uint32_t kMax = 1000000;
constexpr double kMaxBytes = 1e18;

// Arguments as they were typed, where CLI11 does not understand them itself.
struct Texts {
  std::string dtype = "float32";
  std::string memory;
  std::string learning_rate = "0.001";
  std::string clip = "1";
};

void declare_model(CLI::App& app, Texts& texts, Options& options) {
  Shape& shape = options.shape;
  app.add_option("--layers", shape.layers, "blocks of attention and MLP [4]")
      ->check(CLI::Range(1, 1000));
  app.add_option("--width", shape.width, "[64]")->check(CLI::Range(1, 65536));
  app.add_option("--heads", shape.heads, "of attention; divides the width [4]")
      ->check(CLI::Range(1, 65536));
  app.add_option("--context", shape.context, "bytes before a byte that the model uses [64]")
      ->check(CLI::Range(1, 65536));
  app.add_option("--dtype", texts.dtype, "float32 or bfloat16, of parameters and gradients")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option(
         "--freeze", shape.freeze, "parts that stay as they are: embedding, block0, .., head")
      ->delimiter(',');
  app.add_option("--lora-rank",
                 shape.lora_rank,
                 "freeze all but two matrices of this rank beside each one in attention [0: none]")
      ->check(CLI::Range(0, 65536));
  app.add_option("--from",
                 options.from,
                 "initial values: a file of `paro checkpoint export`, as base for --lora-rank");
  app.add_option("--seed", shape.seed, "of initial values and of the order of reading [1]")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 62U));
}

void declare_training(CLI::App& app, Texts& texts, Options& options) {
  app.add_option("--text", options.texts, "files to train on [all in /usr/share/common-licenses]");
  app.add_option(
      "--strategy",
      options.strategy,
      "letters, a known name, or auto: planned from the links, which are measured [auto]");
  app.add_option("--memory", texts.memory, "that a rank may hold of states: 64MB, 1GiB [no limit]");
  app.add_option("--group-size", options.group_size, "ranks of a group [0: those of a node]")
      ->check(CLI::Range(0U, kMax));
  app.add_option("--algorithm",
                 options.algorithm,
                 "of collectives: ho_ring, ring, multi_ring (a ring for every NIC) [ho_ring]")
      ->check(CLI::IsMember({"ho_ring", "ring", "multi_ring"}));
  app.add_option("--batch", options.batch, "samples of text in a rank's micro-batch [4]")
      ->check(CLI::Range(1U, kMax));
  app.add_option("--accumulation", options.accumulation, "micro-batches per step [1]")
      ->check(CLI::Range(1U, kMax));
  app.add_option("--steps", options.steps, "to train up to, with those before a resume [200]")
      ->check(CLI::Range(0U, kMax * 1000));
  app.add_option("--learning-rate", texts.learning_rate, "of AdamW [0.001]");
  app.add_option(
      "--clip", texts.clip, "gradients with a larger norm are clipped to it; 0: no clipping [1]");
  app.add_option("--threads", options.threads, "that a rank computes with [1]")
      ->check(CLI::Range(1, 1024));
}

void declare_output(CLI::App& app, Options& options) {
  app.add_option("--save", options.save, "folder for checkpoints, on a file system of all ranks");
  app.add_option("--save-every", options.save_every, "steps; also saved at the end [0: only then]")
      ->check(CLI::Range(0U, kMax));
  app.add_flag(
      "--resume",
      options.resume,
      "go on from the newest checkpoint in the --save folder, with any number of ranks and "
      "any strategy");
  app.add_option("--json", options.json, "a line of JSON per step (rank 0)");
  app.add_option(
         "--sample", options.sample, "bytes for the model to write at the end, to stdout [0]")
      ->check(CLI::Range(0U, kMax));
}

std::string known_parts(const Shape& shape) {
  return "embedding, block0 to block" + std::to_string(shape.layers - 1) + ", head";
}

// "" or what does not go together.
std::string contradiction(const Options& options) {
  const Shape& shape = options.shape;
  if (shape.width % shape.heads != 0) {
    return "--heads " + std::to_string(shape.heads) + " does not divide --width " +
           std::to_string(shape.width);
  }
  const std::vector<std::string> parts = part_names(shape);
  for (const std::string& part : shape.freeze) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end()) {
      return "--freeze " + part + ": the parts are " + known_parts(shape);
    }
  }
  if (shape.lora_rank == 0 && std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
        return std::find(shape.freeze.begin(), shape.freeze.end(), part) != shape.freeze.end();
      })) {
    return "--freeze: all parts are frozen, nothing is left to train";
  }
  if (shape.lora_rank != 0 && !shape.freeze.empty()) {
    return "--lora-rank freezes everything else already: leave --freeze out";
  }
  if (options.strategy == "auto" && options.group_size != 0) {
    return "--strategy auto plans for nodes as groups: name a strategy beside --group-size";
  }
  if (options.resume && !options.from.empty()) {
    return "--from begins with values of a file, --resume goes on from a checkpoint: give one of "
           "them";
  }
  if (options.save.empty() && (options.resume || options.save_every != 0)) {
    return std::string(options.resume ? "--resume" : "--save-every") +
           " needs --save FOLDER: where the checkpoints are";
  }
  if (options.strategy != "auto" && paro_strategy_check(options.strategy.c_str()) != HO_OK) {
    return std::string("--strategy: ") + paro_last_error_message();
  }
  return {};
}

ho::Status understand(const Texts& texts, Options& options) {
  options.bfloat16 = texts.dtype == "bfloat16";
  std::vector<std::string>& frozen = options.shape.freeze;
  std::sort(frozen.begin(), frozen.end());
  frozen.erase(std::unique(frozen.begin(), frozen.end()), frozen.end());
  HORING_ASSIGN(options.learning_rate,
                ho::parse_number_up_to("--learning-rate", texts.learning_rate, 1e3));
  HORING_ASSIGN(options.clip, ho::parse_number_up_to("--clip", texts.clip, 1e9));
  if (!texts.memory.empty()) {
    HORING_ASSIGN(const double bytes, ho::parse_size("--memory", texts.memory));
    if (!(bytes >= 1 && bytes <= kMaxBytes)) {
      return ho::invalid("--memory '" + texts.memory +
                         "': takes 1 byte to 1e18; leave it out for no limit");
    }
    options.memory_bytes = static_cast<uint64_t>(bytes);
  }
  const std::string wrong = contradiction(options);
  return wrong.empty() ? ho::Status() : ho::invalid(wrong);
}

}  // namespace

ho::Parsed<Options> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Trains a small GPT on bytes of text. Every rank is a process: start it with `horing run`, "
      "torchrun, srun or\nmpirun, or alone. Its parameters, gradients and optimizer state are "
      "sharded by --strategy.",
      "train_gpt");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("train_gpt: ") + error.what() + "; see --help\n";
  });
  ho::Parsed<Options> parsed;
  Texts texts;
  declare_model(app, texts, parsed.options);
  declare_training(app, texts, parsed.options);
  declare_output(app, parsed.options);
  parsed.exit_status =
      ho::exit_unless_parsed(app, argc, argv, [&] { return understand(texts, parsed.options); });
  return parsed;
}

}  // namespace paro::gpt
