#include "planner/text/plan_names.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/near_names.hpp"
#include "base/quantity.hpp"
#include "planner/nccl.hpp"

namespace paro {
namespace {

constexpr std::array kRecomputeNames{
    std::string_view("none"), std::string_view("selective"), std::string_view("full")};

enum class Collectives : uint8_t { kNccl, kHoring };
constexpr std::array kCollectivesNames{std::string_view("nccl"), std::string_view("horing")};

// The enumerator of a name in the table of its type.
template <typename Enum, size_t kCount>
ho::Result<Enum> named(std::string_view option,
                       std::string_view text,
                       const std::array<std::string_view, kCount>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    return ho::invalid(fmt::format("{} {}: is not known{}",
                                   option,
                                   text,
                                   ho::near_names_text(text, {names.begin(), names.end()})));
  }
  return static_cast<Enum>(found - names.begin());
}

// "8x400Gbit", "400Gbit"
ho::Status set_network(const PlanTexts& texts, ClusterFacts& facts) {
  std::string_view text = *texts.network;
  const size_t times = text.find('x');
  const auto nics = times == std::string_view::npos
                        ? ho::Result<uint32_t>(1U)
                        : ho::parse_whole_up_to("", text.substr(0, times), 1, kMaxRanks);
  text.remove_prefix(times == std::string_view::npos ? 0 : times + 1);
  const auto rate = ho::parse_rate("", text);
  if (!nics.ok() || !rate.ok() || *rate < 1 || *rate > kMaxBytes) {
    return ho::invalid(
        fmt::format("{} '{}': takes how many NICs a node has, from 1 to {}, and the "
                    "rate of each with its unit, as 8x400Gbit",
                    texts.named("network"),
                    *texts.network,
                    kMaxRanks));
  }
  facts.inter_bytes_per_s = *rate;
  facts.nics = *nics;
  return {};
}

// Of the options that are there, one that takes a model's shapes.
std::string shape_option(const PlanTexts& texts) {
  const std::array options{std::pair{texts.named("global-batch"), &texts.global_batch},
                           std::pair{texts.named("mfu"), &texts.mfu},
                           std::pair{texts.named("recompute"), &texts.recompute},
                           std::pair{texts.named("tp"), &texts.tensor},
                           std::pair{texts.named("pp"), &texts.pipeline},
                           std::pair{texts.named("cp"), &texts.context},
                           std::pair{texts.named("ep"), &texts.expert},
                           std::pair{texts.named("interleave"), &texts.interleave}};
  for (const auto& [name, text] : options) {
    if (*text) {
      return name;
    }
  }
  return {};
}

ho::Status take_size(const PlanTexts::Text& text,
                     std::string_view option,
                     uint32_t& size,
                     uint32_t most = 1U << 16U) {
  if (text) {
    HORING_ASSIGN(size, ho::parse_whole_up_to(option, *text, 1, most));
  }
  return {};
}

ho::Status take_sizes(const PlanTexts& texts, Parallelism& sizes) {
  HORING_TRY(take_size(texts.tensor, texts.named("tp"), sizes.tensor));
  HORING_TRY(take_size(texts.pipeline, texts.named("pp"), sizes.pipeline));
  HORING_TRY(take_size(texts.context, texts.named("cp"), sizes.context));
  HORING_TRY(take_size(texts.expert, texts.named("ep"), sizes.expert));
  return take_size(texts.interleave, texts.named("interleave"), sizes.parts);
}

ho::Result<std::optional<Gpu>> gpu_of(const PlanTexts& texts) {
  if (texts.gpu && texts.instance) {
    return ho::invalid(fmt::format("{} beside {}, which has one: leave one of them out",
                                   texts.named("gpu"),
                                   texts.named("instance")));
  }
  if (texts.instance) {
    HORING_ASSIGN(const Instance instance, find_instance(*texts.instance, texts.named));
    HORING_ASSIGN(const Gpu gpu, find_gpu(instance.gpu, texts.named));
    return std::optional(gpu);
  }
  if (!texts.gpu) {
    return std::optional<Gpu>();
  }
  HORING_ASSIGN(const Gpu gpu, find_gpu(*texts.gpu, texts.named));
  return std::optional(gpu);
}

// Of --bytes beside a name that would make others.
void note_bytes(const PlanTexts& texts, PlanOptions& options, const Job& job) {
  const BytesPerParameter reported = options.request.bytes;
  const BytesPerParameter named = bytes_of(job.optimizer.value_or(OptimizerKind::kAdamW),
                                           job.precision.value_or(Precision::kBf16));
  const bool differ = reported.parameter != named.parameter ||
                      reported.gradient != named.gradient || reported.optimizer != named.optimizer;
  if (texts.bytes && (texts.optimizer || texts.precision) && differ) {
    options.request.assumed.push_back(
        fmt::format("{} {} counts, not the {},{},{} of {}",
                    texts.named("bytes"),
                    *texts.bytes,
                    named.parameter,
                    named.gradient,
                    named.optimizer,
                    texts.precision ? texts.named("precision") : texts.named("optimizer")));
  }
}

// Of a name that several GPUs begin with.
void note_variant(const PlanTexts& texts, const Gpu& gpu, std::vector<std::string>& assumed) {
  const auto variants = gpus_called(*texts.gpu);
  if (variants.size() > 1) {
    assumed.push_back(fmt::format("GPU {}, of {}: give {} by its whole name",
                                  gpu.name,
                                  fmt::join(variants, ", "),
                                  texts.named("gpu")));
  }
}

ho::Status take_training(const PlanTexts& texts, Job& job) {
  if (texts.optimizer) {
    HORING_ASSIGN(
        job.optimizer,
        named<OptimizerKind>(texts.named("optimizer"), *texts.optimizer, kOptimizerNames));
  }
  if (texts.precision) {
    HORING_ASSIGN(job.precision,
                  named<Precision>(texts.named("precision"), *texts.precision, kPrecisionNames));
  }
  if (texts.recompute) {
    HORING_ASSIGN(job.recompute,
                  named<Recompute>(texts.named("recompute"), *texts.recompute, kRecomputeNames));
  }
  if (texts.mfu) {
    HORING_ASSIGN(job.mfu, ho::parse_number_up_to(texts.named("mfu"), *texts.mfu, 1));
    constexpr double kMinMfu = 1e-4;
    if (*job.mfu < kMinMfu) {
      return ho::invalid(fmt::format(
          "{} '{}': takes a share from {} to 1, as 0.4", texts.named("mfu"), *texts.mfu, kMinMfu));
    }
  }
  return {};
}

// InfiniBand unless the machine has another one.
std::string network_of(const PlanTexts& texts) {
  if (texts.instance) {
    if (const auto instance = find_instance(*texts.instance); instance.ok()) {
      std::string name(to_string(instance->network));
      std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
      });
      return name;
    }
  }
  return "infiniband";
}

