// A libtorch model on sharded states trains as torch's own optimizer trains it in one process.
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "alone.hpp"
#include "catch.hpp"
#include "job.hpp"
#include "strategy/strategy.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::require_job;
using paro::torch_model::Model;

namespace {

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
