// First, so that it is compiled alone: the headers' check has no libtorch.
// clang-format off
#include <paro/torch.hpp>
// clang-format on

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

namespace paro::torch_model {

// A parameter's place in its unit's trained or frozen array.
struct Slot {
  torch::Tensor parameter;
  std::string name;
  std::vector<int64_t> shape;
  int64_t first = 0;
  int64_t count = 0;
};

namespace {

torch::ScalarType type_of(ho_dtype dtype) {
  switch (dtype) {
    case HO_BFLOAT16:
      return torch::kBFloat16;
    case HO_FLOAT16:
      return torch::kFloat16;
    default:
      return torch::kFloat32;
  }
}

torch::Tensor view_in(const torch::Tensor& all, const Slot& slot) {
  return all.narrow(0, slot.first, slot.count).view(slot.shape);
}

torch::Tensor over(const void* data, int64_t count, torch::ScalarType type) {
  // The library promises that what is read only is not written: torch has no type for that.
  return torch::from_blob(const_cast<void*>(data), {count}, torch::dtype(type));  // NOLINT
}

torch::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const torch::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

void check_parts(const std::vector<Part>& parts) {
  std::set<std::string> names;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].name.empty() || !names.insert(parts[p].name).second) {
      refuse("part " + std::to_string(p) + " is called \"" + parts[p].name +
             "\": give every part a name of its own");
    }
    if (parts[p].module == nullptr) {
      refuse("part " + std::to_string(p) + " (" + parts[p].name + ") has no module");
    }
  }
}

// Parts are units. Those that have a parameter in common compute with one unit's parameters: the
// first of them has them all, in libparo's sense, the others share that unit. So a tied parameter
// is held once and gathered for every part that uses it, as any other.
//
// The index of that first part, for each part.
std::vector<uint32_t> homes_of(const std::vector<Part>& parts) {
  check_parts(parts);
  std::vector<uint32_t> homes;
  std::map<const void*, uint32_t> first_user;
  for (uint32_t p = 0; p < parts.size(); ++p) {
    homes.push_back(p);
    for (const torch::Tensor& parameter : parts[p].module->parameters()) {
      const uint32_t other =
          homes[first_user.try_emplace(parameter.unsafeGetTensorImpl(), p).first->second];
      const uint32_t joined = std::max(homes[p], other);
      std::replace(homes.begin(), homes.end(), joined, std::min(homes[p], other));
    }
  }
  return homes;
}

}  // namespace

// The parameters of one unit: a part's, and those of later parts that share them.
class UnitParameters {
 public:
  explicit UnitParameters(torch::ScalarType type) : type_(type) {}

  const Slot& add(const std::string& name, const torch::Tensor& parameter) {
    const bool trained = parameter.requires_grad();
    int64_t& count = trained ? trained_count_ : frozen_count_;
    std::vector<Slot>& slots = trained ? trained_ : frozen_;
    slots.push_back({parameter, name, parameter.sizes().vec(), count, parameter.numel()});
    count += parameter.numel();
    return slots.back();
  }
  [[nodiscard]] int64_t count(bool trained) const {
    return trained ? trained_count_ : frozen_count_;
  }
  [[nodiscard]] const std::vector<Slot>& slots(bool trained) const {
    return trained ? trained_ : frozen_;
  }

  // All values of one array, in fp32.
  [[nodiscard]] torch::Tensor values(bool trained) const {
    const torch::NoGradGuard no_grad;
    torch::Tensor all = torch::empty({count(trained)}, torch::kFloat32);
    for (const Slot& slot : slots(trained)) {
      view_in(all, slot).copy_(slot.parameter.detach());
    }
    return all;
  }

  void bind(const UnitView& view) {
    const paro_unit_view& raw = view.raw();
    if (raw.trained != nullptr) {
      bind(trained_, over(raw.trained, trained_count_, type_));
    }
    if (raw.frozen != nullptr) {
      bind(frozen_, over(raw.frozen, frozen_count_, type_));
    }
    if (raw.gradients != nullptr) {
      const torch::Tensor gradients = over(raw.gradients, trained_count_, type_);
      for (Slot& slot : trained_) {
        slot.parameter.mutable_grad() = view_in(gradients, slot);
      }
    }
  }
  // In memory of their own.
  void bind_values(const torch::Tensor& trained, const torch::Tensor& frozen) {
    bind(trained_, trained.to(type_));
    bind(frozen_, frozen.to(type_));
  }
  void release() {
    const torch::Tensor none = torch::empty({0}, torch::dtype(type_));
    for (auto* const slots : {&trained_, &frozen_}) {
      for (Slot& slot : *slots) {
        slot.parameter.mutable_grad() = torch::Tensor();
        slot.parameter.set_data(none);
      }
    }
  }

