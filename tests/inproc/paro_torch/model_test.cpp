// A libtorch model on sharded states trains as torch's own optimizer trains it in one process.
#include <paro/torch.hpp>

#include "catch.hpp"
#include "job.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using ho::test::require_job;
using paro::torch_model::Model;
using paro::torch_model::Part;

namespace {

constexpr int64_t kVocabulary = 11;
constexpr int64_t kWidth = 6;
constexpr int64_t kRows = 2;  // of a micro-batch
constexpr int64_t kTokens = 5;
constexpr uint32_t kMicroBatches = 2;
constexpr uint32_t kSteps = 6;
constexpr uint32_t kRanks = 4;

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

// The same values wherever it is made.
std::vector<Part> parts_of(bool frozen_embedding) {
  torch::nn::Embedding embedding(kVocabulary, kWidth);
  Block first;
  Block second;
  torch::nn::Linear head(kWidth, kVocabulary);
  std::vector<Part> parts{
      {"embedding", embedding.ptr(), [embedding](const auto& x) mutable { return embedding(x); }},
      {"first", first.ptr(), [first](const auto& x) mutable { return first(x); }},
      {"second", second.ptr(), [second](const auto& x) mutable { return second(x); }},
      {"head", head.ptr(), [head](const auto& x) mutable { return head(x); }}};
  const torch::NoGradGuard no_grad;
  double next = 0;
  for (const Part& part : parts) {
    for (torch::Tensor& parameter : part.module->parameters()) {
      const torch::Tensor places = torch::arange(parameter.numel(), torch::kFloat32) + next;
      parameter.copy_((torch::sin(places * 0.7) * 0.3).view(parameter.sizes()));
      next += static_cast<double>(parameter.numel());
    }
  }
  if (frozen_embedding) {
    embedding->weight.set_requires_grad(false);
  }
  return parts;
}

torch::Tensor tokens_of(uint64_t step, uint32_t micro_batch, uint32_t rank) {
  const auto first = static_cast<int64_t>((step * kMicroBatches + micro_batch) * kRanks + rank);
  const torch::Tensor places = torch::arange(kRows * (kTokens + 1)) + first * 7;
  return ((places * places + places * 3) % kVocabulary).view({kRows, kTokens + 1});
}

torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& tokens) {
  return torch::nn::functional::cross_entropy(scores.reshape({-1, kVocabulary}).to(torch::kFloat32),
                                              tokens.narrow(1, 1, kTokens).reshape({-1}));
}

torch::Tensor inputs_of(const torch::Tensor& tokens) {
  return tokens.narrow(1, 0, kTokens).contiguous();
}

struct Reference {
  std::vector<double> losses;
  std::vector<std::vector<float>> values;  // by part, trained parameters one after the other
};

// torch alone, on the global batch.
Reference train_alone(bool frozen_embedding) {
  const std::vector<Part> parts = parts_of(frozen_embedding);
  std::vector<torch::Tensor> parameters;
  for (const Part& part : parts) {
    for (const torch::Tensor& parameter : part.module->parameters()) {
      if (parameter.requires_grad()) {
        parameters.push_back(parameter);
      }
    }
  }
  torch::optim::AdamW optimizer(
      parameters, torch::optim::AdamWOptions(0.01).betas({0.9, 0.95}).eps(1e-6).weight_decay(0.01));
  Reference reference;
  for (uint64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    double loss = 0;
    for (uint32_t k = 0; k < kMicroBatches; ++k) {
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const torch::Tensor tokens = tokens_of(step, k, rank);
        torch::Tensor x = inputs_of(tokens);
        for (const Part& part : parts) {
          x = part.forward(x);
        }
        const torch::Tensor one = loss_of(x, tokens) / double{kMicroBatches * kRanks};
        one.backward();
        loss += one.item<double>();
      }
    }
    optimizer.step();
    reference.losses.push_back(loss);
  }
  for (const Part& part : parts) {
    reference.values.emplace_back();
    for (const torch::Tensor& parameter : part.module->parameters()) {
      if (parameter.requires_grad()) {
        const torch::Tensor flat = parameter.detach().contiguous().view({-1});
        reference.values.back().insert(reference.values.back().end(),
                                       flat.data_ptr<float>(),
                                       flat.data_ptr<float>() + flat.numel());
      }
    }
  }
  return reference;
}

RunnerOptions options_for(const std::string& strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.micro_batches = kMicroBatches;
  options.adamw = {0.01, 0.9, 0.95, 1e-6, 0.01};
  return options;
}

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error(promise);
  }
}

// One step; the mean loss of all ranks.
double train_step(Model& model, horing::Communicator& comm, uint64_t step) {
  double loss = 0;
  for (uint32_t k = 0; k < kMicroBatches; ++k) {
    const torch::Tensor tokens = tokens_of(step, k, static_cast<uint32_t>(comm.rank()));
    const torch::Tensor one = loss_of(model.forward(inputs_of(tokens)), tokens);
    model.backward(one);
    loss += one.item<double>() / kMicroBatches;
  }
  expect(model.step().applied == 1, "applies the step");
  comm.all_reduce(std::span<double>(&loss, 1), HO_AVG);
  return loss;
}

