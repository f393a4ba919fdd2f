// Floating-point operations of a transformer's step, per token. Pure.
//
// A matrix of n parameters takes 2 n for a token, and attention 2 (d_k + d_v) for each head and
// each token that one attends to: s tokens of a sequence of s, or half of them where attention is
// causal and its kernel leaves out the other half. A routed layer counts the experts that a token
// is sent to. Norms, activations and the embedding's look-up are left out, as everywhere (Megatron,
// arXiv 2104.04473; PaLM, arXiv 2204.02311).
//
// The backward pass takes as much again for the inputs' gradients, and as much for those of the
// parameters that are trained. So all of it is three forward passes, or next to two where nearly
// all is frozen. Adapters beside frozen matrices (LoRA, arXiv 2106.09685: two of rank r beside one)
// are matrices of their own, all trained: 2 of each parameter forward, and 4 backward.
#pragma once

#include <cstdint>

#include "model/transformer.hpp"

namespace paro {

// What the backward pass computes again rather than keep: nothing, the core of attention (scores,
// softmax, and what they multiply), or all but each layer's input.
enum class Recompute : uint8_t { kNone, kSelective, kFull };

// Which scores count: those that kernels for causal attention compute, or all, as most published
// figures for a model's FLOPs have it.
enum class ScoreCount : uint8_t { kCausal, kAll };

struct Flops {
  double matrices = 0;
  double scores = 0;  // attention's core
  [[nodiscard]] double total() const { return matrices + scores; }
};

// Forward, of one token in a sequence of `sequence`.
[[nodiscard]] Flops layer_flops(const Transformer& model,
                                const Layer& layer,
                                double sequence,
                                ScoreCount count);
[[nodiscard]] double head_flops(const Transformer& model);
// Of the units of units_of(), in its order.
[[nodiscard]] std::vector<Flops> unit_flops(const Transformer& model,
                                            double sequence,
                                            ScoreCount count);

// Of one token, forward and backward.
struct StepFlops {
  double forward = 0;
  double backward = 0;
  double again = 0;  // recomputed
  [[nodiscard]] double model() const { return forward + backward; }
  [[nodiscard]] double executed() const { return model() + again; }
};
// `trained_share`: of the model's parameters, those that are trained. `adapters`: parameters beside
// them.
[[nodiscard]] StepFlops step_flops(const Transformer& model,
                                   double sequence,
                                   double trained_share,
                                   Recompute recompute,
                                   ScoreCount count,
                                   double adapters = 0);

}  // namespace paro