 private:
  static void bind(std::vector<Slot>& slots, const torch::Tensor& all) {
    for (Slot& slot : slots) {
      slot.parameter.set_data(view_in(all, slot));
    }
  }

  torch::ScalarType type_;
  std::vector<Slot> trained_;
  std::vector<Slot> frozen_;
  int64_t trained_count_ = 0;
  int64_t frozen_count_ = 0;
};

// A row of parts as libparo's units, of the same numbers, with the places of their parameters.
class Units {
 public:
  Units(const std::vector<Part>& parts, torch::ScalarType type)
      : homes_(homes_of(parts)), parameters_(parts.size(), UnitParameters(type)) {
    for (uint32_t p = 0; p < parts.size(); ++p) {
      parts[p].module->to(type);
      add(parts[p], p);
      names_.push_back(parts[p].name);
    }
  }

  [[nodiscard]] bool has_own(uint32_t part) const { return homes_[part] == part; }
  // That a part computes with.
  [[nodiscard]] UnitParameters& of(uint32_t part) { return parameters_[homes_[part]]; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] std::vector<Unit> units() const {
    std::vector<Unit> units;
    for (uint32_t p = 0; p < homes_.size(); ++p) {
      units.push_back({names_[p],
                       static_cast<uint64_t>(parameters_[p].count(true)),
                       static_cast<uint64_t>(parameters_[p].count(false)),
                       has_own(p) ? "" : names_[homes_[p]]});
    }
    return units;
  }
  // `weight_decay`: of groups that do not set it.
  [[nodiscard]] std::vector<paro_parameter_group> ranges_of(const std::vector<ParamGroup>& groups,
                                                            double weight_decay) const {
    const auto group_of = groups_of_parameters(groups);
    std::vector<paro_parameter_group> ranges;
    for (uint32_t unit = 0; unit < parameters_.size(); ++unit) {
      for (const Slot& slot : parameters_[unit].slots(true)) {
        const auto found = group_of.find(slot.parameter.unsafeGetTensorImpl());
        if (found == group_of.end() || slot.count == 0) {
          continue;
        }
        const ParamGroup& group = groups[found->second];
        ranges.push_back({unit,
                          0,
                          static_cast<uint64_t>(slot.first),
                          static_cast<uint64_t>(slot.count),
                          group.learning_rate_factor,
                          group.weight_decay.value_or(weight_decay)});
      }
    }
    return ranges;
  }

 private:
  void add(const Part& part, uint32_t unit) {
    std::set<const void*> seen;
    for (const auto& named : part.module->named_parameters()) {
      const torch::Tensor& parameter = named.value();
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        refuse("parameter " + named.key() + " of part " + part.name +
               " is in another place of that part too: register it once");
      }
      const std::string name = part.name + "." + named.key();
      if (!names_of_parameters_.try_emplace(parameter.unsafeGetTensorImpl(), name).second) {
        continue;  // an earlier part's, which this one shares
      }
      const uint32_t home = homes_[unit];
      const Slot& slot = parameters_[home].add(name, parameter);
      tensors_.push_back({slot.name,
                          home,
                          !parameter.requires_grad(),
                          static_cast<uint64_t>(slot.first),
                          {slot.shape.begin(), slot.shape.end()}});
    }
  }

  // Which group each parameter is in that is in one.
  [[nodiscard]] std::map<const void*, size_t> groups_of_parameters(
      const std::vector<ParamGroup>& groups) const {
    std::map<const void*, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t i = 0; i < groups[g].params.size(); ++i) {
        const void* const parameter = groups[g].params[i].unsafeGetTensorImpl();
        const auto name = names_of_parameters_.find(parameter);
        if (name == names_of_parameters_.end()) {
          refuse("params[" + std::to_string(i) + "] of parameter group " + std::to_string(g) +
                 " is no parameter of any part: take it from a part's module");
        }
        const auto [other, first] = group_of.try_emplace(parameter, g);
        if (!first) {
          refuse("parameter " + name->second + " is in parameter group " +
                 std::to_string(other->second) + ", and again in group " + std::to_string(g) +
                 ": put it in one");
        }
      }
    }
    return group_of;
  }

  std::vector<std::string> names_;
  std::map<const void*, std::string> names_of_parameters_;
  std::vector<uint32_t> homes_;
  std::vector<UnitParameters> parameters_;  // by part; none where it shares another's
  std::vector<Tensor> tensors_;
};

