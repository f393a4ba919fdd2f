#include "model/transformer.hpp"

namespace paro {
namespace {

double attention_matrices(double hidden, const Attention& attention) {
  const double of_queries = attention.heads * attention.head_dim;
  const double of_values = attention.heads * attention.value_dim;
  const double queries =
      attention.query_rank > 0 ? attention.query_rank * (hidden + of_queries) : hidden * of_queries;
  const double keys_and_values =
      attention.kv_rank > 0
          ? hidden * (attention.kv_rank + attention.rope_dim) +
                attention.kv_rank * (of_queries - attention.heads * attention.rope_dim + of_values)
          : hidden * attention.kv_heads * (attention.head_dim + attention.value_dim);
  return queries + keys_and_values + of_values * hidden;
}

}  // namespace

LayerParameters layer_parameters(double hidden, const Layer& layer) {
  const double matrices = layer.gated ? 3 : 2;
  const Experts& experts = layer.experts;
  const double expert = matrices * hidden * experts.width;
  LayerParameters parameters;
  parameters.attention = attention_matrices(hidden, layer.attention) * (layer.cross ? 2 : 1);
  parameters.feed_forward = matrices * hidden * (layer.width + experts.shared_width);
  parameters.router = hidden * experts.count;
  parameters.routed = experts.count * (expert + experts.vectors);
  parameters.routed_active = experts.active * expert;
  parameters.vectors = layer.vectors;
  return parameters;
}

std::vector<ModelUnit> units_of(const Transformer& model) {
  const double matrix = model.vocabulary * model.hidden;
  std::vector<ModelUnit> units;
  units.push_back({UnitKind::kEmbedding, model.embedding, 0, 0});
  for (const Layer& layer : model.layers) {
    const LayerParameters parameters = layer_parameters(model.hidden, layer);
    units.push_back({UnitKind::kLayer, parameters.total(), parameters.routed, 0});
  }
  units.push_back(
      {UnitKind::kHead, model.head_own + (model.tied ? 0 : matrix), 0, model.tied ? matrix : 0});
  return units;
}

ModelParameters parameters_of(const Transformer& model) {
  ModelParameters sum;
  for (const ModelUnit& unit : units_of(model)) {
    sum.total += unit.parameters;
    sum.routed += unit.routed;
  }
  sum.active = sum.total;
  for (const Layer& layer : model.layers) {
    const Experts& experts = layer.experts;
    if (experts.count > 0) {
      const double routed = layer_parameters(model.hidden, layer).routed;
      sum.active -= routed * (1 - experts.active / experts.count);
    }
  }
  return sum;
}

}  // namespace paro
