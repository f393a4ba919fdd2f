// libparo under libtorch: a model whose parameters, gradients and optimizer state lie in a
// paro::Runner, trained with torch's own modules and autograd.
//
//   paro::torch_model::Model model(comm, options, parts);
//   loop: for each micro-batch: loss = f(model.forward(tokens)); model.backward(loss);
//         model.step();           or step_early() after fewer micro-batches, or zero_grad()
//
// A part is a unit: a module, and how a tensor goes through it. Parameters that require a gradient
// are trained, the others frozen. While a part computes, its parameters and their gradients are
// views of the runner's buffers: nothing is copied. Between, they are empty, wherever the strategy
// may hold only a piece of them.
//
// The backward pass computes a part's forward pass again, from its input: with parameters split
// over ranks, what autograd would keep of the first pass points into buffers that hold another
// part by then. So of the first pass only the inputs of parts stay, and a step takes a third more
// arithmetic (what activation checkpointing costs, and the memory it saves).
//
// Tied parameters: parts that have registered the same parameter (one tensor object) compute with
// one unit's parameters, those of the first of them; the later parts share that unit
// (paro_unit.shares). So it is held once, gathered for each of them, and their gradients are added
// up; nothing is copied. Names and checkpoints know it in the first part. Whatever else these parts
// register is of that unit too, and gathered for all of them: where that is much, make what is tied
// a part of its own. Those parts that share a unit have none of their own to read (read_masters: 0
// elements).
//
// Buffers (running statistics of batch norm) are not the runner's: each rank keeps its own, they
// are in no checkpoint, and a statistic that a forward pass moves is moved by both of its passes.
// Take norms without such (layer norm), or gather and save them yourself.
//
// Random numbers (dropout) are the same in both: the default CPU generator's state is kept.
//
// Errors: paro::Error from the runner, c10::Error from torch. Either breaks the step; after
// anything but HO_INVALID_ARGUMENT see paro_runner_rejoin in paro.h.
//
// Threads: as paro::Runner. Parts must not start threads that use their parameters.
//
// Build: pkg-config's paro and libtorch; this header and libparo-torch come from one compiler.
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
  // Through `module`, on one thread. The result is no view of the argument or of a parameter.
  std::function<torch::Tensor(const torch::Tensor&)> forward;
};

// Parameters with a weight decay or a learning rate of their own, as a torch optimizer's
// param_groups.
struct ParamGroup {
  std::vector<torch::Tensor> params;     // of the parts, each in one group; frozen ones count not
  std::optional<double> weight_decay{};  // none: the optimizer's
  double learning_rate_factor = 1;       // times the optimizer's, also where that is set anew
};

class PARO_API Model {
 public:
  // Collective. Takes the modules' values, which must be the same on all ranks (the same seed, or
  // the same file): the first step compares them. options.parameter_dtype is
  // what parts compute in, and gradients too: gradient_dtype follows it. Throws
  // std::invalid_argument, and on the other ranks horing::Error with the first such rank, where a
  // part has registered a parameter twice, or has no name of its own, and where a group has a
  // parameter of no part or of another group. Groups are added to options.parameter_groups;
  // parameters in none have the optimizer's values. They are in no checkpoint: each run gives its
  // own.
  Model(horing::Communicator& comm,
        RunnerOptions options,
        std::vector<Part> parts,
        const std::vector<ParamGroup>& groups = {});
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  // Through all parts, one micro-batch. A tensor of whole numbers (tokens) as the first part's
  // argument is fine.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);
  // Of a loss that came of the last forward(): multiplied by the loss scale, gradients are added to
  // the runner's. Exactly one for each forward().
  void backward(const torch::Tensor& loss);
  // Collective, after as many forward() and backward() as a step has micro-batches.
  paro_step_report step();

  // How paro_runner_step_early, _discard and _set_micro_batches are called here. They fail as those
  // do: HO_INVALID_ARGUMENT (a call between forward() and its backward(), a count that is out of
  // range) changes nothing, HO_MISMATCH is that of ranks that differ in call or number.
  //
  // Collective, where the data ends: the step after fewer micro-batches than it has, at least one.
  // Gradients are averaged over those that there were.
  paro_step_report step_early();
  // Collective, after any number of micro-batches: drops the gradients that they have added up. As
  // an optimizer's; but step() leaves none behind, and where there are none it does nothing.
  void zero_grad();
  // Collective, between steps: how many micro-batches each step has from now on, 1 to
  // options.micro_batches, for which memory is counted.
  void set_gradient_accumulation_steps(uint32_t count);

  // Through all parts, without gradients. Modules stay in the mode that they are in: call their
  // eval() before, where dropout is to be off, and train() after.
  using Forward = std::function<torch::Tensor(const torch::Tensor&)>;
  // Collective, between steps, for validation and samples: brings all parameters, trained and
  // frozen, whole into the modules of each rank that gives a body, and has that compute with them
  // as often as it likes. They are the model in memory of its own, outside of the runner's account,
  // for that time. Ranks without a body ({}) only send their share; let them wait (barrier) for one
  // whose body takes long.
  void evaluate(const std::function<void(const Forward&)>& body);

  [[nodiscard]] Runner& runner() noexcept;
  // The parameters' names and places, for SaveOptions and Runner::restore: "part.weight".
  [[nodiscard]] const std::vector<Tensor>& tensors() const noexcept;

  class State;  // the library's own

 private:
  std::unique_ptr<State> state_;
};

}  // namespace paro::torch_model