namespace {

// What `make` returns, on all ranks or on none: a rank on which it throws sends the reason to the
// others, which would wait for it in the next collective.
template <typename Make>
auto on_all_ranks(horing::Communicator& comm, const Make& make) {
  constexpr size_t kTextBytes = 512;
  std::optional<decltype(make())> made;
  std::array<uint8_t, kTextBytes> refusal{};  // begins with 0: none
  std::exception_ptr thrown;
  try {
    made.emplace(make());
  } catch (const std::exception& error) {
    thrown = std::current_exception();
    const std::string text = error.what();
    std::copy_n(text.begin(), std::min(text.size(), kTextBytes), refusal.begin());
  }
  std::vector<uint8_t> all(kTextBytes * static_cast<size_t>(comm.world_size()));
  try {
    comm.all_gather(std::span<const uint8_t>(refusal), std::span(all));
  } catch (const horing::Error&) {
    if (!thrown) {
      throw;
    }
  }
  if (thrown) {
    std::rethrow_exception(thrown);
  }
  for (size_t rank = 0; rank * kTextBytes < all.size(); ++rank) {
    const auto* const text = reinterpret_cast<const char*>(&all[rank * kTextBytes]);
    if (*text != 0) {
      throw horing::Error(HO_INVALID_ARGUMENT,
                          "rank " + std::to_string(rank) + " cannot take part: " +
                              std::string(text, ::strnlen(text, kTextBytes)));
    }
  }
  return *std::move(made);
}

}  // namespace

