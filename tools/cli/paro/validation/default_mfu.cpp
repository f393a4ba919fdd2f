#include "cli/paro/validation/default_mfu.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "model/activations.hpp"
#include "model/config.hpp"
#include "planner/batch.hpp"
#include "planner/figures.hpp"
#include "planner/text/plan_options.hpp"

namespace paro::tool {
namespace {

ho::Result<Transformer> model_of(const PublishedTable& table, const PublishedRow& row) {
  return parse_config(fmt::format(R"({{"model_type": "gpt2", "n_embd": {}, "n_head": {},
                                       "n_layer": {}, "n_positions": {}, "vocab_size": {}}})",
                                  row.shape->hidden,
                                  row.shape->heads,
                                  row.layers,
                                  table.sequence,
                                  table.vocabulary),
                      row.model);
}

ho::Result<Job> job_of(const PublishedTable& table, const PublishedRow& row) {
  Job job;
  HORING_ASSIGN(job.model, model_of(table, row));
  HORING_ASSIGN(job.gpu, find_gpu(table.gpu));
  job.sequence = table.sequence;
  job.recompute = row.recomputation;
  job.sizes = row.shape->sizes;
  job.micro_batch = row.micro_batch;
  job.accumulation = row.accumulation;
  return job;
}

// As the options of `paro plan` make one.
ho::Result<PlanOptions> planned(const PublishedTable& table,
                                const PublishedRow& row,
                                Job job,
                                const Effects& effects) {
  PlanOptions options;
  PlannerRequest& request = options.request;
  const double parameters = parameters_of(job.model).total;
  request.model = {parameters, parameters};
  request.layers = row.layers;
  const GpuCluster cluster = cluster_of(table, row);
  request.world = {cluster.nodes, cluster.gpus_per_node};
  request.links = {
      cluster.gpu_bytes_per_s, cluster.nic_bytes_per_s, cluster.nics, WorldAlgorithm::kMultiRing};
  request.effects = effects;
  options.nccl_network = cluster.network;
  options.job = std::move(job);
  HORING_TRY(complete(options));
  return options;
}

constexpr double kGib = 1024.0 * 1024 * 1024;

// Of a stage's layers.
double activations_gib(const Transformer& model, const PublishedRow& row, Recompute recompute) {
  const Parallelism& sizes = row.shape->sizes;
  const ActivationShape shape{.sequence = double{1} * model.sequence,
                              .micro_batch = double{1} * row.micro_batch,
                              .tensor = double{1} * sizes.tensor,
                              .sequence_parallel = recompute != Recompute::kNone,
                              .stores_scores = true,
                              .recompute = recompute};
  return row.layers * layer_activations(model, model.layers.front(), shape) *
         kept_share(shape_of(sizes, row.accumulation)) / kGib;
}

double states_gib(const Transformer& model, const PublishedRow& row) {
  constexpr double kBytes = 2 + 4 + 12;  // parameters, gradients, masters and Adam's states
  return kBytes * row.layers * layer_parameters(model.hidden, model.layers.front()).total() /
         (row.shape->sizes.tensor * row.shape->sizes.pipeline) / kGib;
}

}  // namespace

ho::Result<DefaultMfuStep> default_mfu_step(const PublishedTable& table,
                                            const PublishedRow& row,
                                            const Effects& effects) {
  HORING_ASSIGN(Job job, job_of(table, row));
  const Precision precision = precision_of(job);
  HORING_ASSIGN(const double peak, peak_flops(*job.gpu, precision));
  const double executed =
      step_flops(job.model, table.sequence, 1, job.recompute, ScoreCount::kCausal).executed();
  DefaultMfuStep step;
  step.alone = peak * efficiency(*job.gpu, precision, job.recompute == Recompute::kFull) / executed;
  HORING_ASSIGN(const PlanOptions options, planned(table, row, std::move(job), effects));
  HORING_ASSIGN(const double step_s,
                expected_step_s(row.strategy, with_batch(row.strategy, options.request)));
  step.tokens_per_s = options.tokens_per_rank() / step_s;
  return step;
}

ho::Result<std::vector<MemoryPrediction>> predict_memory(
    const std::vector<PublishedTable>& tables) {
  std::vector<MemoryPrediction> predictions;
  for (const PublishedTable& table : tables) {
    for (const PublishedMemory& memory : table.memory) {
      const PublishedRow& row = table.rows.at(memory.row);
      HORING_ASSIGN(const Transformer model, model_of(table, row));
      const auto add = [&](std::string_view what, double published, double planned) {
        predictions.push_back({&table, row.model, what, published, planned});
      };
      add("states", memory.states_gib, states_gib(model, row));
      add("activations", memory.activations_gib, activations_gib(model, row, Recompute::kNone));
      add("activations, selective",
          memory.selective_gib,
          activations_gib(model, row, Recompute::kSelective));
    }
  }
  return predictions;
}

}  // namespace paro::tool
