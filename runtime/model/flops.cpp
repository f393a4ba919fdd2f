#include "model/flops.hpp"

#include <algorithm>

namespace paro {
namespace {

// Tokens that one of a sequence attends to, on average.
double attended(const Attention& attention, double sequence, ScoreCount count) {
  const double reach = attention.reach > 0 ? std::min(attention.reach, sequence) : sequence;
  if (!attention.causal || count == ScoreCount::kAll) {
    return reach;
  }
  // The first `reach` tokens have fewer before them.
  return reach - reach * reach / (2 * sequence);
}

double scores(const Attention& attention, double tokens) {
  return 2 * attention.heads * (attention.head_dim + attention.value_dim) * tokens;
}

}  // namespace

Flops layer_flops(const Transformer& model, const Layer& layer, double sequence, ScoreCount count) {
  Flops flops;
  flops.matrices = 2 * layer_parameters(model.hidden, layer).matrices();
  flops.scores = scores(layer.attention, attended(layer.attention, sequence, count)) +
                 (layer.cross ? scores(layer.attention, sequence) : 0);
  return flops;
}

double head_flops(const Transformer& model) {
  return 2 * model.vocabulary * model.hidden;
}

std::vector<Flops> unit_flops(const Transformer& model, double sequence, ScoreCount count) {
  std::vector<Flops> flops(1);  // the embedding's look-up is none
  for (const Layer& layer : model.layers) {
    flops.push_back(layer_flops(model, layer, sequence, count));
  }
  flops.push_back({head_flops(model), 0});
  return flops;
}

StepFlops step_flops(const Transformer& model,
                     double sequence,
                     double trained_share,
                     Recompute recompute,
                     ScoreCount count,
                     double adapters) {
  StepFlops step;
  step.forward = 2 * adapters;
  step.backward = 4 * adapters;
  for (const Flops& unit : unit_flops(model, sequence, count)) {
    step.forward += unit.total();
    step.backward += unit.matrices * (1 + trained_share) + 2 * unit.scores;
    step.again += recompute == Recompute::kSelective ? unit.scores : 0;
  }
  if (recompute == Recompute::kFull) {
    step.again = step.forward - head_flops(model);
  }
  return step;
}

}  // namespace paro
