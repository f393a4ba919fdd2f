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
ho::Status set_network(ClusterFacts& facts, std::string_view text) {
  const size_t times = text.find('x');
  uint32_t nics = 1;
  if (times != std::string_view::npos) {
    HORING_ASSIGN(nics, ho::parse_whole("--network", text.substr(0, times), 1));
    text = text.substr(times + 1);
  }
  HORING_ASSIGN(facts.inter_bytes_per_s, ho::parse_rate("--network", text));
  facts.nics = nics;
  return {};
}

// Of the options that are there, one that takes a model's shapes.
const char* shape_option(const PlanTexts& texts) {
  const std::array options{std::pair{"--global-batch", &texts.global_batch},
                           std::pair{"--mfu", &texts.mfu},
                           std::pair{"--recompute", &texts.recompute},
                           std::pair{"--tp", &texts.tensor},
                           std::pair{"--pp", &texts.pipeline},
                           std::pair{"--cp", &texts.context},
                           std::pair{"--ep", &texts.expert},
                           std::pair{"--interleave", &texts.interleave}};
  for (const auto& [name, text] : options) {
    if (*text) {
      return name;
    }
  }
  return nullptr;
}

ho::Status take_size(const PlanTexts::Text& text, std::string_view option, uint32_t& size) {
  if (text) {
    HORING_ASSIGN(size, ho::parse_whole(option, *text, 1));
    constexpr uint32_t kMax = 1U << 16U;
    if (size > kMax) {
      return ho::invalid(fmt::format("{} {}: takes at most {}", option, size, kMax));
    }
  }
  return {};
}

ho::Status take_sizes(const PlanTexts& texts, Parallelism& sizes) {
  HORING_TRY(take_size(texts.tensor, "--tp", sizes.tensor));
  HORING_TRY(take_size(texts.pipeline, "--pp", sizes.pipeline));
  HORING_TRY(take_size(texts.context, "--cp", sizes.context));
  HORING_TRY(take_size(texts.expert, "--ep", sizes.expert));
  return take_size(texts.interleave, "--interleave", sizes.parts);
}

ho::Result<std::optional<Gpu>> gpu_of(const PlanTexts& texts) {
  if (texts.gpu && texts.instance) {
    return ho::invalid("--gpu beside --instance, which has one: leave one of them out");
  }
  if (texts.instance) {
    HORING_ASSIGN(const Instance instance, find_instance(*texts.instance));
    HORING_ASSIGN(const Gpu gpu, find_gpu(instance.gpu));
    return std::optional(gpu);
  }
  if (!texts.gpu) {
    return std::optional<Gpu>();
  }
  HORING_ASSIGN(const Gpu gpu, find_gpu(*texts.gpu));
  return std::optional(gpu);
}