// Beside one of its two numbers, which counts then.
ho::Status add_network(const PlanTexts& texts,
                       ClusterFacts& machine,
                       std::vector<std::string>& assumed) {
  if (texts.inter && texts.nics) {
    return ho::invalid(fmt::format("{} beside {} and {}, which say the same: leave it out",
                                   texts.named("network"),
                                   texts.named("inter"),
                                   texts.named("nics")));
  }
  HORING_TRY(set_network(texts, machine));
  for (const auto& [name, text] :
       {std::pair("inter", &texts.inter), std::pair("nics", &texts.nics)}) {
    if (*text) {
      assumed.push_back(fmt::format("{} {} counts, not that of {} {}",
                                    texts.named(name),
                                    **text,
                                    texts.named("network"),
                                    *texts.network));
    }
  }
  return {};
}

// Of more than the GPU has.
void note_memory(const PlanTexts& texts,
                 const ClusterFacts& facts,
                 const Gpu& gpu,
                 std::vector<std::string>& assumed) {
  const double memory_bytes = gpu.memory_gb * 1e9;
  if (facts.memory_bytes.value_or(0) > memory_bytes) {
    assumed.push_back(fmt::format("{} of memory, though {} has {}: give {}",
                                  ho::bytes_text(*facts.memory_bytes),
                                  gpu.name,
                                  ho::bytes_text(memory_bytes),
                                  texts.named("memory")));
  }
}

