#include "bench/train_gpt/gpt.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <paro/torch.hpp>

namespace paro::gpt {
namespace {

using torch_model::Part;

constexpr int64_t kBytes = 256;
constexpr double kDeviation = 0.02;  // of initial weights
constexpr double kTemperature = 0.8;
constexpr int64_t kLikeliest = 40;  // bytes that a sample is drawn from

// y = W x + b, with --lora-rank + B A x, B being zeros at first.
struct ProjectionImpl : torch::nn::Module {
  ProjectionImpl(int64_t in, int64_t out, int64_t rank)
      : linear(register_module("linear", torch::nn::Linear(in, out))) {
    if (rank > 0) {
      down = register_parameter("lora_a", torch::empty({rank, in}));
      up = register_parameter("lora_b", torch::empty({out, rank}));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = linear(x);
    return down.defined() ? y + torch::linear(torch::linear(x, down), up) : y;
  }
  torch::nn::Linear linear;
  torch::Tensor down;
  torch::Tensor up;
};
TORCH_MODULE(Projection);

torch::nn::LayerNorm norm_of(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

struct EmbeddingImpl : torch::nn::Module {
  explicit EmbeddingImpl(const Shape& shape)
      : bytes(register_module("bytes", torch::nn::Embedding(kBytes, shape.width))),
        positions(register_module("places", torch::nn::Embedding(shape.context, shape.width))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return bytes(x) + positions(torch::arange(x.size(1)));
  }
  torch::nn::Embedding bytes;
  torch::nn::Embedding positions;
};
TORCH_MODULE(Embedding);

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Shape& shape)
      : heads(shape.heads),
        norm1(register_module("norm1", norm_of(shape.width))),
        qkv(register_module("qkv", Projection(shape.width, 3 * shape.width, shape.lora_rank))),
        out(register_module("out", Projection(shape.width, shape.width, shape.lora_rank))),
        norm2(register_module("norm2", norm_of(shape.width))),
        up(register_module("up", torch::nn::Linear(shape.width, 4 * shape.width))),
        down(register_module("down", torch::nn::Linear(4 * shape.width, shape.width))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor mixed = x + attention(norm1(x));
    return mixed + down(torch::gelu(up(norm2(mixed))));
  }
  // Each place attends to itself and to those before it.
  torch::Tensor attention(const torch::Tensor& x) {
    const int64_t length = x.size(1);
    const int64_t size = x.size(2) / heads;
    const auto parts =
        qkv(x).view({x.size(0), length, 3, heads, size}).permute({2, 0, 3, 1, 4}).unbind(0);
    const torch::Tensor later = torch::ones({length, length}, torch::kBool).triu(1);
    const torch::Tensor scores =
        (parts[0].matmul(parts[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(size)))
            .masked_fill(later, -std::numeric_limits<float>::infinity());
    return out(torch::softmax(scores, -1).matmul(parts[2]).transpose(1, 2).reshape(x.sizes()));
  }
  int64_t heads;
  torch::nn::LayerNorm norm1;
  Projection qkv;
  Projection out;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear up;
  torch::nn::Linear down;
};
TORCH_MODULE(Block);

struct HeadImpl : torch::nn::Module {
  HeadImpl(const Shape& shape, const torch::Tensor& bytes)
      : norm(register_module("norm", norm_of(shape.width))),
        weight(register_parameter("weight", bytes)) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(norm(x), weight); }
  torch::nn::LayerNorm norm;
  torch::Tensor weight;
};
TORCH_MODULE(Head);

// Weights of one dimension are norms' and biases, which torch sets to ones and zeros.
void set_initial(torch::nn::Module& module, const Shape& shape) {
  const torch::NoGradGuard no_grad;
  for (const auto& named : module.named_parameters()) {
    const std::string& name = named.key();
    torch::Tensor parameter = named.value();
    if (name.ends_with("bias") || name.ends_with("lora_b")) {
      parameter.zero_();
    } else if (parameter.dim() > 1) {
      // What is added to the stream of each layer shall not grow with their number.
      const bool adds = name == "out.linear.weight" || name == "down.weight";
      parameter.normal_(0, adds ? kDeviation / std::sqrt(2.0 * shape.layers) : kDeviation);
    }
  }
}

void freeze(const std::vector<Part>& parts, const Shape& shape, const torch::Tensor& tied) {
  for (const Part& part : parts) {
    const bool frozen =
        std::find(shape.freeze.begin(), shape.freeze.end(), part.name) != shape.freeze.end();
    for (const auto& named : part.module->named_parameters()) {
      const bool of_head = named.value().is_same(tied) && part.name == "head";
      const bool lora = named.key().find("lora_") != std::string::npos;
      if ((frozen && !of_head) || (shape.lora_rank > 0 && !lora)) {
        torch::Tensor(named.value()).set_requires_grad(false);
      }
    }
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) {
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  }
  return "[" + text + "]";
}

// "" or the first parameter that differs between the two.
std::string set_values(const std::vector<Part>& parts, const Values& values) {
  const torch::NoGradGuard no_grad;
  size_t used = 0;
  for (const Part& part : parts) {
    for (const auto& named : part.module->named_parameters()) {
      const std::string name = part.name + "." + named.key();
      const auto found = values.find(name);
      const bool there = found != values.end();
      used += there ? 1 : 0;
      if (name == "head.weight" || (!there && named.key().find("lora_") != std::string::npos)) {
        continue;  // the embedding's; noise and zeros
      }
      torch::Tensor parameter = named.value();
      const std::vector<int64_t> shape = parameter.sizes().vec();
      if (!there || found->second.shape != shape) {
        return name + " is " + shape_text(shape) + " here, and in the file " +
               (there ? shape_text(found->second.shape) : "is not");
      }
      parameter.copy_(torch::tensor(found->second.elements).view(shape));
    }
  }
  return used == values.size() ? ""
                               : "it has " + std::to_string(values.size() - used) +
                                     " tensors that this model has not: give the --layers and "
                                     "--lora-rank that it was trained with";
}

std::vector<Part> parts_of(const Shape& shape) {
  torch::manual_seed(shape.seed);
  std::vector<Part> parts;
  const auto add = [&](auto module) {
    parts.push_back({part_names(shape)[parts.size()],
                     module.ptr(),
                     [module](const torch::Tensor& x) mutable { return module(x); }});
  };
  Embedding embedding(shape);
  add(embedding);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    add(Block(shape));
  }
  for (const Part& part : parts) {
    set_initial(*part.module, shape);
  }
  add(Head(shape, embedding->bytes->weight));
  freeze(parts, shape, embedding->bytes->weight);
  return parts;
}

torch::Tensor rows_of(const std::vector<int64_t>& samples, const Shape& shape) {
  const int64_t length = int64_t{shape.context} + 1;
  return torch::tensor(samples, torch::kLong)
      .view({static_cast<int64_t>(samples.size()) / length, length});
}

torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& rows) {
  return torch::nn::functional::cross_entropy(scores.reshape({-1, kBytes}).to(torch::kFloat32),
                                              rows.narrow(1, 1, rows.size(1) - 1).reshape({-1}));
}

