// A small libtorch model, its data, and how torch alone trains it in one process. libtorch's
// headers take a minute to compile: one file includes this.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <paro/torch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace paro::test {

using paro::torch_model::ParamGroup;
using paro::torch_model::Part;

inline constexpr int64_t kVocabulary = 11;
inline constexpr int64_t kWidth = 6;
inline constexpr int64_t kRows = 2;  // of a micro-batch
inline constexpr int64_t kTokens = 5;
inline constexpr uint32_t kMicroBatches = 2;
inline constexpr uint32_t kSteps = 6;
inline constexpr uint32_t kRanks = 4;

struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})))),
        up(register_module("up", torch::nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", torch::nn::Linear(4 * kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(Block);

// A head whose weight is the embedding's, with a norm of its own if wanted.
struct TiedHeadImpl : torch::nn::Module {
  TiedHeadImpl(const torch::Tensor& of, bool with_norm) : weight(register_parameter("weight", of)) {
    if (with_norm) {
      norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::linear(norm.is_empty() ? x : norm(x), weight);
  }
  torch::Tensor weight;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(TiedHead);

// What the embedding's weight says of its own scores.
struct MixerImpl : torch::nn::Module {
  explicit MixerImpl(const torch::Tensor& of)
      : scale(register_parameter("scale", torch::ones({kWidth}))),
        weight(register_parameter("weight", of)) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return x + torch::matmul(torch::linear(x * scale, weight), weight);
  }
  torch::Tensor scale;
  torch::Tensor weight;
};
TORCH_MODULE(Mixer);

enum class Tie { kNone, kHead, kHeadWithNorm, kMixerAndHead };

struct Shape {
  bool frozen_embedding = false;
  Tie tie = Tie::kNone;
};

// The same values wherever it is made.
inline std::vector<Part> parts_of(const Shape& shape) {
  torch::nn::Embedding embedding(kVocabulary, kWidth);
  Block first;
  Block second;
  torch::nn::Linear head(kWidth, kVocabulary);
  std::vector<Part> parts{
      {"embedding", embedding.ptr(), [embedding](const auto& x) mutable { return embedding(x); }},
      {"first", first.ptr(), [first](const auto& x) mutable { return first(x); }},
      {"second", second.ptr(), [second](const auto& x) mutable { return second(x); }},
      {"head", head.ptr(), [head](const auto& x) mutable { return head(x); }}};
  if (shape.tie != Tie::kNone) {
    TiedHead tied(embedding->weight, shape.tie == Tie::kHeadWithNorm);
    parts.back() = {"head", tied.ptr(), [tied](const auto& x) mutable { return tied(x); }};
  }
  if (shape.tie == Tie::kMixerAndHead) {
    Mixer mixer(embedding->weight);
    parts[2] = {"mixer", mixer.ptr(), [mixer](const auto& x) mutable { return mixer(x); }};
  }
  const torch::NoGradGuard no_grad;
  double next = 0;
  for (const Part& part : parts) {
    for (torch::Tensor& parameter : part.module->parameters()) {
      const torch::Tensor indices = torch::arange(parameter.numel(), torch::kFloat32) + next;
      parameter.copy_((torch::sin(indices * 0.7) * 0.3).view(parameter.sizes()));
      next += static_cast<double>(parameter.numel());
    }
  }
  if (shape.frozen_embedding) {
    embedding->weight.set_requires_grad(false);
  }
  return parts;
}

inline torch::Tensor tokens_of(uint64_t step, uint32_t micro_batch, uint32_t rank) {
  const auto first = static_cast<int64_t>((step * kMicroBatches + micro_batch) * kRanks + rank);
  const torch::Tensor indices = torch::arange(kRows * (kTokens + 1)) + first * 7;
  return ((indices * indices + indices * 3) % kVocabulary).view({kRows, kTokens + 1});
}

inline torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& tokens) {
  return torch::nn::functional::cross_entropy(scores.reshape({-1, kVocabulary}).to(torch::kFloat32),
                                              tokens.narrow(1, 1, kTokens).reshape({-1}));
}

inline torch::Tensor inputs_of(const torch::Tensor& tokens) {
  return tokens.narrow(1, 0, kTokens).contiguous();
}

struct Reference {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;  // of trained parameters, by name
};

inline bool contains(const std::vector<torch::Tensor>& tensors, const torch::Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& other) {
    return other.is_same(tensor);
  });
}