// Beside levels, which have all links.
ho::Result<ClusterFacts> with_memory(const PlanTexts& texts,
                                     const ClusterFacts& facts,
                                     const std::optional<Gpu>& gpu,
                                     std::vector<std::string>& assumed) {
  if (texts.instance || texts.network) {
    return ho::invalid(
        fmt::format("{} beside a cluster of levels, which has its links: leave it out{}",
                    texts.named(texts.network ? "network" : "instance"),
                    texts.instance ? ", and give " + texts.named("gpu") : ""));
  }
  ClusterFacts machine;
  if (gpu) {
    machine.memory_bytes = gpu->memory_gb * 1e9;
    note_memory(texts, facts, *gpu, assumed);
  }
  return merged(facts, machine);
}

}  // namespace

ho::Result<ClusterFacts> with_machine(const PlanTexts& texts,
                                      const ClusterFacts& facts,
                                      std::vector<std::string>& assumed) {
  HORING_ASSIGN(const std::optional<Gpu> gpu, gpu_of(texts));
  ClusterFacts machine;
  if (!facts.levels.empty()) {
    return with_memory(texts, facts, gpu, assumed);
  }
  std::string peak;  // of what the NICs' rate is one
  if (texts.instance) {
    HORING_ASSIGN(const Instance instance, find_instance(*texts.instance, texts.named));
    machine.ranks_per_node = instance.gpus;
    machine.nics = instance.nics;
    machine.inter_bytes_per_s = instance.nic_gbit * 1e9 / 8;
    peak = fmt::format("{}'s {}", instance.name, to_string(instance.network));
    if (facts.ranks_per_node.value_or(0) > instance.gpus) {
      assumed.push_back(fmt::format("{} ranks a node, though {} has {} GPUs: give {}",
                                    *facts.ranks_per_node,
                                    instance.name,
                                    instance.gpus,
                                    texts.named("ranks-per-node")));
    }
  }
  if (texts.network) {
    HORING_TRY(add_network(texts, machine, assumed));
    peak.clear();
  }
  if (gpu) {
    machine.memory_bytes = gpu->memory_gb * 1e9;
    machine.intra_bytes_per_s = gpu->link_gbytes * 1e9;
    note_memory(texts, facts, *gpu, assumed);
  }
  ClusterFacts all = merged(facts, machine);
  if (texts.network) {  // it counts before a file
    all.inter_bytes_per_s = texts.inter ? facts.inter_bytes_per_s : machine.inter_bytes_per_s;
    all.nics = texts.nics ? facts.nics : machine.nics;
  }
  constexpr uint32_t kUsualRanks = 8;
  if (gpu && !all.ranks_per_node) {
    all.ranks_per_node = kUsualRanks;
    assumed.push_back(
        fmt::format("{} GPUs a node: give {}", kUsualRanks, texts.named("ranks-per-node")));
  }
  if (gpu && !facts.intra_bytes_per_s && all.ranks_per_node.value_or(1) > 1) {
    assumed.push_back(fmt::format("links inside a node of {}, the peak of {}'s {}: give {}",
                                  ho::bytes_text(*machine.intra_bytes_per_s) + "/s",
                                  gpu->name,
                                  to_string(gpu->link),
                                  texts.named("intra")));
  }
  if (!peak.empty() && !facts.inter_bytes_per_s && all.nodes.value_or(1) > 1) {
    assumed.push_back(fmt::format("{} NICs of {:.4g} Gbit/s a node, the peak of {}: give {}",
                                  *all.nics,
                                  *machine.inter_bytes_per_s * 8 / 1e9,
                                  peak,
                                  texts.named("network")));
  }
  return all;
}

