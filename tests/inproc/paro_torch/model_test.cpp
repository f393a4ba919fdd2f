// Size: libtorch's headers take a minute to compile, so they are included in one file only.
// A libtorch model on sharded states trains as torch's own optimizer trains it in one process.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <paro/torch.hpp>
#include <set>

#include "catch.hpp"
#include "job.hpp"
#include "strategy/strategy.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using ho::test::require_job;
using paro::torch_model::Model;
using paro::torch_model::ParamGroup;
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

torch::Tensor tokens_of(uint64_t step, uint32_t micro_batch, uint32_t rank) {
  const auto first = static_cast<int64_t>((step * kMicroBatches + micro_batch) * kRanks + rank);
  const torch::Tensor indices = torch::arange(kRows * (kTokens + 1)) + first * 7;
  return ((indices * indices + indices * 3) % kVocabulary).view({kRows, kTokens + 1});
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
  std::map<std::string, std::vector<float>> values;  // of trained parameters, by name
};

bool contains(const std::vector<torch::Tensor>& tensors, const torch::Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const torch::Tensor& other) {
    return other.is_same(tensor);
  });
}

// By the name that it has in the first part that uses it.
std::vector<std::pair<std::string, torch::Tensor>> trained_parameters(
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
std::vector<ParamGroup> groups_of(const std::vector<Part>& parts) {
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
constexpr uint64_t kSlowStep = 3;

struct Course {
  std::vector<uint32_t> micro_batches = std::vector<uint32_t>(kSteps, kMicroBatches);
  bool groups = false;
};

torch::optim::AdamW optimizer_of(const std::vector<Part>& parts, bool with_groups) {
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
Reference train_single_rank(const Shape& shape, const Course& course = {}) {
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

// All for one kind of tie, some for the others.
std::vector<std::string> strategies_for(const Shape& shape) {
  if (shape.tie == Tie::kHeadWithNorm || shape.tie == Tie::kMixerAndHead) {
    return {"NNN", "NIG", "IIG", "GGG"};
  }
  std::vector<std::string> all;
  for (const Strategy& strategy : all_strategies()) {
    all.push_back(letters(strategy));
  }
  return all;
}

RunnerOptions options_for(const std::string& strategy) {
  RunnerOptions options;
  options.strategy = strategy;
  options.micro_batches = kMicroBatches;
  options.adamw = {0.01, 0.9, 0.95, 1e-6, 0.01};
  return options;
}

horing::Communicator copy_of(ho_comm* raw) {
  ho_comm* copy = nullptr;
  ho::test::must(ho_comm_split(raw, 0, ho_comm_rank(raw), &copy));
  return horing::Communicator(copy);
}

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error(promise);
  }
}

uint64_t count_of(const Tensor& tensor) {
  return std::accumulate(
      tensor.shape.begin(), tensor.shape.end(), uint64_t{1}, std::multiplies<>());
}

// The mean loss of all ranks.
double accumulate(Model& model, horing::Communicator& comm, uint64_t step, uint32_t count) {
  double loss = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const torch::Tensor tokens = tokens_of(step, k, static_cast<uint32_t>(comm.rank()));
    const torch::Tensor one = loss_of(model.forward(inputs_of(tokens)), tokens);
    model.backward(one);
    loss += one.item<double>() / count;
  }
  comm.all_reduce(std::span<double>(&loss, 1), HO_AVG);
  return loss;
}

double train_step(Model& model, horing::Communicator& comm, uint64_t step) {
  const double loss = accumulate(model, comm, step, kMicroBatches);
  expect(model.step().applied == 1, "applies the step");
  return loss;
}

void expect_loss(double loss, const Reference& reference, uint64_t step, double tolerance) {
  expect(std::abs(loss - reference.losses[step]) <= tolerance,
         "step " + std::to_string(step) + ": loss " + std::to_string(loss) + ", alone " +
             std::to_string(reference.losses[step]));
}

// Collective: the trained parameters' masters, by name.
std::map<std::string, std::vector<float>> masters_of(Model& model) {
  std::map<std::string, std::vector<float>> masters;
  for (const Tensor& tensor : model.tensors()) {
    if (tensor.frozen) {
      continue;
    }
    uint64_t end = 0;
    for (const Tensor& other : model.tensors()) {
      if (other.unit == tensor.unit && !other.frozen) {
        end = std::max(end, other.first_element + count_of(other));
      }
    }
    std::vector<float> unit(end);
    model.runner().read_masters(tensor.unit, unit);
    const auto first = unit.begin() + static_cast<ptrdiff_t>(tensor.first_element);
    masters[tensor.name].assign(first, first + static_cast<ptrdiff_t>(count_of(tensor)));
  }
  return masters;
}

void expect_like(Model& model, const Reference& reference, float tolerance) {
  const auto masters = masters_of(model);
  expect(masters.size() == reference.values.size(), "has each trained parameter once");
  for (const auto& [name, theirs] : reference.values) {
    const auto ours = masters.find(name);
    expect(ours != masters.end() && ours->second.size() == theirs.size(), "has " + name);
    for (size_t i = 0; i < theirs.size(); ++i) {
      expect(std::abs(ours->second[i] - theirs[i]) <= tolerance,
             name + ", element " + std::to_string(i) + ": " + std::to_string(ours->second[i]) +
                 ", alone " + std::to_string(theirs[i]));
    }
  }
}

void train_and_compare(ho_comm* raw,
                       const RunnerOptions& options,
                       const Reference& reference,
                       const Shape& shape,
                       double tolerance) {
  horing::Communicator comm = copy_of(raw);
  Model model(comm, options, parts_of(shape));
  for (uint64_t step = 0; step < kSteps; ++step) {
    const double loss = train_step(model, comm, step);
    expect_loss(loss, reference, step, tolerance);
  }
  model.runner().check_drift();
  expect_like(model, reference, static_cast<float>(tolerance));
}

// Steps of fewer micro-batches than the model was made for, by every way to have them.
double train_step_of(Model& model, horing::Communicator& comm, uint64_t step, uint32_t count) {
  constexpr uint64_t kOtherData = 17;
  if (step == 2) {
    static_cast<void>(accumulate(model, comm, kOtherData, 2));
    model.zero_grad();
  } else if (step == 3 || step == 4) {
    model.set_gradient_accumulation_steps(count);
  } else if (step == 5) {
    model.set_gradient_accumulation_steps(3);
    model.zero_grad();  // of nothing, as a loop may begin
  }
  const double loss = accumulate(model, comm, step, count);
  const bool early = step == 1 || step == 5;
  expect((early ? model.step_early() : model.step()).applied == 1, "applies the step");
  return loss;
}

template <typename Call>
void expect_status(ho_status wanted, const std::string& text, const Call& call) {
  ho_status status = HO_OK;
  std::string what;
  try {
    call();
  } catch (const Error& error) {
    status = error.status();
    what = error.what();
  }
  expect(status == wanted && what.find(text) != std::string::npos,
         text + ": status " + std::to_string(status) + ", " + what);
}

// What a model of these parts is refused for.
std::string refusal_of(const std::vector<Part>& parts, const std::vector<ParamGroup>& groups = {}) {
  std::string refused;
  require_job({"1x1"}, [&](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
    try {
      const Model model(comm, {}, parts, groups);
    } catch (const std::invalid_argument& error) {
      refused = error.what();
    }
  });
  return refused;
}

}  // namespace

