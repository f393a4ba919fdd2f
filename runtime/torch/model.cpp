// First, so that it is compiled alone: the headers' check has no libtorch.
// clang-format off
#include <paro/torch.hpp>
// clang-format on

#include <ATen/CPUGeneratorImpl.h>

#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace paro::torch_model {

// A parameter's place in its unit's trained or frozen array.
struct Slot {
  torch::Tensor parameter;
  std::vector<int64_t> shape;
  int64_t first = 0;
  int64_t count = 0;
};

// A parameter that several parts use. It is of the first one's unit, and while that computes it
// lies in the runner's buffer as any other; the later parts borrow it. So it is one parameter to
// the runner, whatever the strategy, and its gradients are one gradient.
struct Tied {
  torch::Tensor parameter;
  torch::Tensor value;     // a copy, from the owner's first pass to its second
  torch::Tensor gradient;  // that borrowers have added up since; none: undefined
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

}  // namespace

// One part with its parameters' places.
class PartState {
 public:
  PartState(Part part, torch::ScalarType type) : part_(std::move(part)), type_(type) {
    part_.module->to(type);
  }

  [[nodiscard]] auto named_parameters() const { return part_.module->named_parameters(); }
  [[nodiscard]] const std::string& name() const { return part_.name; }

  void own(const std::string& name, const torch::Tensor& parameter) {
    auto& slots = parameter.requires_grad() ? trained_ : frozen_;
    int64_t& count = parameter.requires_grad() ? trained_count_ : frozen_count_;
    slots.push_back({parameter, parameter.sizes().vec(), count, parameter.numel()});
    names_.push_back({name, parameter.requires_grad(), slots.size() - 1});
    count += parameter.numel();
  }
  void lend(std::shared_ptr<Tied> tied) { lent_.push_back(std::move(tied)); }
  void borrow(std::shared_ptr<Tied> tied) { borrowed_.push_back(std::move(tied)); }

  [[nodiscard]] Unit unit() const {
    return {
        part_.name, static_cast<uint64_t>(trained_count_), static_cast<uint64_t>(frozen_count_)};
  }
  [[nodiscard]] int64_t count(bool trained) const {
    return trained ? trained_count_ : frozen_count_;
  }
  [[nodiscard]] const std::vector<Slot>& slots(bool trained) const {
    return trained ? trained_ : frozen_;
  }
  [[nodiscard]] std::vector<Tensor> tensors(uint32_t unit) const {
    std::vector<Tensor> all;
    for (const Name& name : names_) {
      const Slot& slot = slots(name.trained)[name.slot];
      all.push_back({part_.name + "." + name.text,
                     unit,
                     !name.trained,
                     static_cast<uint64_t>(slot.first),
                     {slot.shape.begin(), slot.shape.end()}});
    }
    return all;
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
    for (const auto& tied : borrowed_) {
      tied->parameter.set_data(tied->value);
    }
  }
  // The part's own parameters, in memory of their own.
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
    for (const auto& tied : borrowed_) {
      tied->parameter.mutable_grad() = torch::Tensor();
      tied->parameter.set_data(none);
    }
  }

  // The rest is of tied parameters, while they are bound.
  // After the first pass: for the parts that follow.
  void give_copies() {
    for (const auto& tied : lent_) {
      tied->value = tied->parameter.detach().clone();
      tied->gradient = torch::Tensor();
    }
  }
  // Before the second pass: where this part's gradients of what it has borrowed go.
  void bind_borrowed_gradients() {
    for (const auto& tied : borrowed_) {
      if (!tied->parameter.requires_grad()) {
        continue;
      }
      if (!tied->gradient.defined()) {
        tied->gradient = torch::zeros_like(tied->value);
      }
      tied->parameter.mutable_grad() = tied->gradient;
    }
  }
  // After the second pass: backward goes from the last part to the first, so no borrower follows.
  void take_gradients() {
    const torch::NoGradGuard no_grad;
    for (const auto& tied : lent_) {
      if (tied->gradient.defined()) {
        tied->parameter.mutable_grad().add_(tied->gradient);
      }
      tied->value = torch::Tensor();
      tied->gradient = torch::Tensor();
    }
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) const {
    return part_.forward(input);
  }

 private:
  struct Name {
    std::string text;
    bool trained = true;
    size_t slot = 0;
  };
  static void bind(std::vector<Slot>& slots, const torch::Tensor& all) {
    for (Slot& slot : slots) {
      slot.parameter.set_data(view_in(all, slot));
    }
  }

  Part part_;
  torch::ScalarType type_;
  std::vector<Slot> trained_;
  std::vector<Slot> frozen_;
  std::vector<Name> names_;
  std::vector<std::shared_ptr<Tied>> lent_;
  std::vector<std::shared_ptr<Tied>> borrowed_;
  int64_t trained_count_ = 0;
  int64_t frozen_count_ = 0;
};