// By the name that it has in the first part that uses it.
inline std::vector<std::pair<std::string, torch::Tensor>> trained_parameters(
    const std::vector<Part>& parts) {
  std::vector<std::pair<std::string, torch::Tensor>> named;
  std::vector<torch::Tensor> seen;
  for (const Part& part : parts) {
    for (const auto& item : part.module->named_parameters()) {
      if (item.value().requires_grad() && !contains(seen, item.value())) {
        named.emplace_back(part.name + "." + item.key(), item.value());
        seen.push_back(item.value());
      }
    }
  }
  return named;
}

// Matrices decay more, "down" learns faster, norms learn slower and do not decay; biases are in
// none.
inline std::vector<ParamGroup> groups_of(const std::vector<Part>& parts) {
  std::vector<ParamGroup> groups{{{}, 0.3, 1}, {{}, std::nullopt, 2}, {{}, 0, 0.25}};
  for (const auto& [name, parameter] : trained_parameters(parts)) {
    if (name.find("norm") != std::string::npos) {
      groups[2].params.push_back(parameter);
    } else if (parameter.dim() > 1) {
      groups[name.find("down") != std::string::npos ? 1 : 0].params.push_back(parameter);
    }
  }
  return groups;
}

// From this step on the learning rate is half of it, where there are groups.
inline constexpr uint64_t kSlowStep = 3;

struct Course {
  std::vector<uint32_t> micro_batches = std::vector<uint32_t>(kSteps, kMicroBatches);
  bool groups = false;
};

inline torch::optim::AdamW optimizer_of(const std::vector<Part>& parts, bool with_groups) {
  const auto defaults =
      torch::optim::AdamWOptions(0.01).betas({0.9, 0.95}).eps(1e-6).weight_decay(0.01);
  const auto groups = with_groups ? groups_of(parts) : std::vector<ParamGroup>();
  std::vector<torch::optim::OptimizerParamGroup> all;
  for (const auto& named : trained_parameters(parts)) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(defaults);
    for (const ParamGroup& group : groups) {
      if (contains(group.params, named.second)) {
        options->lr(0.01 * group.learning_rate_factor);
        options->weight_decay(group.weight_decay.value_or(0.01));
      }
    }
    all.emplace_back(std::vector<torch::Tensor>{named.second}, std::move(options));
  }
  return torch::optim::AdamW(all, defaults);
}

// torch alone, on the global batch.
inline Reference train_single_rank(const Shape& shape, const Course& course = {}) {
  const std::vector<Part> parts = parts_of(shape);
  torch::optim::AdamW optimizer = optimizer_of(parts, course.groups);
  Reference reference;
  for (uint64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (auto& group : optimizer.param_groups()) {
      auto& options = static_cast<torch::optim::AdamWOptions&>(group.options());
      options.lr(options.lr() * (course.groups && step == kSlowStep ? 0.5 : 1));
    }
    double loss = 0;
    for (uint32_t k = 0; k < course.micro_batches[step]; ++k) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const torch::Tensor tokens = tokens_of(step, k, rank);
        torch::Tensor x = inputs_of(tokens);
        for (const Part& part : parts) {
          x = part.forward(x);
        }
        const torch::Tensor one = loss_of(x, tokens) / double(course.micro_batches[step] * kRanks);
        one.backward();
        loss += one.item<double>();
      }
    }
    optimizer.step();
    reference.losses.push_back(loss);
  }
  for (const auto& [name, parameter] : trained_parameters(parts)) {
    const torch::Tensor flat = parameter.detach().contiguous().view({-1});
    reference.values[name].assign(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  return reference;
}

}  // namespace paro::test