namespace {

void note_mfu(const PlanTexts& texts, bool gpu, std::vector<std::string>& assumed) {
  if (!texts.mfu || (gpu && !texts.compute_time)) {
    return;
  }
  assumed.push_back(texts.compute_time
                        ? fmt::format("{} {} counts, not {}",
                                      texts.named("compute-time"),
                                      *texts.compute_time,
                                      texts.named("mfu"))
                        : fmt::format("{} {} does not count, of a peak that is not known: give {}",
                                      texts.named("mfu"),
                                      *texts.mfu,
                                      texts.named("gpu")));
}

}  // namespace

ho::Status take_job(const PlanTexts& texts, PlanOptions& options) {
  HORING_ASSIGN(options.gpu, gpu_of(texts));
  const std::optional<Gpu>& gpu = options.gpu;
  if (texts.gpu) {
    note_variant(texts, *gpu, options.request.assumed);
  }
  note_mfu(texts, gpu.has_value(), options.request.assumed);
  const std::string takes_shape = shape_option(texts);
  const bool names = gpu || !takes_shape.empty() || texts.optimizer || texts.precision;
  if (!names && (!options.model.shape || options.model.is_round)) {
    return {};
  }
  Job job;
  HORING_TRY(take_training(texts, job));
  options.precision = job.precision;
  note_bytes(texts, options, job);
  if (!options.model.shape) {
    if (!takes_shape.empty()) {
      return ho::invalid(
          fmt::format("{} takes a model of which the shapes are known, by name or config.json: "
                      "{} {} has numbers only",
                      takes_shape,
                      texts.named("model"),
                      options.model.text));
    }
    if (!texts.bytes && (texts.optimizer || texts.precision)) {
      options.request.bytes = bytes_of(job.optimizer.value_or(OptimizerKind::kAdamW),
                                       job.precision.value_or(Precision::kBf16));
    }
    return {};
  }
  job.model = *options.model.shape;
  auto& assumed = options.request.assumed;
  assumed.insert(assumed.end(), job.model.assumed.begin(), job.model.assumed.end());
  job.gpu = gpu;
  job.adapters = options.model.adapters;
  job.sequence = options.model.sequence;
  HORING_TRY(take_sizes(texts, job.sizes));
  HORING_TRY(
      take_size(texts.global_batch, texts.named("global-batch"), job.global_batch, kMaxRanks));
  const auto if_reported = [](const PlanTexts::Text& text, auto value) {
    return text ? std::optional(value) : std::nullopt;
  };
  job.micro_batch = if_reported(texts.micro_batch, options.micro_batch);
  job.accumulation = if_reported(texts.accumulation, options.request.micro_batches);
  job.compute_s = if_reported(texts.compute_time, options.request.compute_s);
  job.activation_bytes = if_reported(texts.activations, options.request.activation_bytes);
  job.bytes_reported = texts.bytes.has_value();
  job.named = texts.named;
  options.job = job;
  return {};
}

ho::Status take_export(const PlanTexts& texts, PlanOptions& options) {
  if (!texts.export_to) {
    return texts.strategy ? ho::invalid(fmt::format("{} takes {} beside it: the table has them all",
                                                    texts.named("strategy"),
                                                    texts.named("export")))
                          : ho::Status();
  }
  const auto* const target =
      std::find(kExportTargetNames.begin(), kExportTargetNames.end(), *texts.export_to);
  if (target == kExportTargetNames.end()) {
    return ho::invalid(fmt::format("{} {}: takes {}",
                                   texts.named("export"),
                                   *texts.export_to,
                                   fmt::join(kExportTargetNames, ", ")));
  }
  options.export_to = static_cast<ExportTarget>(target - kExportTargetNames.begin());
  if (texts.strategy) {
    HORING_ASSIGN(options.strategy, parse_strategy(*texts.strategy));
  }
  return {};
}