class Model::State {
 public:
  State(horing::Communicator& comm, RunnerOptions options, std::vector<Part> parts)
      : type_(type_of(options.parameter_dtype)),
        parts_(states_of(std::move(parts), type_)),
        runner_(made(comm, std::move(options), parts_)) {
    for (uint32_t u = 0; u < parts_.size(); ++u) {
      const torch::Tensor trained = parts_[u].values(true);
      const torch::Tensor frozen = parts_[u].values(false);
      runner_.load(u, span_of(trained), span_of(frozen));
      parts_[u].release();
      const std::vector<Tensor> named = parts_[u].tensors(u);
      tensors_.insert(tensors_.end(), named.begin(), named.end());
    }
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

  void backward(const torch::Tensor& loss) { (loss * runner_.loss_scale()).backward(); }

  // Around the first and the second time that a part computes.
  [[nodiscard]] torch::Tensor first_pass(uint32_t unit, const torch::Tensor& input) {
    PartState& part = parts_[unit];
    part.bind(runner_.before_forward(unit));
    const torch::Tensor output = part.forward(input);
    part.give_copies();
    part.release();
    runner_.after_forward(unit);
    return output;
  }
  [[nodiscard]] torch::Tensor second_pass(uint32_t unit,
                                          const torch::Tensor& input,
                                          const torch::Tensor& gradient) {
    PartState& part = parts_[unit];
    part.bind(runner_.before_backward(unit));
    part.bind_borrowed_gradients();
    torch::Tensor again = input.detach();
    again.set_requires_grad(input.is_floating_point());
    {
      const torch::AutoGradMode with_grad(true);
      const torch::Tensor output = part.forward(again);
      if (output.requires_grad()) {  // else all of the part is frozen, and before all others
        torch::autograd::backward({output}, {gradient});
      }
    }
    part.take_gradients();
    part.release();
    runner_.after_backward(unit);
    return again.grad();
  }

  void evaluate(const std::function<void(const Forward&)>& body);

  [[nodiscard]] Runner& runner() { return runner_; }
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  static std::span<float> span_of(const torch::Tensor& values) {
    return {values.data_ptr<float>(), static_cast<size_t>(values.numel())};
  }
  void release_all() {
    for (PartState& part : parts_) {
      part.release();
    }
  }
  // Where a parameter was first seen; `tied` once it has been seen again.
  struct Owner {
    size_t part = 0;
    std::shared_ptr<Tied> tied;
  };
  static std::vector<PartState> states_of(std::vector<Part> parts, torch::ScalarType type) {
    std::map<const void*, Owner> owners;
    std::vector<PartState> states;
    for (Part& part : parts) {
      states.emplace_back(std::move(part), type);
      share_out(states, owners);
    }
    return states;
  }
  // The last part's parameters.
  static void share_out(std::vector<PartState>& states, std::map<const void*, Owner>& owners) {
    PartState& part = states.back();
    std::set<const void*> seen;
    for (const auto& named : part.named_parameters()) {
      const torch::Tensor& parameter = named.value();
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) {
        throw std::invalid_argument("parameter " + named.key() + " of part " + part.name() +
                                    " is in another place of that part too: register it once");
      }
      const auto [owner, first] =
          owners.try_emplace(parameter.unsafeGetTensorImpl(), Owner{states.size() - 1, nullptr});
      if (first) {
        part.own(named.key(), parameter);
        continue;
      }
      if (owner->second.tied == nullptr) {
        owner->second.tied = std::make_shared<Tied>(Tied{parameter, {}, {}});
        states[owner->second.part].lend(owner->second.tied);
      }
      part.borrow(owner->second.tied);
    }
  }
  static Runner made(horing::Communicator& comm,
                     RunnerOptions options,
                     const std::vector<PartState>& parts) {
    options.gradient_dtype = options.parameter_dtype;
    std::vector<Unit> units;
    for (const PartState& part : parts) {
      units.push_back(part.unit());
    }
    return Runner::create(comm, options, units);
  }

  torch::ScalarType type_;
  std::vector<PartState> parts_;
  Runner runner_;
  std::vector<Tensor> tensors_;
  // So that what comes out of a part has a gradient function, also where tokens go in.
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

void Model::State::evaluate(const std::function<void(const Forward&)>& body) {
  struct Released {
    State& state;
    ~Released() { state.release_all(); }
  };
  const Released released{*this};
  const torch::NoGradGuard no_grad;
  for (uint32_t u = 0; u < parts_.size(); ++u) {
    const torch::Tensor trained = torch::empty({parts_[u].count(true)}, torch::kFloat32);
    const torch::Tensor frozen = torch::empty({parts_[u].count(false)}, torch::kFloat32);
    runner_.read_masters(u, span_of(trained));
    runner_.read_frozen(u, span_of(frozen));
    if (body) {
      parts_[u].bind_values(trained, frozen);
    }
  }
  if (body) {
    body([this](const torch::Tensor& input) {
      const torch::NoGradGuard without_grad;
      torch::Tensor output = input;
      for (const PartState& part : parts_) {
        output = part.forward(output);
      }
      return output;
    });
  }
}

Model::Model(horing::Communicator& comm, RunnerOptions options, std::vector<Part> parts)
    : state_(std::make_unique<State>(comm, std::move(options), std::move(parts))) {}
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

Runner& Model::runner() noexcept {
  return state_->runner();
}

const std::vector<Tensor>& Model::tensors() const noexcept {
  return state_->tensors();
}

}  // namespace paro::torch_model
