// Inside a unit all arrays lie in one, in the order of Unit::arrays: that is how the maths sees
// weights and their gradients. This file takes them apart into trained and frozen ones and back.
#include "cli/paro/toy_model/toy_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "cli/paro/toy_model/block.hpp"
#include "cli/paro/toy_model/draw.hpp"
#include "cli/paro/toy_model/layers.hpp"
#include "reduce/reduce.hpp"

namespace paro::toy {
namespace {

// Numbers that keep the draws for weights and those for data apart.
constexpr uint64_t kForWeights = 1;
constexpr uint64_t kForData = 2;

float reach_for(uint32_t in) {
  return 1 / std::sqrt(static_cast<float>(in));
}

const std::byte* at(const void* base, ho::DType dtype, size_t element) {
  return static_cast<const std::byte*>(base) + element * ho::size_bytes(dtype);
}

void widen(ho::DType dtype, const void* base, size_t begin, std::span<float> to) {
  if (dtype == ho::DType::kFloat32) {
    std::memcpy(to.data(), at(base, dtype, begin), to.size_bytes());
  } else {
    ho::widen(dtype, to.data(), at(base, dtype, begin), to.size());
  }
}

void add_rounded(ho::DType dtype, std::span<const float> from, void* to) {
  if (dtype == ho::DType::kFloat32) {
    ho::reduce(dtype, ho::ReduceOp::kSum, to, to, from.data(), from.size());
    return;
  }
  std::vector<float> sums(from.size());
  ho::reduce_widening(dtype, ho::ReduceOp::kSum, sums.data(), from.data(), to, from.size());
  ho::narrow(dtype, to, sums.data(), sums.size());
}

// The order of Model::block_arrays.
template <typename Span>
BlockArrays<Span> cut_block(const BlockShape& shape, Span all) {
  size_t begin = 0;
  const auto next = [&](size_t count) {
    const Span part = all.subspan(begin, count);
    begin += count;
    return part;
  };
  const size_t dim = shape.dim;
  const size_t square = shape.attention ? dim * dim : 0;
  BlockArrays<Span> arrays;
  arrays.up = next(shape.hidden * dim);
  arrays.up_bias = next(shape.hidden);
  arrays.down = next(dim * shape.hidden);
  arrays.down_bias = next(dim);
  arrays.query = next(square);
  arrays.key = next(square);
  arrays.value = next(square);
  arrays.output = next(square);
  return arrays;
}

BlockShape block_shape(const Configuration& c) {
  return {c.sequence, c.dim, c.hidden, c.attention};
}

// How much of a block's result is its own work; the rest is its input. One step moves all blocks
// the same way, so that a deep model whose blocks had their full effect would diverge.
float block_share(const Configuration& c) {
  constexpr uint32_t kMaxWholeBlocks = 4;
  return c.blocks <= kMaxWholeBlocks
             ? 1
             : static_cast<float>(kMaxWholeBlocks) / static_cast<float>(c.blocks);
}

std::vector<float> scaled(std::span<const float> values, float factor) {
  std::vector<float> results(values.begin(), values.end());
  for (float& result : results) {
    result *= factor;
  }
  return results;
}

void add_scaled(std::span<const float> values, float factor, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] += factor * values[i];
  }
}

ho::Status refuse(const std::string& what) {
  return ho::invalid("toy model: " + what);
}

ho::Status check_size(const char* name, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) {
    return {};
  }
  return refuse(std::string(name) + " is " + std::to_string(value) + "; allowed is " +
                std::to_string(least) + " to " + std::to_string(most));
}

size_t unit_count(const Configuration& c) {
  return size_t{2} + c.blocks + (c.gain ? 1 : 0);
}

}  // namespace

ho::Status check(const Configuration& c) {
  constexpr uint32_t kMax = 1U << 16;
  HORING_TRY(check_size("vocabulary", c.vocabulary, 2, kMax));
  HORING_TRY(check_size("dim", c.dim, 1, kMax));
  HORING_TRY(check_size("hidden", c.hidden, 1, kMax));
  HORING_TRY(check_size("blocks", c.blocks, 0, kMax));
  HORING_TRY(check_size("sequence", c.sequence, 1, kMax));
  if (!(c.noise >= 0 && c.noise <= 1)) {
    return refuse("noise is " + std::to_string(c.noise) + "; allowed is 0 to 1");
  }
  if (c.poison && c.poison->unit >= unit_count(c)) {
    return refuse("the poison is for unit " + std::to_string(c.poison->unit) + ", of " +
                  std::to_string(unit_count(c)));
  }
  const bool head = c.poison && c.poison->unit + 1 == unit_count(c);
  if (c.poison && c.freeze_embedding && (c.poison->unit == 0 || (head && c.tie_head))) {
    return refuse("the poison is for the embedding, which is frozen and has no gradient");
  }
  return {};
}