namespace {

// NVLink where no GPU says otherwise.
const char* inside_network(const PlanOptions& options) {
  return options.gpu && options.gpu->link == GpuLink::kPcie ? "pcie" : "nvlink";
}

}  // namespace

ho::Status take_collectives(const PlanTexts& texts, PlanOptions& options) {
  PlannerRequest& request = options.request;
  const bool gpu = texts.gpu || texts.instance;
  if (gpu && !texts.effects) {
    request.effects = kGpuEffects;
    const bool of_cluster = !texts.measure && options.facts.slowdown;
    request.assumed.push_back(fmt::format(
        "{}jitter {}, as on GPUs: give {}",
        of_cluster ? ""
                   : fmt::format("of hidden communication {} comes back, ", kGpuEffects.slowdown),
        kGpuEffects.jitter,
        texts.named("effects")));
  }
  if (texts.collectives && texts.world_algorithm) {
    return ho::invalid(fmt::format("{} {} beside {} {}, which has its own: leave one of them out",
                                   texts.named("world-algorithm"),
                                   *texts.world_algorithm,
                                   texts.named("collectives"),
                                   *texts.collectives));
  }
  const bool reported = texts.collectives || texts.world_algorithm;
  Collectives whose = gpu && !texts.world_algorithm ? Collectives::kNccl : Collectives::kHoring;
  if (texts.collectives) {
    HORING_ASSIGN(
        whose,
        named<Collectives>(texts.named("collectives"), *texts.collectives, kCollectivesNames));
  }
  if (!reported) {
    request.assumed.push_back(fmt::format("{}: give {}",
                                          whose == Collectives::kNccl
                                              ? "NCCL's collectives, as PyTorch has them"
                                              : "HO-Ring's collectives, not NCCL's",
                                          texts.named("collectives")));
  }
  if (whose == Collectives::kNccl) {
    options.nccl_network = network_of(texts);
    options.network_assumed = !texts.instance;
  }
  return {};
}

void note_networks(const PlanOptions& options, const WorldShape& nodes, PlannerRequest& request) {
  if (!options.nccl_network || !request.links.levels.empty()) {
    return;
  }
  const auto note = [&](std::string_view what, std::string_view option) {
    request.assumed.push_back(fmt::format(
        "{}: give {}, or {} with levels", what, options.named(option), options.named("cluster")));
  };
  if (!options.gpu && nodes.group_size > 1) {
    note(fmt::format("{} inside nodes", inside_network(options)), "gpu");
  }
  if (options.network_assumed && nodes.group_count > 1) {
    note(fmt::format("{} between nodes", *options.nccl_network), "instance");
  }
}

ho::Status set_nccl(const PlanOptions& options, PlannerRequest& request) {
  if (!options.nccl_network) {
    return {};
  }
  Links& links = request.links;
  links.world = WorldAlgorithm::kMultiRing;
  if (!links.levels.empty()) {
    NcclLinks nccl = nccl_links(links.levels);
    if (nccl.protocols.empty()) {  // a part of them, which data parallelism has, is measured too
      for (ho::cost::Level& level : links.levels) {
        level.network.clear();
      }
    }
    links.protocols = std::move(nccl.protocols);
    links.trees = std::move(nccl.trees);
    return {};
  }
  // A level that joins nothing may have any rate.
  const GpuCluster gpus{request.world.group_count,
                        request.world.group_size,
                        std::max(links.intra_bytes_per_s, 1.0),
                        inside_network(options),
                        links.nics_per_group,
                        std::max(links.inter_bytes_per_s, 1.0),
                        *options.nccl_network};
  HORING_ASSIGN(NcclLinks nccl, nccl_links(gpus));
  links.protocols = std::move(nccl.protocols);
  links.trees = std::move(nccl.trees);
  return {};
}

}  // namespace paro