TEST_CASE("a torch model trains on sharded states as in one process") {
  torch::set_num_threads(1);
  for (const Shape& shape : {Shape{},
                             Shape{true, Tie::kNone},
                             Shape{false, Tie::kHead},
                             Shape{true, Tie::kHead},
                             Shape{false, Tie::kHeadWithNorm},
                             Shape{true, Tie::kHeadWithNorm},
                             Shape{false, Tie::kMixerAndHead}}) {
    const Reference reference = train_single_rank(shape);
    CHECK(reference.losses.back() < reference.losses.front());
    require_job({"2x2"}, [&](ho_comm* comm) {
      for (const std::string& strategy : strategies_for(shape)) {
        train_and_compare(comm, options_for(strategy), reference, shape, 2e-5);
      }
    });
  }
}

TEST_CASE("a torch model's steps may have fewer micro-batches, or none") {
  const Course course{{3, 1, 3, 2, 1, 2}};
  for (const Shape& shape : {Shape{}, Shape{false, Tie::kHeadWithNorm}}) {
    const Reference reference = train_single_rank(shape, course);
    require_job({"2x2"}, [&](ho_comm* raw) {
      for (const char* strategy : {"NNN", "NNG", "NIG", "NGG", "IIG", "GGG"}) {
        horing::Communicator comm = copy_of(raw);
        RunnerOptions options = options_for(strategy);
        options.micro_batches = 3;
        Model model(comm, options, parts_of(shape));
        for (uint64_t step = 0; step < kSteps; ++step) {
          const uint32_t count = course.micro_batches[step];
          expect_loss(train_step_of(model, comm, step, count), reference, step, 2e-5);
        }
        expect_like(model, reference, 2e-5F);
      }
    });
  }
}