ho::Result<Model> Model::make(const Configuration& configuration) {
  HORING_TRY(check(configuration));
  return Model(configuration);
}

Model::Model(const Configuration& configuration) : configuration_(configuration) {
  const Configuration& c = configuration_;
  const size_t table = size_t{c.vocabulary} * c.dim;
  add_unit(
      "embedding", Kind::kEmbedding, {{.count = table, .reach = 1, .frozen = c.freeze_embedding}});
  for (uint32_t b = 0; b < c.blocks; ++b) {
    add_unit("block " + std::to_string(b), Kind::kBlock, block_arrays());
  }
  if (c.gain) {
    add_unit("gain", Kind::kGain, {{.count = 1, .middle = 1}});
  }
  add_head();
}

void Model::add_head() {
  const Configuration& c = configuration_;
  const size_t table = size_t{c.vocabulary} * c.dim;
  add_unit(
      "head",
      Kind::kHead,
      {{.count = table, .reach = reach_for(c.dim), .frozen = c.tie_head && c.freeze_embedding}});
  if (c.tie_head) {
    counts_.back() = {"head", 0, 0, 0};
  }
}

std::vector<Model::Array> Model::block_arrays() const {
  const Configuration& c = configuration_;
  const size_t product = size_t{c.dim} * c.hidden;
  std::vector<Array> arrays{
      {.count = product, .reach = reach_for(c.dim), .frozen = c.freeze_up},
      {.count = c.hidden, .reach = 0.1F, .frozen = c.freeze_up},
      {.count = product, .reach = reach_for(c.hidden)},
      {.count = c.dim, .reach = 0.1F},
  };
  if (c.attention) {
    arrays.insert(arrays.end(), 4, {.count = size_t{c.dim} * c.dim, .reach = reach_for(c.dim)});
  }
  return arrays;
}

void Model::add_unit(std::string name, Kind kind, std::vector<Array> arrays) {
  Unit unit{kind, std::move(arrays), 0};
  UnitCounts counts{std::move(name)};
  for (Array& array : unit.arrays) {
    array.begin = unit.count;
    unit.count += array.count;
    (array.frozen ? counts.frozen : counts.trained) += array.count;
  }
  units_.push_back(std::move(unit));
  counts_.push_back(std::move(counts));
}

void Model::initial(size_t unit, std::span<float> trained, std::span<float> frozen) const {
  if (counts_[unit].shares) {
    return;
  }
  size_t next_trained = 0;
  size_t next_frozen = 0;
  for (const Array& array : units_[unit].arrays) {
    for (size_t i = 0; i < array.count; ++i) {
      const uint64_t bits = draw({configuration_.seed, kForWeights, unit, array.begin + i});
      const float value = array.middle + array.reach * (2 * fraction(bits) - 1);
      (array.frozen ? frozen[next_frozen++] : trained[next_trained++]) = value;
    }
  }
}

Batch Model::batch_of(uint64_t step, const Samples& samples) const {
  const Configuration& c = configuration_;
  Batch batch;
  for (uint64_t sample = samples.first; sample < samples.first + samples.count; ++sample) {
    auto token =
        static_cast<uint32_t>(draw({c.seed, kForData, step, sample}) % uint64_t{c.vocabulary});
    for (uint64_t position = 1; position <= c.sequence; ++position) {
      batch.tokens.push_back(token);
      const uint64_t bits = draw({c.seed, kForData, step, sample, position});
      const bool strays = static_cast<double>(fraction(bits)) < c.noise;
      const uint64_t next = strays ? bits : uint64_t{3} * token + 1;
      token = static_cast<uint32_t>(next % c.vocabulary);
      batch.targets.push_back(token);
    }
  }
  if (c.poison && c.poison->step == step && c.poison->sample >= samples.first &&
      c.poison->sample - samples.first < samples.count) {
    batch.poisoned = c.poison->unit;
  }
  return batch;
}

Pass Model::begin(Batch batch) const {
  Pass pass{std::move(batch)};
  pass.inputs.resize(units_.size());
  return pass;
}