ho::Status take_training(const PlanTexts& texts, Job& job) {
  if (texts.optimizer) {
    HORING_ASSIGN(job.optimizer,
                  named<OptimizerKind>("--optimizer", *texts.optimizer, kOptimizerNames));
  }
  if (texts.precision) {
    HORING_ASSIGN(job.precision,
                  named<Precision>("--precision", *texts.precision, kPrecisionNames));
  }
  if (texts.recompute) {
    HORING_ASSIGN(job.recompute,
                  named<Recompute>("--recompute", *texts.recompute, kRecomputeNames));
  }
  if (texts.mfu) {
    HORING_ASSIGN(job.mfu, ho::parse_number_up_to("--mfu", *texts.mfu, 1));
    if (*job.mfu <= 0) {
      return ho::invalid("--mfu 0: takes a share above 0 and up to 1, as 0.4");
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

// Beside levels, which have all links.
ho::Result<ClusterFacts> with_memory(const PlanTexts& texts,
                                     const ClusterFacts& facts,
                                     const std::optional<Gpu>& gpu) {
  if (texts.instance || texts.network) {
    return ho::invalid(
        fmt::format("{} beside a cluster of levels, which has its links: leave it out{}",
                    texts.network ? "--network" : "--instance",
                    texts.instance ? ", and give --gpu" : ""));
  }
  ClusterFacts machine;
  if (gpu) {
    machine.memory_bytes = gpu->memory_gb * 1e9;
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
    return with_memory(texts, facts, gpu);
  }
  std::string peak;  // of what the NICs' rate is one
  if (texts.instance) {
    HORING_ASSIGN(const Instance instance, find_instance(*texts.instance));
    machine.ranks_per_node = instance.gpus;
    machine.nics = instance.nics;
    machine.inter_bytes_per_s = instance.nic_gbit * 1e9 / 8;
    peak = fmt::format("{}'s {}", instance.name, to_string(instance.network));
  }
  if (texts.network) {
    HORING_TRY(set_network(machine, *texts.network));
    peak.clear();
  }
  if (gpu) {
    machine.memory_bytes = gpu->memory_gb * 1e9;
    machine.intra_bytes_per_s = gpu->link_gbytes * 1e9;
  }
  ClusterFacts all = merged(facts, machine);
  constexpr uint32_t kUsualRanks = 8;
  if (gpu && !all.ranks_per_node) {
    all.ranks_per_node = kUsualRanks;
    assumed.push_back(fmt::format("{} GPUs a node: give --ranks-per-node", kUsualRanks));
  }
  if (gpu && !facts.intra_bytes_per_s && all.ranks_per_node.value_or(1) > 1) {
    assumed.push_back(fmt::format("links inside a node of {}, the peak of {}'s {}: give --intra",
                                  ho::bytes_text(*machine.intra_bytes_per_s) + "/s",
                                  gpu->name,
                                  to_string(gpu->link)));
  }
  if (!peak.empty() && !facts.inter_bytes_per_s && all.nodes.value_or(1) > 1) {
    assumed.push_back(fmt::format("{} NICs of {:.4g} Gbit/s a node, the peak of {}: give --network",
                                  *machine.nics,
                                  *machine.inter_bytes_per_s * 8 / 1e9,
                                  peak));
  }
  return all;
}

ho::Status take_job(const PlanTexts& texts, PlanOptions& options) {
  HORING_ASSIGN(const std::optional<Gpu> gpu, gpu_of(texts));
  const char* const takes_shape = shape_option(texts);
  const bool names = gpu || takes_shape || texts.optimizer || texts.precision;
  if (!names && (!options.model.shape || options.model.is_round)) {
    return {};
  }
  Job job;
  HORING_TRY(take_training(texts, job));
  if (!options.model.shape) {
    if (takes_shape != nullptr) {
      return ho::invalid(
          fmt::format("{} takes a model of which the shapes are known, by name or config.json: "
                      "--model {} has numbers only",
                      takes_shape,
                      options.model.text));
    }
    if (!texts.bytes && (texts.optimizer || texts.precision)) {
      options.request.bytes = bytes_of(job.optimizer.value_or(OptimizerKind::kAdamW),
                                       job.precision.value_or(Precision::kBf16));
    }
    return {};
  }
  job.model = *options.model.shape;
  job.gpu = gpu;
  job.sequence = options.model.sequence;
  HORING_TRY(take_sizes(texts, job.sizes));
  HORING_TRY(take_size(texts.global_batch, "--global-batch", job.global_batch));
  const auto if_reported = [](const PlanTexts::Text& text, auto value) {
    return text ? std::optional(value) : std::nullopt;
  };
  job.micro_batch = if_reported(texts.micro_batch, options.micro_batch);
  job.accumulation = if_reported(texts.accumulation, options.request.micro_batches);
  job.compute_s = if_reported(texts.compute_time, options.request.compute_s);
  job.activation_bytes = if_reported(texts.activations, options.request.activation_bytes);
  job.bytes_reported = texts.bytes.has_value();
  options.job = job;
  return {};
}

ho::Status take_collectives(const PlanTexts& texts, PlanOptions& options) {
  PlannerRequest& request = options.request;
  const bool gpu = texts.gpu || texts.instance;
  if (gpu && !texts.effects) {
    request.effects = kGpuEffects;
    request.assumed.push_back(
        fmt::format("of hidden communication {} comes back, jitter {}, as on GPUs: give --effects",
                    kGpuEffects.slowdown,
                    kGpuEffects.jitter));
  }
  if (texts.collectives && texts.world_algorithm) {
    return ho::invalid(
        fmt::format("--world-algorithm {} beside --collectives {}, which has its own: leave one of "
                    "them out",
                    *texts.world_algorithm,
                    *texts.collectives));
  }
  const bool reported = texts.collectives || texts.world_algorithm;
  Collectives whose = gpu && !texts.world_algorithm ? Collectives::kNccl : Collectives::kHoring;
  if (texts.collectives) {
    HORING_ASSIGN(whose,
                  named<Collectives>("--collectives", *texts.collectives, kCollectivesNames));
  }
  if (!reported) {
    request.assumed.emplace_back(whose == Collectives::kNccl
                                     ? "NCCL's collectives, as PyTorch has them: give --collectives"
                                     : "HO-Ring's collectives, not NCCL's: give --collectives");
  }
  if (whose == Collectives::kNccl) {
    options.nccl_network = network_of(texts);
    options.network_assumed = !texts.instance;
  }
  return {};
}

ho::Status set_nccl(const PlanOptions& options, PlannerRequest& request) {
  if (!options.nccl_network) {
    return {};
  }
  Links& links = request.links;
  links.world = WorldAlgorithm::kMultiRing;
  if (!links.levels.empty()) {  // they are what collectives have been measured to take
    return {};
  }
  if (options.network_assumed && request.world.group_count > 1) {
    request.assumed.push_back(fmt::format(
        "{} between nodes: give --instance, or --cluster with levels", *options.nccl_network));
  }
  const bool pcie = options.job && options.job->gpu && options.job->gpu->link == GpuLink::kPcie;
  // A level that joins nothing may have any rate.
  HORING_ASSIGN(links.protocols,
                nccl_protocols({request.world.group_count,
                                request.world.group_size,
                                std::max(links.intra_bytes_per_s, 1.0),
                                pcie ? "pcie" : "nvlink",
                                links.nics_per_group,
                                std::max(links.inter_bytes_per_s, 1.0),
                                *options.nccl_network}));
  return {};
}

}  // namespace paro