TEST_CASE("a call for another number of micro-batches that cannot be changes nothing") {
  require_job({"2x1"}, [](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
    RunnerOptions options = options_for("NIG");
    options.micro_batches = 3;
    Model model(comm, options, parts_of({}));
    const auto accumulate_steps = [&](uint32_t count) {
      return [&model, count] { model.set_gradient_accumulation_steps(count); };
    };
    expect_status(HO_INVALID_ARGUMENT, "step_early", [&] { model.step_early(); });
    for (const uint32_t count : {0U, 4U}) {
      expect_status(
          HO_INVALID_ARGUMENT, "set_gradient_accumulation_steps: ", accumulate_steps(count));
    }
    expect_status(HO_MISMATCH,
                  "set_gradient_accumulation_steps: ",
                  accumulate_steps(static_cast<uint32_t>(comm.rank()) + 1));
    const torch::Tensor loss = model.forward(inputs_of(tokens_of(0, 0, 0))).sum();
    expect_status(HO_INVALID_ARGUMENT, "zero_grad: ", [&] { model.zero_grad(); });
    expect_status(HO_INVALID_ARGUMENT, "step_early", [&] { model.step_early(); });
    model.backward(loss);
    expect_status(HO_INVALID_ARGUMENT, "step", [&] { model.step(); });
    expect_status(HO_INVALID_ARGUMENT, "set_gradient_accumulation_steps: ", accumulate_steps(1));
    expect(model.step_early().applied == 1, "goes on");
  });
}

TEST_CASE("parameter groups are those of a torch optimizer") {
  Course course;
  course.groups = true;
  for (const Shape& shape : {Shape{}, Shape{true, Tie::kHead}, Shape{false, Tie::kHeadWithNorm}}) {
    const Reference reference = train_single_rank(shape, course);
    require_job({"2x2"}, [&](ho_comm* raw) {
      for (const char* strategy : {"NNN", "NIG", "IIG", "GGG"}) {
        horing::Communicator comm = copy_of(raw);
        const std::vector<Part> parts = parts_of(shape);
        std::vector<ParamGroup> groups = groups_of(parts);
        if (shape.frozen_embedding) {  // is passed over, as by an optimizer
          groups[0].params.push_back(parts[0].module->parameters()[0]);
        }
        Model model(comm, options_for(strategy), parts, groups);
        for (uint64_t step = 0; step < kSteps; ++step) {
          if (step == kSlowStep) {
            model.runner().set_learning_rate(0.005);
          }
          expect_loss(train_step(model, comm, step), reference, step, 2e-5);
        }
        expect_like(model, reference, 2e-5F);
      }
    });
  }
}

TEST_CASE("a parameter group of what is no parameter, or another group's, is refused") {
  const torch::nn::Linear line(2, 2);
  const Part part{"line", line.ptr(), [](const torch::Tensor& x) { return x; }};
  CHECK(refusal_of({part}, {{{line->weight}}, {{line->bias, line->weight}}}) ==
        "parameter line.weight is in parameter group 0, and again in group 1: put it in one");
  CHECK(refusal_of({part}, {{{line->weight, torch::ones({2})}}}) ==
        "params[1] of parameter group 0 is no parameter of any part: take it from a part's module");
}

TEST_CASE("what one rank's model is refused for is told to all ranks") {
  require_job({"2x2"}, [](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
    const torch::nn::Linear line(2, 2);
    const Part part{"line", line.ptr(), [](const torch::Tensor& x) { return x; }};
    const bool wrong = comm.rank() == 2;
    const std::vector<ParamGroup> groups{{{wrong ? torch::ones({2}) : line->weight}}};
    std::string refused;
    try {
      const Model model(comm, {}, {part}, groups);
    } catch (const std::exception& error) {
      refused = error.what();
    }
    const std::string own =
        "params[0] of parameter group 0 is no parameter of any part: take it from a part's module";
    if (refused != (wrong ? own : "rank 2 cannot take part: " + own)) {
      throw std::runtime_error("refused for: " + refused);
    }
    comm.barrier();
  });
}

TEST_CASE("a torch model trains in 16 bits") {
  for (const Shape& shape : {Shape{}, Shape{false, Tie::kHeadWithNorm}}) {
    const Reference reference = train_single_rank(shape);
    require_job({"2x2"}, [&](ho_comm* comm) {
      RunnerOptions options = options_for("IIG");
      options.parameter_dtype = HO_BFLOAT16;
      train_and_compare(comm, options, reference, shape, 0.05);
    });
  }
}