std::vector<float> Model::widened(const Unit& unit, const Parameters& parameters) const {
  std::vector<float> all(unit.count);
  size_t trained = 0;
  size_t frozen = 0;
  for (const Array& array : unit.arrays) {
    size_t& next = array.frozen ? frozen : trained;
    widen(parameters.dtype,
          array.frozen ? parameters.frozen : parameters.trained,
          next,
          std::span(all).subspan(array.begin, array.count));
    next += array.count;
  }
  return all;
}

void Model::add(const Unit& unit, std::span<const float> from, const Gradients& to) {
  auto* next = static_cast<std::byte*>(to.trained);
  for (const Array& array : unit.arrays) {
    if (!array.frozen) {
      add_rounded(to.dtype, from.subspan(array.begin, array.count), next);
      next += array.count * ho::size_bytes(to.dtype);
    }
  }
}

void Model::forward(size_t unit, const Parameters& parameters, Pass& pass) const {
  const std::vector<float> weights = widened(units_[unit], parameters);
  pass.inputs[unit] = std::exchange(pass.flow, {});
  pass.flow = result_of(units_[unit], weights, pass.inputs[unit], pass);
}

std::vector<float> Model::result_of(const Unit& unit,
                                    std::span<const float> weights,
                                    std::span<const float> x,
                                    Pass& pass) const {
  const Configuration& c = configuration_;
  switch (unit.kind) {
    case Kind::kEmbedding: {
      std::vector<float> rows;
      rows.reserve(pass.batch.tokens.size() * c.dim);
      for (const uint32_t token : pass.batch.tokens) {
        const auto row = weights.subspan(size_t{token} * c.dim, c.dim);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      return rows;
    }
    case Kind::kBlock: {
      const BlockShape shape = block_shape(c);
      const float share = block_share(c);
      auto result = scaled(block_forward(shape, cut_block(shape, weights), x), share);
      add_scaled(x, 1 - share, result);
      return result;
    }
    case Kind::kGain: {
      return scaled(x, weights[0]);
    }
    case Kind::kHead:
      break;
  }
  std::vector<float> logits(pass.batch.tokens.size() * c.vocabulary);
  linear({c.dim, c.vocabulary}, weights, x, logits);
  pass.loss = cross_entropy(logits, pass.batch.targets);
  return logits;
}

void Model::backward(size_t unit,
                     const Parameters& parameters,
                     const Gradients& gradients,
                     Pass& pass,
                     double loss_scale) const {
  const std::vector<float> weights = widened(units_[unit], parameters);
  std::vector<float> dweights(weights.size());
  gradients_of(unit, weights, dweights, pass, loss_scale);
  if (pass.batch.poisoned == unit) {
    spoil_first(units_[unit], dweights);
  }
  add(units_[unit], dweights, gradients);
}

void Model::spoil_first(const Unit& unit, std::span<float> dweights) {
  const auto trained = std::find_if(
      unit.arrays.begin(), unit.arrays.end(), [](const Array& array) { return !array.frozen; });
  if (trained != unit.arrays.end()) {
    dweights[trained->begin] = std::numeric_limits<float>::infinity();
  }
}

void Model::gradients_of(size_t unit,
                         std::span<const float> weights,
                         std::span<float> dweights,
                         Pass& pass,
                         double loss_scale) const {
  const Configuration& c = configuration_;
  const Values x = pass.inputs[unit];
  const std::vector<float> dresult = std::exchange(pass.flow, {});
  switch (units_[unit].kind) {
    case Kind::kEmbedding:
      for (size_t i = 0; i < pass.batch.tokens.size(); ++i) {
        for (size_t d = 0; d < c.dim; ++d) {
          dweights[size_t{pass.batch.tokens[i]} * c.dim + d] += dresult[i * c.dim + d];
        }
      }
      return;
    case Kind::kBlock: {
      const BlockShape shape = block_shape(c);
      const auto cut = cut_block(shape, weights);
      const float share = block_share(c);
      pass.flow = block_backward(shape, cut, x, scaled(dresult, share), cut_block(shape, dweights));
      add_scaled(dresult, 1 - share, pass.flow);
      return;
    }
    case Kind::kGain:
      pass.flow.resize(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        dweights[0] += dresult[i] * x[i];
        pass.flow[i] = weights[0] * dresult[i];
      }
      return;
    case Kind::kHead:
      break;
  }
  std::vector<float> dlogits(dresult.size());
  cross_entropy_backward(dresult, pass.batch.targets, loss_scale, dlogits);
  pass.flow.resize(x.size());
  linear_backward({c.dim, c.vocabulary}, {weights, x, dlogits}, pass.flow, dweights);
}

}  // namespace paro::toy
