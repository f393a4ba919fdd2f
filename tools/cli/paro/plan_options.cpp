#include "cli/paro/plan_options.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "cli/paro/plan_names.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "cli/subcommands/option_error.hpp"

namespace paro::tool {
namespace {

// Of a rank: beyond any currency and any machine.
constexpr double kMaxMoney = 1e6;
constexpr double kMaxWatts = 1e6;

// Sets `value` where the option was given.
template <typename Value, typename Parse, typename... More>
ho::Status take(
    const PlanTexts::Text& text, std::string_view what, Value& value, Parse parse, More... more) {
  if (text) {
    HORING_ASSIGN(value, parse(what, *text, more...));
  }
  return {};
}

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

// An option that is given once; of several the last one counts.
struct Option {
  const char* name;
  const char* kind;
  PlanTexts::Text& text;
  const char* help;
};

void declare(CLI::App& app, const char* group, const std::vector<Option>& options) {
  for (const Option& option : options) {
    app.add_option(option.name, option.text, wrapped(option.help))
        ->group(group)
        ->type_name(option.kind)
        ->take_last();
  }
}

void declare_model(CLI::App& app, PlanTexts& texts) {
  declare(
      app,
      "Model and step",
      {{"--model",
        "MODEL",
        texts.model,
        "a name (llama-3-8b, mixtral-8x7b, gpt2), a Hugging Face config.json or its folder, or "
        "params=7e9,trainable=4e8,layers=32,sequence=2048 (trainable: "
        "all of them unless given; the rest is frozen, and split as the strategy's "
        "parameters); llama-3-8b,trainable=4e8 changes a known one; shared=131e6: so many of them "
        "are "
        "a unit beside the layers that another one computes with too, as a head with the "
        "embedding's (sharing=2: that two do)"},
       {"--micro-batch", "N", texts.micro_batch, "samples of a rank in one micro-batch [1]"},
       {"--accumulation", "N", texts.accumulation, "micro-batches of a step [1]"},
       {"--compute-time",
        "TIME",
        texts.compute_time,
        "how long a step computes, all its micro-batches together: 5s, 300ms; a third of it "
        "counts as forward [0: communication alone is compared]"},
       {"--update-time",
        "TIME",
        texts.update_time,
        "how long one rank's optimizer takes for all parameters: 80ms; where its state is split, a "
        "part of that [0]"},
       {"--activations",
        "SIZE",
        texts.activations,
        "memory of a rank for activations of a micro-batch, or of one sequence where each strategy "
        "has its own micro-batch: 12GB [by formula where the model has shapes, else 0]"},
       {"--sequence", "N", texts.sequence, "tokens of a sample [the model's]"},
       {"--bytes",
        "P,G,O",
        texts.bytes,
        "bytes per parameter of parameters, gradients and optimizer state [2,2,12: mixed "
        "precision with Adam]; a fourth number: of what a rank holds where gradients are added, "
        "over micro-batches or for a shared unit [4, or the gradients' where that is more]"},
       {"--prefetch", "N", texts.prefetch, "layers whose parameters are gathered ahead [1]"}});
  app.add_flag("--no-overlap",
               texts.no_overlap,
               wrapped("nothing hides behind computation, as where collectives take the processors "
                       "that compute: a step is the sum of its parts"))
      ->group("Model and step");
  declare(app,
          "Model and step",
          {{"--effects",
            "gpu|S,J,TIME",
            texts.effects,
            "what comes on top of the critical path: the share of hidden communication that comes "
            "back, the jitter of a rank's step as a share, and the launch of a collective "
            "(0.6,0.02,7us); gpu: of GPUs with NCCL, as --fit found them [0,0,0s]"}});
}

void declare_cluster(CLI::App& app, PlanTexts& texts) {
  declare(
      app,
      "Cluster",
      {{"--cluster",
        "FILE",
        texts.cluster,
        "JSON: {\"nodes\": 4, \"ranks_per_node\": 8, \"memory\": \"80GB\", \"intra\": "
        "\"2000Gbit\", \"inter\": \"80Gbit\", \"nics\": 1}; the options below override it"},
       {"--nodes", "N", texts.nodes, "nodes, or other groups of ranks with fast links inside"},
       {"--ranks-per-node", "N", texts.ranks_per_node, "ranks of each node"},
       {"--memory", "SIZE", texts.memory, "memory of a rank: 80GB [not known: everything fits]"},
       {"--intra", "RATE", texts.intra, "of a rank's links inside its node: 2000Gbit, 250GB"},
       {"--inter", "RATE", texts.inter, "of one NIC between nodes: 80Gbit"},
       {"--nics", "N", texts.nics, "NICs of a node, which its ranks share [1]"},
       {"--intra-call",
        "TIME",
        texts.intra_call,
        "what a collective inside a node takes beside its bytes: 20us [0]"},
       {"--inter-call", "TIME", texts.inter_call, "the same between nodes: 100us [0]"},
       {"--world-call",
        "TIME",
        texts.world_call,
        "the same over all ranks: 120us [the larger of the other two]"},
       {"--world-algorithm",
        "NAME",
        texts.world_algorithm,
        "how collectives over all ranks run: ring (flat, on one NIC), multi_ring (flat, one for "
        "each NIC) or ho_ring (on all NICs) [ho_ring]"}});
  app.add_flag("--measure",
               texts.measure,
               wrapped("take nodes, ranks and rates from a running job, as horing doctor does: "
                       "start this on every rank (horing run -n 4x4 -- paro plan --measure ..); "
                       "rank 0 prints"))
      ->group("Cluster");
}

void declare_names(CLI::App& app, PlanTexts& texts) {
  declare(
      app,
      "By name, for a model with a name or a config.json",
      {{"--gpu", "NAME", texts.gpu, "h100, a100-40: memory, links, peak rates"},
       {"--instance",
        "NAME",
        texts.instance,
        "p5.48xlarge, a3-megagpu-8g, dgx-h100: GPUs, NICs and all that --gpu has"},
       {"--network", "NxRATE", texts.network, "NICs of a node: 8x400Gbit"},
       {"--global-batch",
        "N",
        texts.global_batch,
        "sequences of a step on all ranks; chooses micro-batch and accumulation"},
       {"--mfu", "SHARE", texts.mfu, "of the peak that computing takes [by GPU and precision]"},
       {"--recompute", "WHAT", texts.recompute, "of activations: none, selective, full [none]"},
       {"--optimizer", "NAME", texts.optimizer, "adamw, adamw-8bit, sgd, sgd-momentum [adamw]"},
       {"--precision", "NAME", texts.precision, "fp32, tf32, fp16, bf16, fp8 [bf16]"},
       {"--tp", "N", texts.tensor, "ranks of tensor parallelism, with sequence parallelism [1]"},
       {"--pp", "N", texts.pipeline, "stages of a pipeline [1]"},
       {"--interleave", "N", texts.interleave, "parts of a stage's layers [1]"},
       {"--cp", "N", texts.context, "ranks that share a sequence [1]"},
       {"--ep", "N", texts.expert, "data-parallel ranks that share routed experts [1]"}});
  app.add_flag("--names", texts.names, wrapped("print all names that are known, and end"))
      ->group("By name, for a model with a name or a config.json");
}

void declare_cost(CLI::App& app, PlanTexts& texts) {
  declare(app,
          "Cost per million tokens",
          {{"--price", "MONEY", texts.price, "of a rank for an hour, in any currency"},
           {"--watts", "WATTS", texts.watts, "that a rank draws"},
           {"--energy-price", "MONEY", texts.energy_price, "of a kWh"}});
}

ho::Status take_bytes(const PlanTexts::Text& text, BytesPerParameter& bytes) {
  if (!text) {
    return {};
  }
  constexpr size_t kStates = 3;
  std::array<double, kStates + 1> values{};  // the last one may be left out
  size_t count = 0;
  for (size_t begin = 0; begin != std::string::npos; ++count) {
    const size_t comma = text->find(',', begin);
    if (count > kStates || (comma == std::string::npos && count + 1 < kStates)) {
      return ho::invalid(fmt::format("--bytes {}: takes three or four numbers, as 2,2,12", *text));
    }
    HORING_ASSIGN(
        values.at(count),
        ho::parse_number("--bytes", std::string_view(*text).substr(begin, comma - begin)));
    begin = comma == std::string::npos ? comma : comma + 1;
  }
  if (values[0] + values[1] + values[2] <= 0) {
    return ho::invalid(
        fmt::format("--bytes {}: takes at least one number above 0, as 2,2,12", *text));
  }
  bytes = {values[0], values[1], values[2], values[kStates]};
  return {};
}

// As libparo's runner: sums of several gradients are in fp32, where none are given as narrow.
double bytes_of_sum(const PlannerRequest& request) {
  constexpr double kFp32 = 4;
  const bool sums = request.micro_batches > 1 || request.sequences > 1 || request.sharing_units > 0;
  const BytesPerParameter& bytes = request.bytes;
  const double usual = bytes.gradient > 0 ? std::max(bytes.gradient, kFp32) : 0;
  return !sums ? 0 : bytes.gradient_sum > 0 ? bytes.gradient_sum : usual;
}

ho::Status take_effects(const PlanTexts::Text& text, Effects& effects) {
  if (!text) {
    return {};
  }
  if (*text == "gpu") {
    effects = kGpuEffects;
    return {};
  }
  const size_t first = text->find(',');
  const size_t second = first == std::string::npos ? first : text->find(',', first + 1);
  if (second == std::string::npos) {
    return ho::invalid(
        fmt::format("--effects {}: takes gpu, or two shares and a time, as 0.6,0.02,7us", *text));
  }
  const std::string_view all = *text;
  HORING_ASSIGN(effects.slowdown, ho::parse_number("--effects", all.substr(0, first)));
  HORING_ASSIGN(effects.jitter,
                ho::parse_number("--effects", all.substr(first + 1, second - first - 1)));
  HORING_ASSIGN(effects.launch_s, ho::parse_time("--effects", all.substr(second + 1)));
  return {};
}

ho::Status take_algorithm(const PlanTexts::Text& text, WorldAlgorithm& algorithm) {
  if (!text) {
    return {};
  }
  const auto* const named =
      std::find(kWorldAlgorithmNames.begin(), kWorldAlgorithmNames.end(), *text);
  if (named == kWorldAlgorithmNames.end()) {
    return ho::invalid(fmt::format(
        "--world-algorithm {}: takes {}", *text, fmt::join(kWorldAlgorithmNames, ", ")));
  }
  algorithm = static_cast<WorldAlgorithm>(named - kWorldAlgorithmNames.begin());
  return {};
}

ho::Status take_model_and_step(const PlanTexts& texts, PlanOptions& options) {
  if (!texts.model) {
    return ho::invalid(
        "--model is missing: a name as llama-3-8b, a config.json or params=7e9,layers=32");
  }
  HORING_ASSIGN(options.model, parse_model(*texts.model));
  HORING_TRY(take(texts.sequence, "--sequence", options.model.sequence, ho::parse_whole, 1U));
  HORING_TRY(take(texts.micro_batch, "--micro-batch", options.micro_batch, ho::parse_whole, 1U));
  PlannerRequest& request = options.request;
  request.model = options.model.size;
  request.layers = options.model.layers;
  request.sharing_units = options.model.sharing_units;
  HORING_TRY(take_bytes(texts.bytes, request.bytes));
  HORING_TRY(
      take(texts.accumulation, "--accumulation", request.micro_batches, ho::parse_whole, 1U));
  HORING_TRY(take(texts.compute_time, "--compute-time", request.compute_s, ho::parse_time));
  HORING_TRY(take(texts.update_time, "--update-time", request.update_s, ho::parse_time));
  HORING_TRY(take(texts.activations, "--activations", request.activation_bytes, ho::parse_size));
  request.overlap = !texts.no_overlap;
  HORING_TRY(take_effects(texts.effects, request.effects));
  return take(texts.prefetch, "--prefetch", request.prefetch, ho::parse_whole, 0U);
}

ho::Status take_cluster(const PlanTexts& texts, PlanOptions& options) {
  ClusterFacts& facts = options.facts;
  HORING_TRY(take(texts.nodes, "--nodes", facts.nodes, ho::parse_whole, 1U));
  HORING_TRY(
      take(texts.ranks_per_node, "--ranks-per-node", facts.ranks_per_node, ho::parse_whole, 1U));
  HORING_TRY(take(texts.memory, "--memory", facts.memory_bytes, ho::parse_size));
  HORING_TRY(take(texts.intra, "--intra", facts.intra_bytes_per_s, ho::parse_rate));
  HORING_TRY(take(texts.inter, "--inter", facts.inter_bytes_per_s, ho::parse_rate));
  HORING_TRY(take(texts.nics, "--nics", facts.nics, ho::parse_number));
  Links& links = options.request.links;
  HORING_TRY(take(texts.intra_call, "--intra-call", links.intra_call_s, ho::parse_time));
  HORING_TRY(take(texts.inter_call, "--inter-call", links.inter_call_s, ho::parse_time));
  links.world_call_s = std::max(links.intra_call_s, links.inter_call_s);  // it does both
  HORING_TRY(take(texts.world_call, "--world-call", links.world_call_s, ho::parse_time));
  HORING_TRY(take_algorithm(texts.world_algorithm, links.world));
  options.measure = texts.measure;
  if (texts.measure) {
    if (texts.cluster || texts.nodes || texts.ranks_per_node || texts.intra || texts.inter ||
        texts.nics || texts.instance || texts.network) {
      return ho::invalid(
          "--measure finds nodes, ranks and links itself: of the cluster's options it takes "
          "--memory, --gpu, --world-algorithm and the three of calls only");
    }
    if (texts.gpu && !facts.memory_bytes) {
      HORING_ASSIGN(const Gpu gpu, find_gpu(*texts.gpu));
      facts.memory_bytes = gpu.memory_gb * 1e9;
    }
    return {};
  }
  if (texts.cluster) {
    HORING_ASSIGN(const ClusterFacts file, read_cluster_file(*texts.cluster));
    facts = merged(facts, file);
  } else if (!texts.nodes && !texts.ranks_per_node && !texts.instance) {
    return ho::invalid(
        "the cluster is missing: give --cluster FILE, or --nodes and --ranks-per-node, or in a "
        "running job --measure");
  }
  HORING_ASSIGN(facts, with_machine(texts, facts, options.request.assumed));
  HORING_TRY(apply(facts, options.request));
  return complete(options);
}

ho::Status take_prices(const PlanTexts& texts, PlanOptions& options) {
  if (!texts.price && !texts.watts && !texts.energy_price) {
    return {};
  }
  Prices prices;
  HORING_TRY(take(texts.price, "--price", prices.per_rank_hour, ho::parse_number_up_to, kMaxMoney));
  HORING_TRY(
      take(texts.watts, "--watts", prices.watts_per_rank, ho::parse_number_up_to, kMaxWatts));
  HORING_TRY(take(
      texts.energy_price, "--energy-price", prices.per_kwh, ho::parse_number_up_to, kMaxMoney));
  if (texts.energy_price && !texts.watts) {
    return ho::invalid("--energy-price takes --watts, which a rank draws, beside it");
  }
  if (options.model.sequence == 0) {
    return ho::invalid("--sequence is missing: a cost per token takes the tokens of a sample");
  }
  options.prices = prices;
  return {};
}

int refuse(const std::string& message) {
  if (ho::first_rank()) {
    std::fprintf(stderr, "paro plan: %s\n", message.c_str());
  }
  return ho::fail_after_first_rank(ho::kUsageError);
}

}  // namespace

ho::Status complete(PlanOptions& options) {
  PlannerRequest& request = options.request;
  if (options.job) {
    HORING_TRY(check(request));
    HORING_ASSIGN(options.steps, apply(*options.job, request));
    options.micro_batch = options.steps.batch.micro_batch;
    options.model.sequence = static_cast<uint32_t>(options.steps.sequence);
  }
  request.bytes.gradient_sum = bytes_of_sum(request);
  return set_nccl(options, request);
}

ho::Result<PlanOptions> understand(const PlanTexts& texts) {
  PlanOptions options;
  options.json = texts.json;
  options.validate = texts.validate;
  options.fit = texts.fit;
  if (options.validate || options.fit) {
    return options;
  }
  HORING_TRY(take_model_and_step(texts, options));
  HORING_TRY(take_job(texts, options));
  HORING_TRY(take_gpu_effects(texts, options));
  HORING_TRY(take_cluster(texts, options));
  HORING_TRY(take_prices(texts, options));
  return options;
}

ho::Parsed<PlanOptions> parse_plan_options(int argc, const char* const* argv) {
  CLI::App app(
      "Works out memory and time of the 14 ways to shard a model's states over a cluster, and\n"
      "recommends one.\n\n"
      "  paro plan --model llama-65b --nodes 4 --ranks-per-node 8 --memory 80GB --intra 2000Gbit\n"
      "            --inter 80Gbit --nics 8 --accumulation 10 --compute-time 54s\n",
      "paro plan");
  app.get_formatter()->column_width(26);
  PlanTexts texts;
  declare_model(app, texts);
  declare_cluster(app, texts);
  declare_names(app, texts);
  declare_cost(app, texts);
  app.add_flag("--validate",
               texts.validate,
               wrapped("hold the planner against published tables, row by row; takes --json"))
      ->group("Proof");
  app.add_flag("--fit",
               texts.fit,
               wrapped("fit what --effects gpu stands for on those of them that are there for it; "
                       "takes --json"))
      ->group("Proof");
  app.add_flag("--json", texts.json, "print JSON; memory in bytes, times in seconds");
  app.footer(
      "\nUnits: k M G T P are powers of 1000, Ki Mi Gi Ti Pi of 1024; 80Gbit and 10GB are the same "
      "rate.\nExit status: 0, also where nothing fits; 2 for wrong arguments; 1 for a job "
      "that\ncannot be measured.");
  ho::Parsed<PlanOptions> parsed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    parsed.exit_status = ho::exit_after(app, help);
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit_status = refuse(error.what());
    return parsed;
  }
  if (texts.names) {
    std::fputs(names_text().c_str(), stdout);
    parsed.exit_status = 0;
    return parsed;
  }
  auto understood = understand(texts);
  if (!understood.ok()) {
    parsed.exit_status = refuse(understood.status().message());
    return parsed;
  }
  parsed.options = std::move(understood).value();
  return parsed;
}

}  // namespace paro::tool
