// The options of `paro plan`, which are the keys of paro_plan() too. Pure, but for reading a
// cluster file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "planner/group_sizes.hpp"
#include "planner/job.hpp"
#include "planner/price.hpp"
#include "planner/request.hpp"
#include "planner/text/cluster_facts.hpp"
#include "planner/text/model_spec.hpp"

namespace paro {

enum class ExportTarget : uint8_t { kFsdp2, kParoTorch };
inline constexpr std::array kExportTargetNames{std::string_view("fsdp2"),
                                               std::string_view("paro.torch")};

// Arguments as they were typed; nothing: not given.
struct PlanTexts {
  ho::OptionNames named;  // in messages
  std::string command;    // with all of them, for an exported program
  using Text = std::optional<std::string>;
  Text model;
  Text units;
  Text bytes;
  Text cluster;
  Text nodes;
  Text ranks_per_node;
  Text memory;
  Text intra;
  Text inter;
  Text nics;
  Text intra_call;
  Text inter_call;
  Text world_call;
  Text world_algorithm;
  Text collectives;
  Text group_sizes;
  Text micro_batch;
  Text accumulation;
  Text compute_time;
  Text update_time;
  Text activations;
  Text prefetch;
  Text sequence;
  Text gpu;
  Text instance;
  Text network;
  Text global_batch;
  Text mfu;
  Text recompute;
  Text optimizer;
  Text precision;
  Text tensor;
  Text pipeline;
  Text context;
  Text expert;
  Text interleave;
  Text price;
  Text watts;
  Text energy_price;
  Text sweep;  // of another option (planner/text/sweep.hpp)
  bool no_overlap = false;
  Text effects;
  Text export_to;  // which framework's program
  Text strategy;
  bool measure = false;  // the cluster is measured; the program paro can
};

// An option that takes a value.
struct PlanOption {
  const char* group;
  const char* name;  // "micro-batch"
  const char* kind;  // what it takes: "N"
  PlanTexts::Text PlanTexts::*text;
  const char* help;
};
[[nodiscard]] std::span<const PlanOption> plan_options();
inline constexpr const char* kNoOverlapHelp =
    "nothing hides behind computation, as where collectives take the processors that compute: a "
    "step is the sum of its parts";

struct PlanOptions {
  ho::OptionNames named;  // in messages
  std::string command;
  ModelSpec model;
  uint32_t micro_batch = 1;  // samples per rank
  ClusterFacts facts;        // from arguments and a file
  GroupSizeList group_sizes;
  PlannerRequest request;  // world, links and memory are set where `measure` is not
  std::optional<Gpu> gpu;  // by name, of a model by names or of numbers
  std::optional<Job> job;  // by names; complete() puts it into the request
  JobSteps steps;          // what came of it
  std::optional<std::string> nccl_network;  // of NCCL's collectives; nothing: as request.links
  bool network_assumed = false;             // no machine says which one that is
  std::optional<Prices> prices;
  std::optional<Precision> precision;  // as given
  bool bytes_of_units = false;         // of a parameter, as the units' elements are
  // A program that trains by the plan: for which framework, and by which strategy if not by the
  // recommended one.
  std::optional<ExportTarget> export_to;
  std::optional<Strategy> strategy;
  bool measure = false;
  // Of a step; 0: not known. Ranks that share a replica of the model share its tokens.
  [[nodiscard]] double tokens_per_rank() const {
    const double sequences =
        request.sequences > 0 ? request.sequences : double{1} * micro_batch * request.micro_batches;
    return model.sequence * sequences /
           static_cast<double>(job ? job->sizes.ranks_of_replica() : 1);
  }
  // Of a rank where a step takes so long; nothing where tokens or computation are not known.
  [[nodiscard]] std::optional<double> tokens_per_s(double step_s) const {
    const bool known = tokens_per_rank() > 0 && request.compute_s > 0 && step_s > 0;
    return known ? std::optional(tokens_per_rank() / step_s) : std::nullopt;
  }
  // The model's FLOPs, causal scores once, over what the GPU could do in that time; nothing where
  // one of them is not known.
  [[nodiscard]] std::optional<double> mfu(double step_s) const {
    const std::optional<double> tokens = tokens_per_s(step_s);
    return tokens && steps.peak_flops > 0
               ? std::optional(*tokens * steps.flops_of_token / steps.peak_flops)
               : std::nullopt;
  }
};

[[nodiscard]] ho::Result<PlanOptions> understand(const PlanTexts& texts);
// Once the request has world, links and memory: what the job's names say of it.
[[nodiscard]] ho::Status complete(PlanOptions& options);

}  // namespace paro
