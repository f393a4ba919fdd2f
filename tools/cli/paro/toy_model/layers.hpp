// The layers of the toy model, forward and backward, in fp32. Pure.
//
// Arrays are row-major, a row per token; the tokens of a sample are neighbours. Every function adds
// to its results, which makes residual paths and several uses of one array plain: callers begin
// with zeros. Backward functions take the gradient of their forward function's result and add to
// the gradients of its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paro::toy {

using Values = std::span<const float>;
using Sums = std::span<float>;

// `out` rows of `in` weights each.
struct LinearShape {
  size_t in = 0;
  size_t out = 0;
};

// y = x transpose(weights)
void linear(const LinearShape& shape, Values weights, Values x, Sums y);
// What linear() was given, and its result's gradient.
struct LinearUse {
  Values weights;
  Values x;
  Values dy;
};
void linear_backward(const LinearShape& shape, const LinearUse& use, Sums dx, Sums dweights);

// Adds `bias` to every row, or every row to `bias`'s gradient.
void bias_rows(Values bias, Sums y);
void bias_rows_backward(Values dy, Sums dbias);

// In place; the backward takes the results and turns the gradient into that of the arguments.
void squash(Sums x);
void squash_backward(Values squashed, Sums gradient);

// A single head; each token attends to itself and to those before it in its sample.
struct AttentionShape {
  size_t sequence = 0;
  size_t dim = 0;
};
struct AttentionInputs {
  Values queries;
  Values keys;
  Values values;
};
struct AttentionGradients {
  Sums queries;
  Sums keys;
  Sums values;
};
// What each token takes from each (sequence numbers per token), zeros for those after it.
[[nodiscard]] std::vector<float> attention_shares(const AttentionShape& shape,
                                                  const AttentionInputs& inputs);
void attend(const AttentionShape& shape, Values shares, Values values, Sums result);
void attend_backward(const AttentionShape& shape,
                     Values shares,
                     const AttentionInputs& inputs,
                     Values dresult,
                     const AttentionGradients& gradients);

// The mean over the tokens of -log softmax(logits)[target].
[[nodiscard]] double cross_entropy(Values logits, std::span<const uint32_t> targets);
// Of `factor` times that mean.
void cross_entropy_backward(Values logits,
                            std::span<const uint32_t> targets,
                            double factor,
                            Sums dlogits);

}  // namespace paro::toy
