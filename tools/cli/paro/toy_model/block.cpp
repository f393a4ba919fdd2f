#include "cli/paro/toy_model/block.hpp"

namespace paro::toy {
namespace {

struct Attended {
  std::vector<float> queries;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> shares;
  std::vector<float> mixed;   // what each token took from the others
  std::vector<float> result;  // x plus its projection

  [[nodiscard]] AttentionInputs inputs() const { return {queries, keys, values}; }
};

LinearShape square(const BlockShape& shape) {
  return {shape.dim, shape.dim};
}

AttentionShape attention_of(const BlockShape& shape) {
  return {shape.sequence, shape.dim};
}

Attended attention(const BlockShape& shape, const BlockArrays<Values>& weights, Values x) {
  Attended run;
  run.result.assign(x.begin(), x.end());
  if (!shape.attention) {
    return run;
  }
  for (auto* const array : {&run.queries, &run.keys, &run.values, &run.mixed}) {
    array->resize(x.size());
  }
  linear(square(shape), weights.query, x, run.queries);
  linear(square(shape), weights.key, x, run.keys);
  linear(square(shape), weights.value, x, run.values);
  run.shares = attention_shares(attention_of(shape), run.inputs());
  attend(attention_of(shape), run.shares, run.values, run.mixed);
  linear(square(shape), weights.output, run.mixed, run.result);
  return run;
}

// dresult, the gradient of the attention's result, becomes that of x.
void attention_backward(const BlockShape& shape,
                        const BlockArrays<Values>& weights,
                        Values x,
                        const Attended& run,
                        std::vector<float>& dresult,
                        const BlockArrays<Sums>& dweights) {
  if (!shape.attention) {
    return;
  }
  std::vector<float> dmixed(x.size());
  std::vector<float> dqueries(x.size());
  std::vector<float> dkeys(x.size());
  std::vector<float> dvalues(x.size());
  linear_backward(square(shape), {weights.output, run.mixed, dresult}, dmixed, dweights.output);
  attend_backward(
      attention_of(shape), run.shares, run.inputs(), dmixed, {dqueries, dkeys, dvalues});
  linear_backward(square(shape), {weights.query, x, dqueries}, dresult, dweights.query);
  linear_backward(square(shape), {weights.key, x, dkeys}, dresult, dweights.key);
  linear_backward(square(shape), {weights.value, x, dvalues}, dresult, dweights.value);
}

// The hidden layer, after tanh.
std::vector<float> hidden_of(const BlockShape& shape,
                             const BlockArrays<Values>& weights,
                             Values attended) {
  std::vector<float> hidden(attended.size() / shape.dim * shape.hidden);
  linear({shape.dim, shape.hidden}, weights.up, attended, hidden);
  bias_rows(weights.up_bias, hidden);
  squash(hidden);
  return hidden;
}

}  // namespace

std::vector<float> block_forward(const BlockShape& shape,
                                 const BlockArrays<Values>& weights,
                                 Values x) {
  Attended run = attention(shape, weights, x);
  const std::vector<float> hidden = hidden_of(shape, weights, run.result);
  linear({shape.hidden, shape.dim}, weights.down, hidden, run.result);
  bias_rows(weights.down_bias, run.result);
  return std::move(run.result);
}

std::vector<float> block_backward(const BlockShape& shape,
                                  const BlockArrays<Values>& weights,
                                  Values x,
                                  Values dresult,
                                  const BlockArrays<Sums>& dweights) {
  const Attended run = attention(shape, weights, x);
  const std::vector<float> hidden = hidden_of(shape, weights, run.result);
  std::vector<float> dx(dresult.begin(), dresult.end());  // the residual paths
  std::vector<float> dhidden(hidden.size());
  bias_rows_backward(dresult, dweights.down_bias);
  linear_backward(
      {shape.hidden, shape.dim}, {weights.down, hidden, dresult}, dhidden, dweights.down);
  squash_backward(hidden, dhidden);
  bias_rows_backward(dhidden, dweights.up_bias);
  linear_backward({shape.dim, shape.hidden}, {weights.up, run.result, dhidden}, dx, dweights.up);
  attention_backward(shape, weights, x, run, dx, dweights);
  return dx;
}

}  // namespace paro::toy