class Model::State {
 public:
  State(horing::Communicator& comm,
        RunnerOptions options,
        std::vector<Part> parts,
        const std::vector<ParamGroup>& groups)
      : type_(type_of(options.parameter_dtype)),
        parts_(std::move(parts)),
        units_(on_all_ranks(comm, [&] { return made(parts_, groups, options); })),
        runner_(Runner::create(comm, options, units_.units())) {
    for (uint32_t u = 0; u < parts_.size(); ++u) {
      if (!units_.has_own(u)) {
        continue;
      }
      const torch::Tensor trained = units_.of(u).values(true);
      const torch::Tensor frozen = units_.of(u).values(false);
      runner_.load(u, span_of(trained), span_of(frozen));
      units_.of(u).release();
    }
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

  void backward(const torch::Tensor& loss) { (loss * runner_.loss_scale()).backward(); }

  // Around the first and the second time that a part computes.
  [[nodiscard]] torch::Tensor first_pass(uint32_t unit, const torch::Tensor& input) {
    UnitParameters& parameters = units_.of(unit);
    parameters.bind(runner_.before_forward(unit));
    const torch::Tensor output = parts_[unit].forward(input);
    parameters.release();
    runner_.after_forward(unit);
    return output;
  }
  [[nodiscard]] torch::Tensor second_pass(uint32_t unit,
                                          const torch::Tensor& input,
                                          const torch::Tensor& gradient) {
    UnitParameters& parameters = units_.of(unit);
    parameters.bind(runner_.before_backward(unit));
    torch::Tensor again = input.detach();
    again.set_requires_grad(input.is_floating_point());
    {
      const torch::AutoGradMode with_grad(true);
      const torch::Tensor output = parts_[unit].forward(again);
      if (output.requires_grad()) {  // else all of the part is frozen, and before all others
        torch::autograd::backward({output}, {gradient});
      }
    }
    parameters.release();
    runner_.after_backward(unit);
    return again.grad();
  }

  void evaluate(const std::function<void(const Forward&)>& body);

  [[nodiscard]] Runner& runner() { return runner_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return units_.tensors(); }

 private:
  static std::span<float> span_of(const torch::Tensor& values) {
    return {values.data_ptr<float>(), static_cast<size_t>(values.numel())};
  }
  void release_all() {
    for (uint32_t u = 0; u < parts_.size(); ++u) {
      units_.of(u).release();
    }
  }
  static double weight_decay_of(const RunnerOptions& options) {
    if (options.custom) {
      return 0;
    }
    return options.optimizer == PARO_OPTIMIZER_SGD ? options.sgd.weight_decay
                                                   : options.adamw.weight_decay;
  }
  // Completes the options from the units and groups.
  static Units made(const std::vector<Part>& parts,
                    const std::vector<ParamGroup>& groups,
                    RunnerOptions& options) {
    Units units(parts, type_of(options.parameter_dtype));
    options.gradient_dtype = options.parameter_dtype;
    const auto ranges = units.ranges_of(groups, weight_decay_of(options));
    options.parameter_groups.insert(options.parameter_groups.end(), ranges.begin(), ranges.end());
    return units;
  }

  torch::ScalarType type_;
  std::vector<Part> parts_;
  Units units_;
  Runner runner_;
  // So that the output of a part has a gradient function, also where tokens go in.
  torch::Tensor anchor_ = torch::zeros({1}).set_requires_grad(true);
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One part in autograd's graph.
class PartFunction : public torch::autograd::Function<PartFunction> {
 public:
  static torch::Tensor forward(AutogradContext* context,
                               const torch::Tensor& input,
                               const torch::Tensor& /*anchor*/,
                               Model::State* state,
                               int64_t unit) {
    context->save_for_backward({input, random_state()});
    context->saved_data["state"] = reinterpret_cast<int64_t>(state);
    context->saved_data["unit"] = unit;
    return state->first_pass(static_cast<uint32_t>(unit), input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    auto* const state = reinterpret_cast<Model::State*>(context->saved_data["state"].toInt());
    const auto unit = static_cast<uint32_t>(context->saved_data["unit"].toInt());
    const torch::Tensor random = random_state();
    set_random_state(saved[1]);
    torch::Tensor gradient = state->second_pass(unit, saved[0], gradients[0]);
    set_random_state(random);
    return {std::move(gradient), torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor Model::State::forward(const torch::Tensor& input) {
  torch::Tensor output = input;
  for (size_t unit = 0; unit < parts_.size(); ++unit) {
    output = PartFunction::apply(output, anchor_, this, static_cast<int64_t>(unit));
  }
  return output;
}

namespace {

// Errors of what the runner calls otherwise begin with the name that was called here.
template <typename Call>
void with_name(const char* name, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    throw Error(error.status(), std::string(name) + ": " + error.what());
  }
}

}  // namespace

void Model::State::evaluate(const std::function<void(const Forward&)>& body) {
  struct Released {
    State& state;
    ~Released() { state.release_all(); }
  };
  const Released released{*this};
  const torch::NoGradGuard no_grad;
  for (uint32_t u = 0; u < parts_.size(); ++u) {
    if (!units_.has_own(u)) {
      continue;
    }
    UnitParameters& parameters = units_.of(u);
    const torch::Tensor trained = torch::empty({parameters.count(true)}, torch::kFloat32);
    const torch::Tensor frozen = torch::empty({parameters.count(false)}, torch::kFloat32);
    runner_.read_masters(u, span_of(trained));
    runner_.read_frozen(u, span_of(frozen));
    if (body) {
      parameters.bind_values(trained, frozen);
    }
  }
  if (body) {
    body([this](const torch::Tensor& input) {
      const torch::NoGradGuard without_grad;
      torch::Tensor output = input;
      for (const Part& part : parts_) {
        output = part.forward(output);
      }
      return output;
    });
  }
}

Model::Model(horing::Communicator& comm,
             RunnerOptions options,
             std::vector<Part> parts,
             const std::vector<ParamGroup>& groups)
    : state_(std::make_unique<State>(comm, std::move(options), std::move(parts), groups)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

torch::Tensor Model::forward(const torch::Tensor& input) {
  return state_->forward(input);
}

void Model::backward(const torch::Tensor& loss) {
  state_->backward(loss);
}

void Model::evaluate(const std::function<void(const Forward&)>& body) {
  state_->evaluate(body);
}

paro_step_report Model::step() {
  return state_->runner().step();
}

paro_step_report Model::step_early() {
  return state_->runner().step_early();
}

void Model::zero_grad() {
  with_name("zero_grad", [&] { state_->runner().discard(); });
}

void Model::set_gradient_accumulation_steps(uint32_t count) {
  with_name("set_gradient_accumulation_steps", [&] { state_->runner().set_micro_batches(count); });
}

Runner& Model::runner() noexcept {
  return state_->runner();
}

const std::vector<Tensor>& Model::tensors() const noexcept {
  return state_->tensors();
}

}  // namespace paro::torch_model
