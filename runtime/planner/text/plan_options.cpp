#include "planner/text/plan_options.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "planner/text/group_text.hpp"
#include "planner/text/plan_names.hpp"
#include "planner/text/unit_list.hpp"

namespace paro {
namespace {

// Of a rank: beyond any currency and any machine.
constexpr double kMaxMoney = 1e6;
constexpr double kMaxWatts = 1e6;

constexpr const char* kModelAndStep = "Model and step";
constexpr const char* kCluster = "Cluster";
constexpr const char* kNames = "By name, for a model with a name or a config.json";
constexpr const char* kCost = "Cost per million tokens";
constexpr const char* kProgram = "From plan to run";
constexpr const char* kSweep = "Sweep";

constexpr std::array kOptions{
    PlanOption{
        kModelAndStep,
        "model",
        "MODEL",
        &PlanTexts::model,
        "a name (llama-3-8b, mixtral-8x7b, gpt2), a Hugging Face config.json or its folder, "
        "or params=7e9,trainable=4e8,layers=32,sequence=2048 (trainable: all of them unless "
        "given; the rest is frozen, and split as the strategy's parameters); "
        "llama-3-8b,trainable=4e8 changes a known one; adapters=4e7: beside them, and they alone "
        "trained, as LoRA's; shared=131e6: so many of them are a "
        "unit beside the layers that another one computes with too, as a head with the "
        "embedding's (sharing=2: that two do)"},
    PlanOption{
        kModelAndStep,
        "units",
        "JSON",
        &PlanTexts::units,
        "in place of a model, the units that are gathered and reduced together, in the order "
        "of the forward pass: [{\"parameters\": 1e8, \"count\": 32}]; each may have trained, "
        "element_bytes and the bytes that its messages carry (docs/reference/json.md)"},
    PlanOption{kModelAndStep,
               "micro-batch",
               "N",
               &PlanTexts::micro_batch,
               "samples of a rank in one micro-batch [1]"},
    PlanOption{kModelAndStep,
               "accumulation",
               "N",
               &PlanTexts::accumulation,
               "micro-batches of a step [1]"},
    PlanOption{kModelAndStep,
               "compute-time",
               "TIME",
               &PlanTexts::compute_time,
               "how long a step computes, all its micro-batches together: 5s, 300ms; a "
               "third of it counts as forward [0: communication alone is compared]"},
    PlanOption{kModelAndStep,
               "update-time",
               "TIME",
               &PlanTexts::update_time,
               "how long one rank's optimizer takes for all parameters: 80ms; where its "
               "state is split, a part of that [0]"},
    PlanOption{kModelAndStep,
               "activations",
               "SIZE",
               &PlanTexts::activations,
               "memory of a rank for activations of a micro-batch, or of one sequence where each "
               "strategy has its own micro-batch: 12GB [by formula where the model has shapes, "
               "else 0]"},
    PlanOption{
        kModelAndStep, "sequence", "N", &PlanTexts::sequence, "tokens of a sample [the model's]"},
    PlanOption{kModelAndStep,
               "bytes",
               "P,G,O",
               &PlanTexts::bytes,
               "bytes per parameter of parameters, gradients and optimizer state [2,2,12: "
               "mixed precision with Adam]; a fourth number: of what a rank holds where "
               "gradients are added, over micro-batches or for a shared unit [4, or the "
               "gradients' where that is more]"},
    PlanOption{kModelAndStep,
               "prefetch",
               "N",
               &PlanTexts::prefetch,
               "layers whose parameters are gathered ahead [1]"},
    PlanOption{kModelAndStep,
               "effects",
               "gpu|S,J,TIME",
               &PlanTexts::effects,
               "what comes on top of the critical path: the share of hidden communication that "
               "comes back, the jitter of a rank's step as a share, and the launch of a collective "
               "(0.6,0.02,7us); gpu: of GPUs with NCCL, as --fit found them [gpu where a GPU is "
               "known, else 0,0,0s]"},
    PlanOption{kCluster,
               "cluster",
               "FILE",
               &PlanTexts::cluster,
               "JSON: {\"nodes\": 4, \"ranks_per_node\": 8, \"memory\": \"80GB\", "
               "\"intra\": \"2000Gbit\", \"inter\": \"80Gbit\", \"nics\": 1}, which the options "
               "below override; or {\"levels\": [..]}, from a node's links to a spine's, as horing "
               "doctor --write measures them"},
    PlanOption{kCluster,
               "nodes",
               "N",
               &PlanTexts::nodes,
               "nodes, or other groups of ranks with fast links inside"},
    PlanOption{kCluster, "ranks-per-node", "N", &PlanTexts::ranks_per_node, "ranks of each node"},
    PlanOption{kCluster,
               "memory",
               "SIZE",
               &PlanTexts::memory,
               "memory of a rank: 80GB [not known: everything fits]"},
    PlanOption{kCluster,
               "intra",
               "RATE",
               &PlanTexts::intra,
               "of a rank's links inside its node: 2000Gbit, 250GB"},
    PlanOption{kCluster, "inter", "RATE", &PlanTexts::inter, "of one NIC between nodes: 80Gbit"},
    PlanOption{
        kCluster, "nics", "N", &PlanTexts::nics, "NICs of a node, which its ranks share [1]"},
    PlanOption{kCluster,
               "intra-call",
               "TIME",
               &PlanTexts::intra_call,
               "what a collective inside a node takes beside its bytes: 20us [0]"},
    PlanOption{kCluster,
               "inter-call",
               "TIME",
               &PlanTexts::inter_call,
               "the same between nodes: 100us [0]"},
    PlanOption{kCluster,
               "world-call",
               "TIME",
               &PlanTexts::world_call,
               "the same over all ranks: 120us [the larger of the other two]"},
    PlanOption{kCluster,
               "world-algorithm",
               "NAME",
               &PlanTexts::world_algorithm,
               "how collectives over all ranks run: ring (flat, on one NIC), multi_ring "
               "(flat, one for each NIC) or ho_ring (on all NICs) [as --collectives has them]"},
    PlanOption{kCluster,
               "collectives",
               "NAME",
               &PlanTexts::collectives,
               "whose collectives the job runs: nccl, as PyTorch does on GPUs, or horing [nccl "
               "where a GPU is known, else horing]"},
    PlanOption{kCluster,
               "group-sizes",
               "SIZES",
               &PlanTexts::group_sizes,
               "ranks of a group, scope I of the strategies, to compare and choose from: "
               "4,8,16, or all that tile the cluster [a node's ranks]"},
    PlanOption{kNames, "gpu", "NAME", &PlanTexts::gpu, "h100, a100-40: memory, links, peak rates"},
    PlanOption{kNames,
               "instance",
               "NAME",
               &PlanTexts::instance,
               "p5.48xlarge, a3-megagpu-8g, dgx-h100: GPUs, NICs and all that --gpu has"},
    PlanOption{kNames, "network", "NxRATE", &PlanTexts::network, "NICs of a node: 8x400Gbit"},
    PlanOption{kNames,
               "global-batch",
               "N",
               &PlanTexts::global_batch,
               "sequences of a step on all ranks; chooses micro-batch and accumulation"},
    PlanOption{kNames,
               "mfu",
               "SHARE",
               &PlanTexts::mfu,
               "of the peak that computing takes [by GPU and precision]"},
    PlanOption{kNames,
               "recompute",
               "WHAT",
               &PlanTexts::recompute,
               "of activations: none, selective, full [none]"},
    PlanOption{kNames,
               "optimizer",
               "NAME",
               &PlanTexts::optimizer,
               "adamw, adamw-8bit, sgd, sgd-momentum [adamw]"},
    PlanOption{
        kNames, "precision", "NAME", &PlanTexts::precision, "fp32, tf32, fp16, bf16, fp8 [bf16]"},
    PlanOption{kNames,
               "tp",
               "N",
               &PlanTexts::tensor,
               "ranks of tensor parallelism, with sequence parallelism [1]"},
    PlanOption{kNames, "pp", "N", &PlanTexts::pipeline, "stages of a pipeline [1]"},
    PlanOption{kNames, "interleave", "N", &PlanTexts::interleave, "parts of a stage's layers [1]"},
    PlanOption{kNames, "cp", "N", &PlanTexts::context, "ranks that share a sequence [1]"},
    PlanOption{
        kNames, "ep", "N", &PlanTexts::expert, "data-parallel ranks that share routed experts [1]"},
    PlanOption{
        kCost, "price", "MONEY", &PlanTexts::price, "of a rank for an hour, in any currency"},
    PlanOption{kCost, "watts", "WATTS", &PlanTexts::watts, "that a rank draws"},
    PlanOption{kCost, "energy-price", "MONEY", &PlanTexts::energy_price, "of a kWh"},
    PlanOption{kProgram,
               "export",
               "TARGET",
               &PlanTexts::export_to,
               "in place of the table print Python that trains by the plan: fsdp2, or paro.torch"},
    PlanOption{kProgram,
               "strategy",
               "NAME",
               &PlanTexts::strategy,
               "the strategy that it has, as III or zero3 [the recommended one]"},
    PlanOption{kSweep,
               "sweep",
               "OPTION=VALUES",
               &PlanTexts::sweep,
               "a row for each value of another option: inter=100,200,400,800 (Gbit/s), nodes=4,8, "
               "memory=40GB,80GB; of inter also the least that is nearly as fast"},
};

// Sets `value` where the option was given.
template <typename Value, typename Parse, typename... More>
ho::Status take(
    const PlanTexts::Text& text, std::string_view what, Value& value, Parse parse, More... more) {
  if (text) {
    HORING_ASSIGN(value, parse(what, *text, more...));
  }
  return {};
}

// A quantity within limits, which the request has too but without the option's name.
struct Limits {
  double least;
  double most;
  std::string_view unit;
};
constexpr Limits kBytesOfRank{0, kMaxBytes, " bytes"};
constexpr Limits kRate{1, kMaxBytes, " bytes per second"};
constexpr Limits kTime{0, kMaxSeconds, " seconds"};
constexpr Limits kCall{0, kMaxCallSeconds, " seconds"};
constexpr Limits kNics{0, kMaxRanks, ""};

template <typename Value, typename Parse>
ho::Status take_within(const PlanTexts::Text& text,
                       std::string_view what,
                       Value& value,
                       Parse parse,
                       const Limits& limits) {
  HORING_TRY(take(text, what, value, parse));
  if (!text) {
    return {};
  }
  const std::optional<double> number = value;
  return *number >= limits.least && *number <= limits.most
             ? ho::Status()
             : ho::invalid(fmt::format("{} '{}': takes {} to {}{}",
                                       what,
                                       *text,
                                       limits.least,
                                       limits.most,
                                       limits.unit));
}

ho::Status take_bytes(const PlanTexts& texts, BytesPerParameter& bytes) {
  const PlanTexts::Text& text = texts.bytes;
  const std::string name = texts.named("bytes");
  if (!text) {
    return {};
  }
  constexpr size_t kStates = 3;
  std::array<double, kStates + 1> values{};  // the last one may be left out
  size_t count = 0;
  for (size_t begin = 0; begin != std::string::npos; ++count) {
    const size_t comma = text->find(',', begin);
    if (count > kStates || (comma == std::string::npos && count + 1 < kStates)) {
      return ho::invalid(fmt::format("{} {}: takes three or four numbers, as 2,2,12", name, *text));
    }
    HORING_ASSIGN(values.at(count),
                  ho::parse_number_up_to(
                      name, std::string_view(*text).substr(begin, comma - begin), kMaxBytes));
    begin = comma == std::string::npos ? comma : comma + 1;
  }
  if (values[0] + values[1] + values[2] <= 0) {
    return ho::invalid(
        fmt::format("{} {}: takes at least one number above 0, as 2,2,12", name, *text));
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

ho::Status take_effects(const PlanTexts& texts, Effects& effects) {
  const PlanTexts::Text& text = texts.effects;
  const std::string name = texts.named("effects");
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
        fmt::format("{} {}: takes gpu, or two shares and a time, as 0.6,0.02,7us", name, *text));
  }
  const std::string_view all = *text;
  HORING_ASSIGN(effects.slowdown, ho::parse_number_up_to(name, all.substr(0, first), 1));
  HORING_ASSIGN(effects.jitter,
                ho::parse_number_up_to(name, all.substr(first + 1, second - first - 1), 1));
  return take_within(
      std::string(all.substr(second + 1)), name, effects.launch_s, ho::parse_time, kTime);
}

ho::Status take_algorithm(const PlanTexts& texts, WorldAlgorithm& algorithm) {
  const PlanTexts::Text& text = texts.world_algorithm;
  if (!text) {
    return {};
  }
  const auto* const named =
      std::find(kWorldAlgorithmNames.begin(), kWorldAlgorithmNames.end(), *text);
  if (named == kWorldAlgorithmNames.end()) {
    return ho::invalid(fmt::format("{} {}: takes {}",
                                   texts.named("world-algorithm"),
                                   *text,
                                   fmt::join(kWorldAlgorithmNames, ", ")));
  }
  algorithm = static_cast<WorldAlgorithm>(named - kWorldAlgorithmNames.begin());
  return {};
}

ho::Status take_model(const PlanTexts& texts, PlanOptions& options) {
  if (texts.units) {
    return take_units(texts, options);
  }
  if (!texts.model) {
    return ho::invalid(texts.named("model") +
                       " is missing: a name as llama-3-8b, a config.json or params=7e9,layers=32");
  }
  HORING_ASSIGN(options.model, parse_model(*texts.model, texts.named));
  return {};
}

ho::Status take_model_and_step(const PlanTexts& texts, PlanOptions& options) {
  HORING_TRY(take_model(texts, options));
  HORING_TRY(
      take(texts.sequence, texts.named("sequence"), options.model.sequence, ho::parse_whole, 1U));
  HORING_TRY(take(texts.micro_batch,
                  texts.named("micro-batch"),
                  options.micro_batch,
                  ho::parse_whole_up_to,
                  1U,
                  kMaxMicroBatches));
  PlannerRequest& request = options.request;
  request.model = options.model.size;
  request.layers = options.model.layers;
  request.sharing_units = options.model.sharing_units;
  HORING_TRY(take_bytes(texts, request.bytes));
  HORING_TRY(take(texts.accumulation,
                  texts.named("accumulation"),
                  request.micro_batches,
                  ho::parse_whole_up_to,
                  1U,
                  kMaxMicroBatches));
  HORING_TRY(take_within(
      texts.compute_time, texts.named("compute-time"), request.compute_s, ho::parse_time, kTime));
  HORING_TRY(take_within(
      texts.update_time, texts.named("update-time"), request.update_s, ho::parse_time, kTime));
  HORING_TRY(take_within(texts.activations,
                         texts.named("activations"),
                         request.activation_bytes,
                         ho::parse_size,
                         kBytesOfRank));
  request.overlap = !texts.no_overlap;
  HORING_TRY(take_effects(texts, request.effects));
  return take(texts.prefetch,
              texts.named("prefetch"),
              request.prefetch,
              ho::parse_whole_up_to,
              0U,
              unit_count(request));
}

// Of one node, what is said of links between nodes.
void note_unused_links(const PlanTexts& texts,
                       const ClusterFacts& facts,
                       std::vector<std::string>& assumed) {
  if (facts.nodes.value_or(2) > 1) {
    return;
  }
  const std::array options{std::pair{"network", &texts.network},
                           std::pair{"inter", &texts.inter},
                           std::pair{"nics", &texts.nics},
                           std::pair{"inter-call", &texts.inter_call}};
  for (const auto& [name, text] : options) {
    if (*text) {
      assumed.push_back(fmt::format(
          "nothing between nodes, of which there is one: {} does not count", texts.named(name)));
    }
  }
}

ho::Status take_facts(const PlanTexts& texts, PlanOptions& options) {
  ClusterFacts& facts = options.facts;
  const ho::OptionNames& named = texts.named;
  if (texts.effects || (texts.measure && texts.gpu)) {  // not of the processors that measure
    facts.slowdown = texts.effects ? options.request.effects.slowdown : kGpuEffects.slowdown;
  }
  HORING_TRY(take(texts.nodes, named("nodes"), facts.nodes, ho::parse_whole_up_to, 1U, kMaxRanks));
  HORING_TRY(take(texts.ranks_per_node,
                  named("ranks-per-node"),
                  facts.ranks_per_node,
                  ho::parse_whole_up_to,
                  1U,
                  kMaxRanks));
  HORING_TRY(
      take_within(texts.memory, named("memory"), facts.memory_bytes, ho::parse_size, kBytesOfRank));
  HORING_TRY(
      take_within(texts.intra, named("intra"), facts.intra_bytes_per_s, ho::parse_rate, kRate));
  HORING_TRY(
      take_within(texts.inter, named("inter"), facts.inter_bytes_per_s, ho::parse_rate, kRate));
  HORING_TRY(take_within(texts.nics, named("nics"), facts.nics, ho::parse_number, kNics));
  HORING_TRY(take_within(
      texts.intra_call, named("intra-call"), facts.intra_call_s, ho::parse_time, kCall));
  HORING_TRY(take_within(
      texts.inter_call, named("inter-call"), facts.inter_call_s, ho::parse_time, kCall));
  HORING_TRY(take_within(
      texts.world_call, named("world-call"), facts.world_call_s, ho::parse_time, kCall));
  if (texts.cluster && !texts.measure) {
    HORING_ASSIGN(const ClusterFacts file, read_cluster_file(*texts.cluster, texts.named));
    facts = merged(facts, file);
  }
  return {};
}

ho::Status take_cluster(const PlanTexts& texts, PlanOptions& options) {
  ClusterFacts& facts = options.facts;
  const ho::OptionNames& named = texts.named;
  HORING_TRY(take_algorithm(texts, options.request.links.world));
  HORING_ASSIGN(options.group_sizes, parse_group_sizes(texts.group_sizes, named));
  options.measure = texts.measure;
  if (texts.measure) {
    if (texts.cluster || texts.nodes || texts.ranks_per_node || texts.intra || texts.inter ||
        texts.nics || texts.instance || texts.network) {
      return ho::invalid(
          "--measure finds nodes, ranks and links itself: of the cluster's options it takes "
          "--memory, --gpu, --collectives, --world-algorithm and the three of calls only");
    }
    if (texts.gpu && !facts.memory_bytes) {
      HORING_ASSIGN(const Gpu gpu, find_gpu(*texts.gpu, texts.named));
      facts.memory_bytes = gpu.memory_gb * 1e9;
    }
    return {};
  }
  if (!texts.cluster && !texts.nodes && !texts.ranks_per_node && !texts.instance) {
    return ho::invalid(
        fmt::format("the cluster is missing: give {} FILE, or {} with {}, with {} and {} or with "
                    "{}, {} and {}{}",
                    named("cluster"),
                    named("nodes"),
                    named("instance"),
                    named("gpu"),
                    named("network"),
                    named("ranks-per-node"),
                    named("intra"),
                    named("inter"),
                    named.are_keys() ? "" : ", or in a running job --measure"));
  }
  HORING_ASSIGN(facts, with_machine(texts, facts, options.request.assumed));
  note_unused_links(texts, facts, options.request.assumed);
  HORING_TRY(apply(facts, options.request, texts.named));
  return complete(options);
}

ho::Status take_prices(const PlanTexts& texts, PlanOptions& options) {
  if (!texts.price && !texts.watts && !texts.energy_price) {
    return {};
  }
  Prices prices;
  HORING_TRY(take(
      texts.price, texts.named("price"), prices.per_rank_hour, ho::parse_number_up_to, kMaxMoney));
  HORING_TRY(take(
      texts.watts, texts.named("watts"), prices.watts_per_rank, ho::parse_number_up_to, kMaxWatts));
  HORING_TRY(take(texts.energy_price,
                  texts.named("energy-price"),
                  prices.per_kwh,
                  ho::parse_number_up_to,
                  kMaxMoney));
  if (texts.energy_price && !texts.watts) {
    return ho::invalid(fmt::format("{} takes {}, which a rank draws, beside it",
                                   texts.named("energy-price"),
                                   texts.named("watts")));
  }
  if (options.model.sequence == 0) {
    return ho::invalid(texts.named("sequence") +
                       " is missing: a cost per token takes the tokens of a sample");
  }
  options.prices = prices;
  return {};
}

// What numbers that are left out stand for; what a job by names takes for them it says itself.
void note_defaults(const PlanTexts& texts, PlanOptions& options) {
  const auto note = [&](bool known, std::string_view what, std::string_view option) {
    if (!known) {
      options.request.assumed.push_back(fmt::format("{}: give {}", what, texts.named(option)));
    }
  };
  const ClusterFacts& facts = options.facts;
  note(facts.memory_bytes.has_value(), "memory for everything", "memory");
  note(texts.measure || facts.nics || !facts.levels.empty() || facts.nodes.value_or(1) == 1,
       "1 NIC a node",
       "nics");
  note(texts.accumulation || texts.global_batch, "1 micro-batch a step", "accumulation");
  note(texts.prefetch.has_value(), "1 layer gathered ahead", "prefetch");
  note(texts.update_time.has_value(), "no time of the optimizer's update", "update-time");
  if (options.job) {
    note(texts.recompute || (texts.compute_time && texts.activations),
         "no recomputation",
         "recompute");
    return;
  }
  note(texts.micro_batch.has_value(), "micro-batches of 1 sample", "micro-batch");
  note(texts.compute_time.has_value(),
       "no computation, communication alone is compared",
       "compute-time");
  note(texts.activations.has_value(), "no activations", "activations");
  note(texts.bytes || texts.optimizer || texts.precision || options.bytes_of_units,
       "2 bytes of a parameter, 2 of a gradient, 12 of optimizer state",
       "bytes");
}

}  // namespace

ho::Status complete(PlanOptions& options) {
  PlannerRequest& request = options.request;
  const WorldShape nodes = request.world;
  HORING_TRY(set_nccl(options, request));
  if (options.job) {
    HORING_TRY(check(request));
    HORING_ASSIGN(options.steps, apply(*options.job, request));
    options.micro_batch = options.steps.batch.micro_batch;
    options.model.sequence = static_cast<uint32_t>(options.steps.sequence);
    HORING_TRY(set_nccl(options, request));  // of what is left to data parallelism
  }
  if (options.gpu) {
    request.reserve_bytes = Reserve{}.bytes(request.memory_bytes);
    request.assumed.push_back(fmt::format("{} of memory for the context, NCCL and fragments",
                                          ho::bytes_text(request.reserve_bytes)));
  }
  request.micro_batch = options.micro_batch;
  request.bytes.gradient_sum = bytes_of_sum(request);
  note_networks(options, nodes, request);
  return {};
}

std::span<const PlanOption> plan_options() {
  return kOptions;
}

ho::Result<PlanOptions> understand(const PlanTexts& texts) {
  PlanOptions options;
  options.named = texts.named;
  options.command = texts.command;
  HORING_TRY(take_model_and_step(texts, options));
  HORING_TRY(take_job(texts, options));
  HORING_TRY(take_facts(texts, options));
  HORING_TRY(take_collectives(texts, options));
  HORING_TRY(take_cluster(texts, options));
  HORING_TRY(take_prices(texts, options));
  HORING_TRY(take_export(texts, options));
  note_defaults(texts, options);
  return options;
}

}  // namespace paro
