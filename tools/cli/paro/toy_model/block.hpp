// A block of the toy model: causal attention with a residual path (if it has any), then two linear
// maps with tanh between them, with a residual path. Pure.
//
// Nothing is kept between forward and backward but the block's input: the backward computes what
// lies between once more, as frameworks do that trade time for memory.
#pragma once

#include <vector>

#include "cli/paro/toy_model/layers.hpp"

namespace paro::toy {

struct BlockShape {
  size_t sequence = 0;
  size_t dim = 0;
  size_t hidden = 0;
  bool attention = true;
};

// One span for each of a block's arrays; the last four are empty without attention.
template <typename Span>
struct BlockArrays {
  Span up;         // hidden x dim
  Span up_bias;    // hidden
  Span down;       // dim x hidden
  Span down_bias;  // dim
  Span query;      // dim x dim, and so the others
  Span key;
  Span value;
  Span output;
};

[[nodiscard]] std::vector<float> block_forward(const BlockShape& shape,
                                               const BlockArrays<Values>& weights,
                                               Values x);

// The gradient of x, from that of the result; adds to those of the weights.
[[nodiscard]] std::vector<float> block_backward(const BlockShape& shape,
                                                const BlockArrays<Values>& weights,
                                                Values x,
                                                Values dresult,
                                                const BlockArrays<Sums>& dweights);

}  // namespace paro::toy
