// Pointers instead of spans inside the loops: builds without optimization and with sanitizers run
// these many thousand times.
#include "cli/paro/toy_model/layers.hpp"

#include <algorithm>
#include <cmath>

namespace paro::toy {
namespace {

float dot(const float* a, const float* b, size_t count) {
  float sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

// to += factor * from
void add_scaled(float factor, const float* from, size_t count, float* to) {
  for (size_t i = 0; i < count; ++i) {
    to[i] += factor * from[i];
  }
}

// Numbers become their softmax.
void softmax(float* numbers, size_t count) {
  const float most = *std::max_element(numbers, numbers + count);
  float sum = 0;
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = std::exp(numbers[i] - most);
    sum += numbers[i];
  }
  for (size_t i = 0; i < count; ++i) {
    numbers[i] /= sum;
  }
}

float score_scale(const AttentionShape& shape) {
  return 1 / std::sqrt(static_cast<float>(shape.dim));
}

// The gradients of one token's shares of itself and those before become those of its scores.
void softmax_backward(const float* shares, size_t count, float* gradients) {
  const float mean = dot(shares, gradients, count);
  for (size_t i = 0; i < count; ++i) {
    gradients[i] = shares[i] * (gradients[i] - mean);
  }
}

}  // namespace

void linear(const LinearShape& shape, Values weights, Values x, Sums y) {
  const size_t rows = x.size() / shape.in;
  for (size_t r = 0; r < rows; ++r) {
    const float* const from = x.data() + r * shape.in;
    float* const to = y.data() + r * shape.out;
    for (size_t o = 0; o < shape.out; ++o) {
      to[o] += dot(weights.data() + o * shape.in, from, shape.in);
    }
  }
}

void linear_backward(const LinearShape& shape, const LinearUse& use, Sums dx, Sums dweights) {
  const size_t rows = use.x.size() / shape.in;
  for (size_t r = 0; r < rows; ++r) {
    const float* const x = use.x.data() + r * shape.in;
    const float* const dy = use.dy.data() + r * shape.out;
    for (size_t o = 0; o < shape.out; ++o) {
      add_scaled(dy[o], use.weights.data() + o * shape.in, shape.in, dx.data() + r * shape.in);
      add_scaled(dy[o], x, shape.in, dweights.data() + o * shape.in);
    }
  }
}

void bias_rows(Values bias, Sums y) {
  for (size_t at = 0; at < y.size(); at += bias.size()) {
    add_scaled(1, bias.data(), bias.size(), y.data() + at);
  }
}

void bias_rows_backward(Values dy, Sums dbias) {
  for (size_t at = 0; at < dy.size(); at += dbias.size()) {
    add_scaled(1, dy.data() + at, dbias.size(), dbias.data());
  }
}

void squash(Sums x) {
  for (float& value : x) {
    value = std::tanh(value);
  }
}

void squash_backward(Values squashed, Sums gradient) {
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] *= 1 - squashed[i] * squashed[i];
  }
}

std::vector<float> attention_shares(const AttentionShape& shape, const AttentionInputs& inputs) {
  const size_t tokens = inputs.queries.size() / shape.dim;
  const float scale = score_scale(shape);
  std::vector<float> shares(tokens * shape.sequence);
  for (size_t token = 0; token < tokens; ++token) {
    const size_t position = token % shape.sequence;
    const float* const query = inputs.queries.data() + token * shape.dim;
    const float* const keys = inputs.keys.data() + (token - position) * shape.dim;
    float* const row = shares.data() + token * shape.sequence;
    for (size_t other = 0; other <= position; ++other) {
      row[other] = scale * dot(query, keys + other * shape.dim, shape.dim);
    }
    softmax(row, position + 1);
  }
  return shares;
}

void attend(const AttentionShape& shape, Values shares, Values values, Sums result) {
  const size_t tokens = values.size() / shape.dim;
  for (size_t token = 0; token < tokens; ++token) {
    const size_t position = token % shape.sequence;
    const float* const sample = values.data() + (token - position) * shape.dim;
    for (size_t other = 0; other <= position; ++other) {
      add_scaled(shares[token * shape.sequence + other],
                 sample + other * shape.dim,
                 shape.dim,
                 result.data() + token * shape.dim);
    }
  }
}

void attend_backward(const AttentionShape& shape,
                     Values shares,
                     const AttentionInputs& inputs,
                     Values dresult,
                     const AttentionGradients& gradients) {
  const size_t dim = shape.dim;
  const size_t tokens = dresult.size() / dim;
  const float scale = score_scale(shape);
  std::vector<float> dscores(shape.sequence);
  for (size_t token = 0; token < tokens; ++token) {
    const size_t position = token % shape.sequence;
    const size_t sample = (token - position) * dim;
    const float* const row = shares.data() + token * shape.sequence;
    const float* const dout = dresult.data() + token * dim;
    for (size_t other = 0; other <= position; ++other) {
      const size_t at = sample + other * dim;
      dscores[other] = dot(dout, inputs.values.data() + at, dim);
      add_scaled(row[other], dout, dim, gradients.values.data() + at);
    }
    softmax_backward(row, position + 1, dscores.data());
    for (size_t other = 0; other <= position; ++other) {
      const size_t at = sample + other * dim;
      const float score = scale * dscores[other];
      add_scaled(score, inputs.keys.data() + at, dim, gradients.queries.data() + token * dim);
      add_scaled(score, inputs.queries.data() + token * dim, dim, gradients.keys.data() + at);
    }
  }
}

double cross_entropy(Values logits, std::span<const uint32_t> targets) {
  const size_t choices = logits.size() / targets.size();
  double sum = 0;
  for (size_t token = 0; token < targets.size(); ++token) {
    const float* const row = logits.data() + token * choices;
    const auto most = static_cast<double>(*std::max_element(row, row + choices));
    double total = 0;
    for (size_t c = 0; c < choices; ++c) {
      total += std::exp(static_cast<double>(row[c]) - most);
    }
    sum += std::log(total) + most - static_cast<double>(row[targets[token]]);
  }
  return sum / static_cast<double>(targets.size());
}

void cross_entropy_backward(Values logits,
                            std::span<const uint32_t> targets,
                            double factor,
                            Sums dlogits) {
  const size_t choices = logits.size() / targets.size();
  // Two factors: a scale that is a power of two changes exponents only, whatever the batch.
  const auto by = static_cast<float>(factor);
  const auto tokens = static_cast<float>(targets.size());
  std::vector<float> shares(choices);
  for (size_t token = 0; token < targets.size(); ++token) {
    const float* const row = logits.data() + token * choices;
    std::copy_n(row, choices, shares.data());
    softmax(shares.data(), choices);
    shares[targets[token]] -= 1;
    for (size_t c = 0; c < choices; ++c) {
      dlogits[token * choices + c] += by * (shares[c] / tokens);
    }
  }
}

}  // namespace paro::toy
