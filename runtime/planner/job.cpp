#include "planner/job.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/quantity.hpp"
#include "planner/batch.hpp"

namespace paro {
namespace {

ActivationShape activation_shape(const Job& job, Recompute recompute, double sequence) {
  ActivationShape shape;
  shape.sequence = sequence;
  shape.tensor = job.sizes.tensor;
  shape.context = job.sizes.context;
  shape.sequence_parallel = job.sizes.tensor > 1;
  shape.recompute = recompute;
  shape.value_bytes = bytes_of(OptimizerKind::kSgd, precision_of(job)).parameter;
  return shape;
}

double sequence_of(const Job& job, PlannerRequest& request) {
  if (job.sequence > 0) {
    if (job.model.sequence > 0 && job.sequence > job.model.sequence) {
      request.assumed.push_back(
          fmt::format("sequences of {} tokens, though the model has {} positions: give {}",
                      job.sequence,
                      job.model.sequence,
                      job.named("sequence")));
    }
    return job.sequence;
  }
  constexpr double kUsual = 2048;
  const double longest = job.model.sequence;
  const double sequence = longest > 0 ? std::min(longest, 4 * kUsual) : kUsual;
  request.assumed.push_back(
      fmt::format("sequences of {} tokens: give {}", sequence, job.named("sequence")));
  return sequence;
}

void set_bytes(const Job& job, Precision precision, PlannerRequest& request) {
  if (job.bytes_reported) {
    return;
  }
  const OptimizerKind optimizer = job.optimizer.value_or(OptimizerKind::kAdamW);
  request.bytes = bytes_of(optimizer, precision);
  if (!job.optimizer) {
    request.assumed.push_back(
        fmt::format("optimizer {}: give {}", to_string(optimizer), job.named("optimizer")));
  }
}

// The units of a rank that has all of them, over t ranks, routed experts over e beside. What the
// embedding has beside the matrix of a tied head, and that head, go with the first and last layer.
void set_units(const Job& job, double sequence, double trained_share, PlannerRequest& request) {
  const double matrix = request.model.shared;
  const auto units = units_of(job.model);
  const auto flops = unit_flops(job.model, sequence, ScoreCount::kCausal);
  double work = 0;
  double parameters = 0;
  for (size_t at = 0; at < units.size(); ++at) {
    UnitSize size;
    size.parameters =
        (units[at].parameters - units[at].routed + units[at].routed / job.sizes.expert) /
        job.sizes.tensor;
    size.work = flops[at].total();
    parameters += size.parameters;
    work += size.work;
    request.units.push_back(size);
  }
  if (request.sharing_units > 0) {
    auto& sizes = request.units;
    sizes[1].parameters += sizes.front().parameters - matrix;
    sizes[sizes.size() - 2].parameters += sizes.back().parameters;
    sizes.front().parameters = sizes.back().parameters = matrix;
  }
  const double scale = request.model.parameters / parameters;  // 1 but for a model of round numbers
  for (UnitSize& size : request.units) {
    size.parameters *= scale;
    size.trainable = size.parameters * trained_share;
    size.work *= (request.model.parameters + request.model.shared) / work;
  }
}

// What one rank holds of the model.
void set_model(const Job& job, double sequence, PlannerRequest& request) {
  const Transformer& model = job.model;
  const double trained_share = request.model.trainable / request.model.parameters;
  const RankModel rank = model_of_rank(model, job.sizes);
  if (!job.sizes.alone()) {
    const double of_rank = rank.parameters() * (1 + job.adapters / parameters_of(model).total);
    request.model = {of_rank, of_rank * trained_share};
  }
  request.layers = rank.layers;
  request.routed_share = rank.parameters() > 0 ? rank.routed / rank.parameters() : 0;
  request.expert_ranks = job.sizes.expert;
  request.context_ranks = job.sizes.context;
  request.tensor_ranks = job.sizes.tensor;
  request.sharing_units = model.tied && job.sizes.pipeline == 1 ? 1 : 0;
  request.model.shared = request.sharing_units * model.vocabulary * model.hidden / job.sizes.tensor;
  request.model.shared_trainable = request.model.shared * trained_share;
  if (job.sizes.pipeline == 1) {
    set_units(job, sequence, trained_share, request);
  }
}

StepFlops flops_of(const Job& job,
                   Recompute recompute,
                   double sequence,
                   const PlannerRequest& request) {
  const double trained_share =
      job.adapters > 0 ? 0 : request.model.trainable / request.model.parameters;
  return step_flops(
      job.model, sequence, trained_share, recompute, ScoreCount::kCausal, job.adapters);
}

struct Computing {
  double flops_of_token = 0;  // of the model
  double peak_flops = 0;      // of the GPU; 0: none is named
  double sequence_s = 0;      // of one sequence on one rank, forward and backward; 0: no GPU
};

// And, into the request, what of it is forward.
ho::Result<Computing> computing_of(const Job& job,
                                   Precision precision,
                                   double sequence,
                                   PlannerRequest& request) {
  const StepFlops flops = flops_of(job, job.recompute, sequence, request);
  request.forward_share = flops.forward / flops.executed();
  Computing computing;
  computing.flops_of_token = flops.model();
  if (!job.gpu) {
    return computing;
  }
  HORING_ASSIGN(computing.peak_flops, peak_flops(*job.gpu, precision, job.named));
  const double executed = efficiency(*job.gpu, precision, job.recompute == Recompute::kFull);
  const double usual = executed * flops.model() / flops.executed();
  if (!job.mfu && !job.compute_s) {
    request.assumed.push_back(
        fmt::format("an MFU of {:.2g} while it computes ({} of {}): give {} or {}",
                    usual,
                    to_string(precision),
                    job.gpu->name,
                    job.named("mfu"),
                    job.named("compute-time")));
  }
  // Stages wait for the longest.
  const double ranks =
      static_cast<double>(job.sizes.ranks_of_replica()) /
      longest_stage(static_cast<double>(job.model.layers.size()), shape_of(job.sizes));
  computing.sequence_s =
      flops.model() * sequence / ranks / (computing.peak_flops * job.mfu.value_or(usual));
  return computing;
}

ho::Result<Batch> batch_of(const Job& job, uint32_t data_ranks, PlannerRequest& request) {
  Batch batch{job.micro_batch.value_or(1), job.accumulation.value_or(1)};
  if (job.global_batch == 0) {
    if (!job.micro_batch) {
      request.assumed.push_back(fmt::format("micro-batches of 1 sequence: give {} or {}",
                                            job.named("global-batch"),
                                            job.named("micro-batch")));
    }
    return batch;
  }
  if (job.accumulation) {
    return ho::invalid(fmt::format("{} chooses the accumulation: leave out {}",
                                   job.named("global-batch"),
                                   job.named("accumulation")));
  }
  HORING_ASSIGN(const uint32_t sequences,
                sequences_of_rank(job.global_batch, data_ranks, job.named));
  if (sequences > kMaxMicroBatches) {
    return ho::invalid(
        fmt::format("{} {}: makes {} sequences of each of {} ranks; takes at most {}",
                    job.named("global-batch"),
                    job.global_batch,
                    sequences,
                    data_ranks,
                    kMaxMicroBatches));
  }
  if (job.micro_batch || job.sizes.pipeline > 1) {
    if (!job.micro_batch) {
      request.assumed.push_back("micro-batches of 1 sequence in the pipeline: give " +
                                job.named("micro-batch"));
    }
    if (sequences % batch.micro_batch != 0) {
      return ho::invalid(
          fmt::format("{} {}: does not divide the {} sequences of a rank, which are {} {} over {} "
                      "ranks; takes a divisor of them",
                      job.named("micro-batch"),
                      batch.micro_batch,
                      sequences,
                      job.named("global-batch"),
                      job.global_batch,
                      data_ranks));
    }
    batch.accumulation = sequences / batch.micro_batch;
    return batch;
  }
  request.sequences = sequences;  // each strategy has its own micro-batch
  return Batch{1, sequences};
}

// Where layers do not fill the stages.
void note_stages(const Job& job, PlannerRequest& request) {
  const auto layers = static_cast<double>(job.model.layers.size());
  const double longer = longest_stage(layers, shape_of(job.sizes));
  if (longer > 1) {
    request.assumed.push_back(
        fmt::format("{} layers spread evenly over {} parts of stages, of which all wait for the "
                    "longest: {:.3g} % more",
                    layers,
                    job.sizes.pipeline * job.sizes.parts,
                    (longer - 1) * 100));
  }
}

// Bytes of one sequence that a rank keeps.
double activations_of(const Job& job, Recompute recompute, double sequence, uint32_t accumulation) {
  return peak_activations(
      job.model, activation_shape(job, recompute, sequence), shape_of(job.sizes, accumulation));
}

// The share of the peak that kernels take where none is given; else 1, as for any recomputation.
double usual_efficiency(const Job& job, Recompute recompute) {
  const bool is_known = job.mfu || job.compute_s || !job.gpu;
  return is_known ? 1 : efficiency(*job.gpu, precision_of(job), recompute == Recompute::kFull);
}

// What more recomputation than the job's would leave of activations and make of computation, which
// goes on at the same rate where that is given.
void set_recomputed(const Job& job, double sequence, const Batch& batch, PlannerRequest& request) {
  const double executed = flops_of(job, job.recompute, sequence, request).executed();
  const double computing_s = request.compute_s - request.waiting_s;
  const double usual = usual_efficiency(job, job.recompute);
  for (const auto& [recompute, name] :
       {std::pair(Recompute::kSelective, "selective"), std::pair(Recompute::kFull, "full")}) {
    if (recompute <= job.recompute) {
      continue;
    }
    const StepFlops flops = flops_of(job, recompute, sequence, request);
    const double slower = usual / usual_efficiency(job, recompute);
    const double of_sequence = activations_of(job, recompute, sequence, batch.accumulation);
    std::vector<DimensionTraffic> traffic;
    if (!request.others.traffic.empty()) {
      const ActivationShape shape = activation_shape(job, recompute, sequence);
      const OtherDimensions& others = request.others;
      traffic = traffic_of(job.sizes, job.model, levels_of(others.nodes, others.links), shape);
    }
    request.recomputed.push_back({name,
                                  of_sequence * batch.micro_batch,
                                  of_sequence,
                                  computing_s * slower * flops.executed() / executed,
                                  flops.forward / flops.executed(),
                                  traffic,
                                  job.mfu || job.compute_s});
  }
}

// Of a step: its computation, and what it waits for of `others`.
ho::Status set_computation(const Job& job,
                           const Computing& computing,
                           const Batch& batch,
                           OtherDimensions others,
                           double sequence,
                           PlannerRequest& request) {
  request.micro_batch = batch.micro_batch;
  const double sequences = double{1} * batch.micro_batch * batch.accumulation;
  request.compute_s =
      job.compute_s.value_or(computing.sequence_s * sequences * (1 + others.bubble));
  if (!job.compute_s && job.gpu) {
    const ActivationShape shape = activation_shape(job, job.recompute, sequence);
    others.traffic = traffic_of(job.sizes, job.model, levels_of(others.nodes, others.links), shape);
  }
  request.others = std::move(others);
  if (!job.compute_s && job.gpu) {
    set_waiting(request);
  }
  if (!job.compute_s && !job.gpu) {
    request.assumed.push_back(
        fmt::format("no computation, communication alone is compared: give {} or {}",
                    job.named("gpu"),
                    job.named("compute-time")));
  }
  if (request.compute_s > kMaxSeconds) {
    return ho::invalid(fmt::format("{} {} and {} make a step of {:.3g} s; takes at most {:.3g} s",
                                   job.named("sequence"),
                                   sequence,
                                   job.named("mfu"),
                                   request.compute_s,
                                   kMaxSeconds));
  }
  return {};
}

}  // namespace

Precision precision_of(const Job& job) {
  const bool has_bf16 = !job.gpu || peak_flops(*job.gpu, Precision::kBf16).ok();
  return job.precision.value_or(has_bf16 ? Precision::kBf16 : Precision::kFp16);
}

ho::Result<JobSteps> apply(const Job& job, PlannerRequest& request) {
  const WorldShape nodes = request.world;
  const Precision precision = precision_of(job);
  const double sequence = sequence_of(job, request);
  HORING_TRY(check(job.sizes, job.model, levels_of(nodes, request.links), sequence, job.named));
  if (!job.precision && job.gpu) {
    request.assumed.push_back(
        fmt::format("precision {}: give {}", to_string(precision), job.named("precision")));
  }
  set_bytes(job, precision, request);
  HORING_ASSIGN(const Computing computing, computing_of(job, precision, sequence, request));
  const Links links = request.links;
  request.links.protocols.clear();
  request.links.trees.clear();
  set_model(job, sequence, request);
  const DataParallel data = data_parallel(job.sizes, nodes, request.links.nics_per_group);
  request.world = data.world;
  request.links.nics_per_group = data.nics_per_group;
  if (!request.links.levels.empty()) {
    request.links.levels = data_parallel_levels(job.sizes, links.levels);
  }
  request.links.between_factor = between_factor(
      model_of_rank(job.model, job.sizes), levels_of(data.world, request.links), job.sizes);
  HORING_ASSIGN(const Batch batch, batch_of(job, data.replicas, request));
  request.micro_batches = batch.accumulation;
  const double bubble = bubble_share(job.sizes, batch.accumulation);
  HORING_TRY(set_computation(job, computing, batch, {{}, nodes, links, bubble}, sequence, request));
  const double of_sequence = activations_of(job, job.recompute, sequence, batch.accumulation);
  request.activation_bytes = job.activation_bytes.value_or(of_sequence * batch.micro_batch);
  request.activations_of_sequence = job.activation_bytes.value_or(of_sequence);
  request.all_recomputed = job.recompute == Recompute::kFull;
  if (!job.activation_bytes) {
    if (request.compute_s > 0) {  // else it is not known what computing anew would take
      set_recomputed(job, sequence, batch, request);
    }
    request.assumed.push_back(
        fmt::format("activations of {} for a sequence, by formula, with FlashAttention: give {}",
                    ho::bytes_text(of_sequence),
                    job.named("activations")));
  }
  note_stages(job, request);
  ActivationShape micro_batch = activation_shape(job, job.recompute, sequence);
  micro_batch.micro_batch = batch.micro_batch;
  return JobSteps{batch,
                  sequence,
                  computing.flops_of_token,
                  computing.peak_flops,
                  bubble,
                  traffic_of(job.sizes, job.model, levels_of(nodes, links), micro_batch)};
}

}  // namespace paro
