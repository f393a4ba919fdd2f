#include "model/activations.hpp"

#include <algorithm>
#include <cmath>

namespace paro {
namespace {

constexpr double kMask = 1;  // bytes
constexpr double kWide = 4;

// Bytes of one token.
struct Kept {
  double shared = 0;  // tensor parallelism alone does not split it
  double split = 0;
  double core = 0;
};

void add(
    Kept& kept, const Transformer& model, const Attention& attention, double value, double scores) {
  const double of_queries = attention.heads * attention.head_dim;
  const double of_values = attention.heads * attention.value_dim;
  kept.shared += value * 2 * model.hidden + (model.dropout ? kMask * model.hidden : 0);
  // Of latent attention, inputs of norms and of the matrices behind them.
  kept.shared += value * 2 * (attention.query_rank + attention.kv_rank);
  kept.shared += value * (attention.kv_rank > 0 ? attention.rope_dim : 0);
  kept.split += value * (of_queries + of_values);
  kept.split += attention.kv_rank > 0
                    ? value * (of_queries + of_values)
                    : value * attention.kv_heads * (attention.head_dim + attention.value_dim);
  kept.core += attention.heads * scores;
}

void add_feed_forward(Kept& kept, const Transformer& model, const Layer& layer, double value) {
  const Experts& experts = layer.experts;
  const double tensors = layer.gated ? 3 : 2;
  kept.shared += value * 2 * model.hidden + (model.dropout ? kMask * model.hidden : 0);
  // Logits and probabilities of a router, and what goes to experts and comes from them.
  kept.shared += kWide * 2 * experts.count + value * 2 * experts.active * model.hidden;
  kept.split +=
      value * tensors * (layer.width + experts.shared_width + experts.active * experts.width);
}

// Bytes of one head's scores of a token.
double score_bytes(const Transformer& model, const ActivationShape& shape) {
  if (shape.recompute != Recompute::kNone) {
    return 0;
  }
  const double with_masks = model.dropout ? kMask + shape.value_bytes : 0;
  return shape.stores_scores ? (shape.value_bytes + with_masks) * shape.sequence : kWide;
}

double tokens(const ActivationShape& shape) {
  return shape.sequence * shape.micro_batch / shape.context;
}

double shared_by(const ActivationShape& shape) {
  return shape.sequence_parallel ? shape.tensor : 1;
}

}  // namespace

double layer_activations(const Transformer& model,
                         const Layer& layer,
                         const ActivationShape& shape) {
  Kept kept;
  if (shape.recompute == Recompute::kFull) {
    return tokens(shape) * shape.value_bytes * model.hidden / shared_by(shape);
  }
  const double scores = score_bytes(model, shape);
  add(kept, model, layer.attention, shape.value_bytes, scores);
  if (layer.cross) {
    add(kept, model, layer.attention, shape.value_bytes, scores);
  }
  add_feed_forward(kept, model, layer, shape.value_bytes);
  return tokens(shape) * (kept.shared / shared_by(shape) + (kept.split + kept.core) / shape.tensor);
}

double head_activations(const Transformer& model, const ActivationShape& shape) {
  return tokens(shape) * (shape.value_bytes * 2 * model.hidden + kWide * model.vocabulary) /
         shape.tensor;
}

double longest_stage(double layers, const PipelineShape& pipeline) {
  const double parts = pipeline.stages * pipeline.parts;
  return layers > 0 ? std::ceil(layers / parts) * parts / layers : 1;
}

double kept_share(const PipelineShape& pipeline) {
  const double stages = pipeline.stages;
  const double full = 1 + (pipeline.parts > 1 ? (stages - 1) / (stages * pipeline.parts) : 0);
  return std::min(full, pipeline.micro_batches / stages);
}

double peak_activations(const Transformer& model,
                        const ActivationShape& shape,
                        const PipelineShape& pipeline) {
  double layers = 0;
  double largest = 0;  // of layers while they are computed again
  ActivationShape again = shape;
  again.recompute = Recompute::kNone;
  for (const Layer& layer : model.layers) {
    layers += layer_activations(model, layer, shape);
    largest = std::max(largest, layer_activations(model, layer, again));
  }
  const double stage = longest_stage(static_cast<double>(model.layers.size()), pipeline);
  const double kept = layers * kept_share(pipeline) * stage;
  const double mask = model.dropout ? kMask * model.hidden * tokens(shape) / shared_by(shape) : 0;
  const double under_way = std::min(pipeline.stages, pipeline.micro_batches);
  const double beside = shape.recompute == Recompute::kFull ? largest : 0;
  const double first = kept + mask * under_way + beside;
  // The last stage has one micro-batch under way.
  const double last = layers / pipeline.stages * stage + head_activations(model, shape);
  return std::max(first, last);
}

}  // namespace paro
