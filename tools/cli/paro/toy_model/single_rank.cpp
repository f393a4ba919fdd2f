// The single-rank baseline: whole states, plain loops, double precision. Nothing of the runtime is
// used here.
#include <algorithm>
#include <cmath>

#include "cli/paro/toy_model/training.hpp"
#include "reduce/reduce.hpp"

namespace paro::toy {
namespace {

// One number of the optimizer.
struct Number {
  double master = 0;
  double first = 0;
  double second = 0;
};

void step_one(const AdamW& rule, uint64_t step, double gradient, Number& n) {
  const auto t = static_cast<double>(step);
  n.first = rule.beta1 * n.first + (1 - rule.beta1) * gradient;
  n.second = rule.beta2 * n.second + (1 - rule.beta2) * gradient * gradient;
  const double mean = n.first / (1 - std::pow(rule.beta1, t));
  const double spread = std::sqrt(n.second / (1 - std::pow(rule.beta2, t)));
  n.master -= rule.learning_rate * (rule.weight_decay * n.master + mean / (spread + rule.epsilon));
}

void step_one(const Sgd& rule, uint64_t /*step*/, double gradient, Number& n) {
  n.first = rule.momentum * n.first + gradient + rule.weight_decay * n.master;
  n.master -= rule.learning_rate * n.first;
}

class SingleRank {
 public:
  SingleRank(uint32_t world, const Training& training)
      : world_(world), training_(training), model_(Model::make(training.model).value()) {
    for (size_t u = 0; u < model_.units().size(); ++u) {
      std::vector<float> trained(model_.units()[u].trained);
      std::vector<float> frozen(model_.units()[u].frozen);
      model_.initial(u, trained, frozen);
      numbers_.emplace_back(trained.size());
      for (size_t i = 0; i < trained.size(); ++i) {
        numbers_.back()[i].master = trained[i];
      }
      frozen_.push_back(rounded(frozen));
    }
  }

  Outcome train() && {
    Outcome outcome;
    for (uint64_t step = 0; step < training_.steps; ++step) {
      outcome.steps.push_back(train_step(step));
    }
    for (const auto& unit : numbers_) {
      outcome.masters.emplace_back();
      for (const Number& number : unit) {
        outcome.masters.back().push_back(static_cast<float>(number.master));
      }
    }
    return outcome;
  }

 private:
  // As a framework would see them: rounded to the parameters' type, and back.
  [[nodiscard]] std::vector<float> rounded(std::vector<float> values) const {
    const ho::DType dtype = training_.runner.parameter_dtype;
    if (dtype != ho::DType::kFloat32) {
      std::vector<uint16_t> narrow(values.size());
      ho::narrow(dtype, narrow.data(), values.data(), values.size());
      ho::widen(dtype, values.data(), narrow.data(), values.size());
    }
    return values;
  }

  [[nodiscard]] std::vector<std::vector<float>> parameters() const {
    std::vector<std::vector<float>> all;
    for (const auto& unit : numbers_) {
      std::vector<float> values;
      values.reserve(unit.size());
      for (const Number& number : unit) {
        values.push_back(static_cast<float>(number.master));
      }
      all.push_back(rounded(std::move(values)));
    }
    return all;
  }

  // Adds the gradients of one rank's micro-batch; its loss.
  double add_gradients(const std::vector<std::vector<float>>& parameters,
                       Batch batch,
                       std::vector<std::vector<double>>& sums) const {
    Pass pass = model_.begin(std::move(batch));
    const auto seen = [&](uint32_t unit) {
      const uint32_t home = model_.home(unit);
      return Parameters{ho::DType::kFloat32, parameters[home].data(), frozen_[home].data()};
    };
    const auto units = static_cast<uint32_t>(parameters.size());
    for (uint32_t u = 0; u < units; ++u) {
      model_.forward(u, seen(u), pass);
    }
    for (uint32_t u = units; u-- > 0;) {
      const uint32_t home = model_.home(u);
      std::vector<float> gradient(parameters[home].size(), 0);
      model_.backward(u, seen(u), {ho::DType::kFloat32, gradient.data()}, pass, 1);
      for (size_t i = 0; i < gradient.size(); ++i) {
        sums[home][i] += static_cast<double>(gradient[i]);
      }
    }
    return pass.loss;
  }

  StepOutcome train_step(uint64_t step) {
    const auto whole = parameters();
    std::vector<std::vector<double>> sums;
    sums.reserve(whole.size());
    for (const auto& unit : whole) {
      sums.emplace_back(unit.size(), 0.0);
    }
    const uint32_t shares = world_ * training_.runner.micro_batches;
    StepOutcome outcome;
    for (uint64_t share = 0; share < shares; ++share) {
      outcome.loss +=
          add_gradients(
              whole, model_.batch_of(step, {share * training_.samples, training_.samples}), sums) /
          shares;
    }
    double squared = 0;
    for (auto& unit : sums) {
      for (double& value : unit) {
        value /= shares;
        squared += value * value;
      }
    }
    outcome.norm = std::sqrt(squared);
    outcome.applied = std::isfinite(squared);
    if (outcome.applied) {
      update(sums, outcome.norm);
    }
    return outcome;
  }

  void update(const std::vector<std::vector<double>>& gradients, double norm) {
    ++applied_;
    const double limit = training_.runner.max_norm;
    const double clip = limit > 0 && norm > limit ? limit / norm : 1;
    for (size_t u = 0; u < gradients.size(); ++u) {
      for (size_t i = 0; i < gradients[u].size(); ++i) {
        std::visit(
            [&](const auto& rule) {
              step_one(rule, applied_, gradients[u][i] * clip, numbers_[u][i]);
            },
            training_.runner.rule);
      }
    }
  }

  uint32_t world_;
  const Training& training_;
  Model model_;
  std::vector<std::vector<Number>> numbers_;
  std::vector<std::vector<float>> frozen_;
  uint64_t applied_ = 0;
};

}  // namespace

Outcome train_single_rank(uint32_t world, const Training& training) {
  return SingleRank(world, training).train();
}

}  // namespace paro::toy
