// libparo under libtorch: a model whose parameters, gradients and optimizer state lie in a
// paro::Runner, trained with torch's own modules and autograd.
//
//   paro::torch_model::Model model(comm, options, parts);
//   loop: for each micro-batch: loss = f(model.forward(tokens)); model.backward(loss);
//         model.step();           or step_early() after fewer micro-batches, or zero_grad()
//
// A part is a unit: a module, and how a tensor passes through it. Parameters that require a
// gradient are trained, the others frozen. While a part computes, its parameters and their
// gradients are views of the runner's buffers: nothing is copied. At other times they are empty,
// if the strategy may hold only a piece of them.
//
// The backward pass computes a part's forward pass again, from its input. With parameters split
// over ranks, what autograd would keep of the first pass points into buffers that hold another
// part by then. So only the inputs of parts are kept, and a step takes a third more arithmetic:
// the cost of activation checkpointing, with the same saving of memory.
//
// Tied parameters: parts that have registered the same parameter (one tensor object) compute with
// the parameters of one unit, that of the first of them; the later parts share that unit
// (paro_unit.shares). So the parameter is held once, gathered for each of them, and their gradients
// are added up; nothing is copied. It has the first part's name, also in checkpoints. All other
// parameters that these parts register are in that unit too, and gathered for all of them. If they
// are large, make the tied parameter a part of its own. Parts that share a unit have none of their
// own to read (read_masters: 0 elements).
//
// Buffers (running statistics of batch norm) are not in the runner: each rank keeps its own, and
// they are in no checkpoint. A statistic that a forward pass updates is updated in both passes.
// Use norms without statistics (layer norm), or gather and save them yourself.
//
// Random numbers (dropout) are the same in both: the default CPU generator's state is kept.
//
// Errors: paro::Error from the runner, c10::Error from torch. Either breaks the step. After any
// error except HO_INVALID_ARGUMENT see paro_runner_rejoin in paro.h.
//
// Threads: as paro::Runner. Parts must not start threads that use their parameters.
//
// Build: pkg-config's paro and libtorch; build this header and libparo-torch with one compiler.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <paro/runner.hpp>
#include <string>
#include <vector>

namespace paro::torch_model {

struct Part {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  // Passes a tensor through `module`, on one thread. The result is no view of the argument or of a
  // parameter.
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

// Parameters with a weight decay or a learning rate of their own, as a torch optimizer's
// param_groups.
struct ParamGroup {
  std::vector<torch::Tensor> params;     // of the parts, each in one group; frozen ones are ignored
  std::optional<double> weight_decay{};  // none: the optimizer's
  double learning_rate_factor = 1;       // times the optimizer's, also after a change of that
};

class PARO_API Model {
 public:
  // Collective. Takes the modules' values, which must be the same on all ranks (the same seed, or
  // the same file): the first step compares them. Parts compute in options.parameter_dtype;
  // gradient_dtype is set to the same. Throws std::invalid_argument if a part has registered a
  // parameter twice or has no name of its own, and if a group has a parameter of no part or of
  // another group; the other ranks then throw horing::Error, which names the first such rank.
  // Groups are added to options.parameter_groups; parameters in none have the optimizer's values.
  // Groups are in no checkpoint: each run gives its own.
  Model(horing::Communicator& comm,
        RunnerOptions options,
        std::vector<Part> parts,
        const std::vector<ParamGroup>& groups = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  // One micro-batch through all parts. The first part's argument may be a tensor of integers
  // (tokens).
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);
  // Backward pass of a loss computed from the last forward(). The loss is multiplied by the loss
  // scale; gradients are added to the runner's. Exactly once for each forward().
  void backward(const torch::Tensor& loss);
  // Collective, after one forward() and backward() for each micro-batch of the step.
  paro_step_report step();

  // The next three call paro_runner_step_early, _discard and _set_micro_batches, and fail as these
  // do. HO_INVALID_ARGUMENT (a call between forward() and its backward(), a count out of range)
  // changes nothing; HO_MISMATCH: ranks differ in call or number.
  //
  // Collective, at the end of the data: ends the step after fewer micro-batches than it has, at
  // least one. Gradients are averaged over those.
  paro_step_report step_early();
  // Collective, after any number of micro-batches: drops their gradients, as a torch optimizer's
  // zero_grad(). Not needed after step(), which leaves no gradients; without any it does nothing.
  void zero_grad();
  // Collective, between steps: the number of micro-batches of each later step, from 1 to
  // options.micro_batches, for which memory is counted.
  void set_gradient_accumulation_steps(uint32_t count);

  // Through all parts, without gradients. Modules keep their mode: to switch dropout off, call
  // their eval() before and train() after.
  using Forward = std::function<torch::Tensor(const torch::Tensor&)>;
  // Collective, between steps, for validation and samples: gathers all parameters, trained and
  // frozen, into the modules of each rank that gives a body, and calls the body. The body may
  // compute with them any number of times. During the call the whole model takes memory of its own,
  // which paro_runner_memory does not count. Ranks without a body ({}) only send their share; if
  // another rank's body takes long, let them wait for it in a barrier.
  void evaluate(const std::function<void(const Forward&)>& body);

  [[nodiscard]] Runner& runner() noexcept;
  // The parameters' names and places, for SaveOptions and Runner::restore: "part.weight".
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept;

  class State;  // internal

 private:
  std::unique_ptr<State> state_;
};

}  // namespace paro::torch_model