TEST_CASE("random numbers are the same when a part computes again") {
  require_job({"1x1"}, [](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
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
  const Shape shape{true, Tie::kHeadWithNorm};
  require_job({"2x2"}, [&](ho_comm* raw) {
    for (const char* strategy : {"NNN", "IIG", "GGG"}) {
      horing::Communicator comm = copy_of(raw);
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
    horing::Communicator comm = copy_of(raw);
    RunnerOptions options;
    options.strategy = "IIG";
    Model model(comm, options, parts_of({true, Tie::kHeadWithNorm}));
    SaveOptions save;
    save.tensors = model.tensors();
    expect(save.tensors.size() == 1 + 2 * 6 + 2, "has all parameters");
    expect(save.tensors[0].name == "embedding.weight" && save.tensors[0].frozen, "knows frozen");
    expect(save.tensors[3].name == "first.up.weight", "has torch's names");
    expect(save.tensors[3].shape == std::vector<uint64_t>{4 * kWidth, kWidth}, "has shapes");
    expect(save.tensors[13].name == "head.norm.weight", "calls each after the part that has it");
    model.runner().save(folder.root(), save);
  });
}

TEST_CASE("a tied parameter is one array, for every part that uses it") {
  require_job({"2x2"}, [](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
    std::vector<Part> parts = parts_of({false, Tie::kMixerAndHead});
    const torch::Tensor weight = parts[0].module->parameters()[0];
    std::set<const void*> indices;
    for (Part& part : parts) {
      if (part.name != "first") {
        part.forward = [&, forward = part.forward](const torch::Tensor& x) {
          indices.insert(weight.data_ptr());
          return forward(x);
        };
      }
    }
    // Replicated parameters lie in one place: what is elsewhere would be a copy.
    Model model(comm, options_for("NNN"), parts);
    static_cast<void>(train_step(model, comm, 0));
    expect(indices.size() == 1, "computes without copies");
    // Its units 2 and 3 have nothing of their own.
    model.runner().read_masters(2, {});
    model.runner().read_masters(3, {});
  });
}

TEST_CASE("a checkpoint's tensors are found by their names, wherever a model has them") {
  const ho::test::TemporaryFolder folder;
  require_job({"2x1"}, [&](ho_comm* raw) {
    horing::Communicator comm = copy_of(raw);
    RunnerOptions options = options_for("IIG");
    Model model(comm, options, parts_of({false, Tie::kHeadWithNorm}));
    // The same model, untied to look at: every tensor a unit of its own.
    SaveOptions save;
    std::vector<Unit> units;
    for (Tensor tensor : model.tensors()) {
      tensor.unit = static_cast<uint32_t>(units.size());
      tensor.first_element = 0;
      units.push_back({tensor.name, count_of(tensor)});
      save.tensors.push_back(tensor);
    }
    Runner saved = Runner::create(comm, options, units);
    for (uint32_t unit = 0; unit < units.size(); ++unit) {
      saved.load(unit, std::vector<float>(units[unit].trained, static_cast<float>(unit)));
    }
    saved.save(folder.root(), save);
    model.runner().restore(Checkpoint::open(folder.root()), false, model.tensors());
    const auto masters = masters_of(model);
    for (uint32_t unit = 0; unit < units.size(); ++unit) {
      const std::vector<float>& values = masters.at(units[unit].name);
      expect(values == std::vector<float>(values.size(), static_cast<float>(unit)),
             "finds " + units[unit].name);
    }
  });
}

TEST_CASE("parts need names of their own, and modules") {
  const auto same = [](const torch::Tensor& x) { return x; };
  const torch::nn::Linear line(2, 2);
  CHECK(refusal_of({{"a", line.ptr(), same}, {"a", line.ptr(), same}}) ==
        "part 1 is called \"a\": give every part a name of its own");
  CHECK(refusal_of({{"", line.ptr(), same}}) ==
        "part 0 is called \"\": give every part a name of its own");
  CHECK(refusal_of({{"a", nullptr, same}}) == "part 0 (a) has no module");
}

TEST_CASE("a parameter twice in a part is refused") {
  const torch::nn::Linear line(2, 2);
  torch::nn::Module both;
  both.register_module("a", line.ptr());
  both.register_parameter("b", line->weight);
  const Part part{
      "both", std::make_shared<torch::nn::Module>(both), [](const auto& x) { return x; }};
  CHECK(refusal_of({part}).find("register it once") != std::string::npos);
}