void expect_like(Model& model, const Reference& reference, float tolerance) {
  for (uint32_t unit = 0; unit < reference.values.size(); ++unit) {
    std::vector<float> masters(reference.values[unit].size());
    model.runner().read_masters(unit, masters);
    for (size_t i = 0; i < masters.size(); ++i) {
      expect(std::abs(masters[i] - reference.values[unit][i]) <= tolerance,
             "part " + std::to_string(unit) + ", element " + std::to_string(i) + ": " +
                 std::to_string(masters[i]) + ", alone " +
                 std::to_string(reference.values[unit][i]));
    }
  }
}

void train_and_compare(ho_comm* raw,
                       const RunnerOptions& options,
                       const Reference& reference,
                       bool frozen_embedding,
                       double tolerance) {
  ho_comm* copy = nullptr;
  ho::test::must(ho_comm_split(raw, 0, ho_comm_rank(raw), &copy));
  horing::Communicator comm(copy);
  Model model(comm, options, parts_of(frozen_embedding));
  for (uint64_t step = 0; step < kSteps; ++step) {
    const double loss = train_step(model, comm, step);
    expect(std::abs(loss - reference.losses[step]) <= tolerance,
           options.strategy + ", step " + std::to_string(step) + ": loss " + std::to_string(loss) +
               ", alone " + std::to_string(reference.losses[step]));
  }
  model.runner().check_drift();
  expect_like(model, reference, static_cast<float>(tolerance));
}

}  // namespace

TEST_CASE("a torch model trains on sharded states as in one process") {
  torch::set_num_threads(1);
  for (const bool frozen : {false, true}) {
    const Reference reference = train_alone(frozen);
    CHECK(reference.losses.back() < reference.losses.front());
    require_job({"2x2"}, [&](ho_comm* comm) {
      for (const char* strategy : {"NNN",
                                   "NNI",
                                   "NNG",
                                   "NII",
                                   "NIG",
                                   "NGG",
                                   "INI",
                                   "ING",
                                   "III",
                                   "IIG",
                                   "IGG",
                                   "GNG",
                                   "GIG",
                                   "GGG"}) {
        train_and_compare(comm, options_for(strategy), reference, frozen, 2e-5);
      }
    });
  }
}

TEST_CASE("a torch model trains in 16 bits") {
  const Reference reference = train_alone(false);
  require_job({"2x2"}, [&](ho_comm* comm) {
    RunnerOptions options = options_for("IIG");
    options.parameter_dtype = HO_BFLOAT16;
    train_and_compare(comm, options, reference, false, 0.05);
  });
}

TEST_CASE("random numbers are the same when a part computes again") {
  require_job({"1x1"}, [](ho_comm* raw) {
    ho_comm* copy = nullptr;
    ho::test::must(ho_comm_split(raw, 0, 0, &copy));
    horing::Communicator comm(copy);
    const torch::nn::Linear line(1, 1);
    std::vector<torch::Tensor> drawn;
    const Part part{"line", line.ptr(), [&](const torch::Tensor& x) {
                      drawn.push_back(torch::rand({8, 1}));
                      return torch::nn::Linear(line)(x) * drawn.back();
                    }};
    Model model(comm, {}, {part});
    const torch::Tensor out = model.forward(torch::ones({8, 1}));
    const torch::Tensor between = torch::rand({8, 1});
    model.backward(out.sum());
    const torch::Tensor after = torch::rand({8, 1});
    expect(drawn.size() == 2 && torch::equal(drawn[0], drawn[1]), "draws the same again");
    expect(!torch::equal(between, after) && !torch::equal(drawn[0], between),
           "goes on where the others are");
    static_cast<void>(model.step());
  });
}

TEST_CASE("a model's tensors have names in a checkpoint") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x1"}, [&](ho_comm* raw) {
    ho_comm* copy = nullptr;
    ho::test::must(ho_comm_split(raw, 0, ho_comm_rank(raw), &copy));
    horing::Communicator comm(copy);
    RunnerOptions options;
    options.strategy = "IIG";
    Model model(comm, options, parts_of(true));
    SaveOptions save;
    save.tensors = model.tensors();
    expect(save.tensors.size() == 1 + 2 * 6 + 2, "has all parameters");
    expect(save.tensors[0].name == "embedding.weight" && save.tensors[0].frozen, "knows frozen");
    expect(save.tensors[3].name == "first.up.weight", "has torch's names");
    expect(save.tensors[3].shape == std::vector<uint64_t>{4 * kWidth, kWidth}, "has shapes");
    model.runner().save(folder.root(), save);
  });
}

TEST_CASE("a parameter in two parts is refused") {
  require_job({"1x1"}, [](ho_comm* raw) {
    ho_comm* copy = nullptr;
    ho::test::must(ho_comm_split(raw, 0, 0, &copy));
    horing::Communicator comm(copy);
    const torch::nn::Linear line(2, 2);
    const Part part{"line", line.ptr(), [](const torch::Tensor& x) { return x; }};
    std::string refused;
    try {
      const Model model(comm, {}, {part, part});
    } catch (const std::invalid_argument& error) {
      refused = error.what();
    }
    expect(refused.find("tied parameters") != std::string::npos, "refuses: " + refused);
  });
}