torch::Tensor inputs_of(const torch::Tensor& rows) {
  return rows.narrow(1, 0, rows.size(1) - 1).contiguous();
}

int64_t drawn(const torch::Tensor& scores, torch::Generator& generator) {
  const auto [values, bytes] = scores.to(torch::kFloat32).topk(kLikeliest);
  const torch::Tensor chances = torch::softmax(values / kTemperature, 0);
  return bytes[torch::multinomial(chances, 1, false, generator).item<int64_t>()].item<int64_t>();
}

std::string continuation(const torch_model::Model::Forward& forward,
                         const std::string& text,
                         uint32_t bytes,
                         uint64_t seed,
                         uint32_t context) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<int64_t> all(text.size());
  std::transform(
      text.begin(), text.end(), all.begin(), [](char c) { return static_cast<unsigned char>(c); });
  std::string more;
  while (more.size() < bytes) {
    const size_t count = std::min<size_t>(all.size(), context);
    const std::vector<int64_t> last(all.end() - static_cast<ptrdiff_t>(count), all.end());
    const torch::Tensor scores = forward(torch::tensor(last, torch::kLong).unsqueeze(0));
    all.push_back(drawn(scores[0][-1], generator));
    more.push_back(static_cast<char>(all.back()));
  }
  return more;
}

}  // namespace

