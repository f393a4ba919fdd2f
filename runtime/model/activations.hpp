// Bytes of activations that a rank keeps for the backward pass, tensor by tensor. Pure.
//
// Activations have 16 bits, dropout masks 8, a router's logits and those of the head 32. Of one
// token and one layer of hidden size h, a rank keeps
//
//   inputs of both norms 2 x 2h, of attention's and the feed-forward part's first matrices 2 x 2h,
//   two dropout masks 2 x h (where the model has dropout)                                   shared
//   queries 2 a d, keys and values 2 x 2 a' d, the last matrix' input 2 a d,
//   the feed-forward part's own: 2 x 2w, of gated ones 3 x 2w (gate, up, product)           split
//   attention's core: scores, of which s of each head: 2 a s, with dropout 5 a s            split
//
// which for GPT's h = a d = a' d and w = 4h is 10h + 24h + 5 a s, the s b h (34 + 5 a s / h) of
// Korthikanti et al. (arXiv 2205.05198). Tensor parallelism over t ranks splits what is marked so,
// with sequence parallelism all. A kernel that never stores scores (FlashAttention) keeps 4 bytes
// of each head instead, recomputation of the core nothing; full recomputation a layer's input, 2h.
#pragma once

#include <cstdint>

#include "model/flops.hpp"
#include "model/transformer.hpp"

namespace paro {

struct ActivationShape {
  double sequence = 0;
  double micro_batch = 1;
  double value_bytes = 2;  // of an element of activations; 4 in fp32 and tf32
  double tensor = 1;       // t, ranks
  double context = 1;      // ranks that share a sequence
  bool sequence_parallel = false;
  bool stores_scores = false;  // attention without a fused kernel
  Recompute recompute = Recompute::kNone;
};

[[nodiscard]] double layer_activations(const Transformer& model,
                                       const Layer& layer,
                                       const ActivationShape& shape);

// The head's: inputs of its norm and its matrix, and logits: s b (4h + 4V) / t.
[[nodiscard]] double head_activations(const Transformer& model, const ActivationShape& shape);

// Where the layers are in a pipeline.
struct PipelineShape {
  double stages = 1;         // p
  double parts = 1;          // v, of a stage's layers, interleaved
  double micro_batches = 1;  // of a step
};

// How much longer the longest of a stage's parts is than all are on average, where parts do not
// divide the layers: 1 or more.
[[nodiscard]] double longest_stage(double layers, const PipelineShape& pipeline);

// Layers of all micro-batches under way on the first stage, which has the most, for each layer of
// the model: 1 where there is no pipeline or it is full (1F1B), 1 + (p - 1) / (p v) interleaved.
[[nodiscard]] double kept_share(const PipelineShape& pipeline);

// The most that a rank keeps: the layers' and the embedding's mask, and beside them the head's (in
// a pipeline the last stage's, which keeps fewer layers) or, with full recomputation, what one
// layer needs while it is computed again, whichever is more.
[[nodiscard]] double peak_activations(const Transformer& model,
                                      const ActivationShape& shape,
                                      const PipelineShape& pipeline);

}  // namespace paro
