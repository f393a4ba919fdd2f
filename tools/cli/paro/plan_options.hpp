// The options of `paro plan`. Pure, but for reading a cluster file and for usage that is printed.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "cli/paro/job/cluster_facts.hpp"
#include "cli/paro/job/model_spec.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "planner/job.hpp"
#include "planner/price.hpp"
#include "planner/request.hpp"

namespace paro::tool {

// Arguments as they were typed; nothing: not given.
struct PlanTexts {
  using Text = std::optional<std::string>;
  Text model;
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
  bool names = false;
  bool no_overlap = false;
  Text effects;
  bool measure = false;
  bool validate = false;
  bool fit = false;
  bool json = false;
};

struct PlanOptions {
  ModelSpec model;
  uint32_t micro_batch = 1;  // samples per rank
  ClusterFacts facts;        // from arguments and a file
  PlannerRequest request;    // world, links and memory are set where `measure` is not
  std::optional<Job> job;    // by names; complete() puts it into the request
  JobSteps steps;            // what came of it
  std::optional<std::string> nccl_network;  // of NCCL's collectives; nothing: as request.links
  std::optional<Prices> prices;
  bool measure = false;
  bool validate = false;  // nothing else but json is set then, nor with fit
  bool fit = false;
  bool json = false;
  // Of a step; 0: not known.
  [[nodiscard]] double tokens_per_rank() const {
    return double{1} * model.sequence *
           (request.sequences > 0 ? request.sequences
                                  : double{1} * micro_batch * request.micro_batches);
  }
};

[[nodiscard]] ho::Result<PlanOptions> understand(const PlanTexts& texts);
// Once the request has world, links and memory: what the job's names say of it.
[[nodiscard]] ho::Status complete(PlanOptions& options);

// argv[0] is the subcommand's name.
[[nodiscard]] ho::Parsed<PlanOptions> parse_plan_options(int argc, const char* const* argv);

}  // namespace paro::tool