std::vector<std::string> part_names(const Shape& shape) {
  std::vector<std::string> names{"embedding"};
  for (uint32_t i = 0; i < shape.layers; ++i) {
    names.push_back("block" + std::to_string(i));
  }
  names.emplace_back("head");
  return names;
}

Cost measure_cost(const Shape& shape, bool bfloat16, const std::vector<int64_t>& samples) {
  using Clock = std::chrono::steady_clock;
  const std::vector<Part> parts = parts_of(shape);
  Cost cost;
  for (const Part& part : parts) {
    for (const auto& named : part.module->named_parameters()) {
      if (part.name == "head" && named.key() == "weight") {
        continue;  // the embedding's
      }
      const auto count = static_cast<uint64_t>(named.value().numel());
      cost.parameters += count;
      const uint64_t trained = named.value().requires_grad() ? count : 0;
      cost.trained += trained;
      if (part.name == "embedding" || part.name == "head") {
        cost.shared += count;
        cost.shared_trained += trained;
      }
    }
    part.module->to(bfloat16 ? torch::kBFloat16 : torch::kFloat32);
  }
  const torch::Tensor rows = rows_of(samples, shape);
  for (int round = 0; round < 2; ++round) {  // the first makes torch's caches
    const auto begin = Clock::now();
    torch::Tensor x = inputs_of(rows);
    for (const Part& part : parts) {
      x = part.forward(x);
    }
    const torch::Tensor loss = loss_of(x, rows);
    const auto middle = Clock::now();
    loss.backward();
    // The adapter computes the forward pass twice.
    cost.seconds = std::chrono::duration<double>((middle - begin) + (Clock::now() - begin)).count();
  }
  return cost;
}

std::string misfit(const Shape& shape, const Values& values) {
  return set_values(parts_of(shape), values);
}

void set_threads(uint32_t threads) {
  torch::set_num_threads(static_cast<int>(threads));
}

struct Gpt::Model : torch_model::Model {
  using torch_model::Model::Model;
};

Gpt::Gpt(horing::Communicator& job,
         const RunnerOptions& options,
         const Shape& shape,
         const Values& values)
    : shape_(shape) {
  const std::vector<Part> parts = parts_of(shape);
  if (!values.empty()) {
    set_values(parts, values);
  }
  model_ = std::make_unique<Model>(job, options, parts);
}
Gpt::~Gpt() = default;

double Gpt::train(const std::vector<int64_t>& samples) {
  const torch::Tensor rows = rows_of(samples, shape_);
  const torch::Tensor loss = loss_of(model_->forward(inputs_of(rows)), rows);
  model_->backward(loss);
  return loss.item<double>();
}

paro_step_report Gpt::step() {
  return model_->step();
}

std::string Gpt::continued(horing::Communicator& job,
                           const std::string& text,
                           uint32_t bytes,
                           uint64_t seed) {
  std::string more;
  std::function<void(const Model::Forward&)> body;
  if (job.rank() == 0) {
    body = [&](const Model::Forward& forward) {
      more = continuation(forward, text, bytes, seed, shape_.context);
    };
  }
  model_->evaluate(body);
  return more;
}

Runner& Gpt::runner() {
  return model_->runner();
}

const std::vector<Tensor>& Gpt::tensors() const {
  return model_->tensors();
}

}  // namespace paro::gpt
