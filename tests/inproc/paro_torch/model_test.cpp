// A libtorch model on sharded states trains as torch's own optimizer trains it in one process.
#include <paro/torch.hpp>

#include "catch.hpp"
#include "job.hpp"
#include "strategy/strategy.hpp"
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

// A head whose weight is the embedding's.
struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(const torch::Tensor& of) : weight(register_parameter("weight", of)) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(x, weight); }
  torch::Tensor weight;
};
TORCH_MODULE(TiedHead);

struct Shape {
  bool frozen_embedding = false;
  bool tied_head = false;
};

// The same values wherever it is made.
std::vector<Part> parts_of(const Shape& shape) {
  torch::nn::Embedding embedding(kVocabulary, kWidth);
  Block first;
  Block second;
  torch::nn::Linear head(kWidth, kVocabulary);
  std::vector<Part> parts{
      {"embedding", embedding.ptr(), [embedding](const auto& x) mutable { return embedding(x); }},
      {"first", first.ptr(), [first](const auto& x) mutable { return first(x); }},
      {"second", second.ptr(), [second](const auto& x) mutable { return second(x); }},
      {"head", head.ptr(), [head](const auto& x) mutable { return head(x); }}};
  if (shape.tied_head) {
    TiedHead tied(embedding->weight);
    parts.back() = {"head", tied.ptr(), [tied](const auto& x) mutable { return tied(x); }};
  }
  const torch::NoGradGuard no_grad;
  double next = 0;
  for (const Part& part : parts) {
    for (torch::Tensor& parameter : part.module->parameters()) {
      const torch::Tensor places = torch::arange(parameter.numel(), torch::kFloat32) + next;
      parameter.copy_((torch::sin(places * 0.7) * 0.3).view(parameter.sizes()));
      next += static_cast<double>(parameter.numel());
    }
  }
  if (shape.frozen_embedding) {
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
Reference train_alone(const Shape& shape) {
  const std::vector<Part> parts = parts_of(shape);
  std::vector<torch::Tensor> parameters;
  std::vector<size_t> count_of_part;
  for (const Part& part : parts) {
    const size_t before = parameters.size();
    for (const torch::Tensor& parameter : part.module->parameters()) {
      const bool tied = std::any_of(parameters.begin(), parameters.end(), [&](const auto& other) {
        return other.is_same(parameter);
      });
      if (parameter.requires_grad() && !tied) {
        parameters.push_back(parameter);
      }
    }
    count_of_part.push_back(parameters.size() - before);
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
  auto next = parameters.begin();
  for (const size_t count : count_of_part) {
    std::vector<float>& values = reference.values.emplace_back();
    for (const auto end = next + static_cast<ptrdiff_t>(count); next != end; ++next) {
      const torch::Tensor flat = next->detach().contiguous().view({-1});
      values.insert(values.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
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
                       const Shape& shape,
                       double tolerance) {
  ho_comm* copy = nullptr;
  ho::test::must(ho_comm_split(raw, 0, ho_comm_rank(raw), &copy));
  horing::Communicator comm(copy);
  Model model(comm, options, parts_of(shape));
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
  for (const Shape& shape : {Shape{}, Shape{true, false}, Shape{false, true}, Shape{true, true}}) {
    const Reference reference = train_alone(shape);
    CHECK(reference.losses.back() < reference.losses.front());
    require_job({"2x2"}, [&](ho_comm* comm) {
      for (const Strategy& strategy : all_strategies()) {
        train_and_compare(comm, options_for(letters(strategy)), reference, shape, 2e-5);
      }
    });
  }
}

TEST_CASE("a torch model trains in 16 bits") {
  for (const Shape& shape : {Shape{}, Shape{false, true}}) {
    const Reference reference = train_alone(shape);
    require_job({"2x2"}, [&](ho_comm* comm) {
      RunnerOptions options = options_for("IIG");
      options.parameter_dtype = HO_BFLOAT16;
      train_and_compare(comm, options, reference, shape, 0.05);
    });
  }
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

TEST_CASE("a model computes with whole parameters between steps") {
  const Shape shape{true, true};
  require_job({"2x2"}, [&](ho_comm* raw) {
    for (const char* strategy : {"NNN", "IIG", "GGG"}) {
      ho_comm* copy = nullptr;
      ho::test::must(ho_comm_split(raw, 0, ho_comm_rank(raw), &copy));
      horing::Communicator comm(copy);
      Model model(comm, options_for(strategy), parts_of(shape));
      static_cast<void>(train_step(model, comm, 0));
      const torch::Tensor input = inputs_of(tokens_of(1, 0, 0));
      torch::Tensor evaluated;
      const auto body = [&](const Model::Forward& forward) {
        evaluated = forward(input);
        expect(torch::equal(evaluated, forward(input)), "computes the same again");
      };
      model.evaluate(comm.rank() == 1 ? body : std::function<void(const Model::Forward&)>());
      // As in training, which goes on as if nothing had been.
      const torch::Tensor trained = model.forward(input);
      expect(comm.rank() != 1 || torch::allclose(evaluated, trained, 0, 1e-6), "is what trains");
      model.backward(trained.sum());
      model.backward(model.forward(input).sum());
      expect(model.step().applied == 1, "goes on");
    }
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
    Model model(comm, options, parts_of({true, true}));
    SaveOptions save;
    save.tensors = model.tensors();
    expect(save.tensors.size() == 1 + 2 * 6, "has all parameters");
    expect(save.tensors[0].name == "embedding.weight" && save.tensors[0].frozen, "knows frozen");
    expect(save.tensors[3].name == "first.up.weight", "has torch's names");
    expect(save.tensors[3].shape == std::vector<uint64_t>{4 * kWidth, kWidth}, "has shapes");
    model.runner().save(folder.root(), save);
  });
}

TEST_CASE("a parameter twice in a part is refused") {
  require_job({"1x1"}, [](ho_comm* raw) {
    ho_comm* copy = nullptr;
    ho::test::must(ho_comm_split(raw, 0, 0, &copy));
    horing::Communicator comm(copy);
    const torch::nn::Linear line(2, 2);
    torch::nn::Module both;
    both.register_module("a", line.ptr());
    both.register_parameter("b", line->weight);
    const Part part{
        "both", std::make_shared<torch::nn::Module>(both), [](const auto& x) { return x; }};
    std::string refused;
    try {
      const Model model(comm, {}, {part});
    } catch (const std::invalid_argument& error) {
      refused = error.what();
    }
    expect(refused.find("register it once") != std::string::npos, "refuses: " + refused);
  });
}
