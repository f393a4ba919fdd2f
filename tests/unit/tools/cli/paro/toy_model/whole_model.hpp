// A toy model with all of its parameters in one place, on one rank, in fp32.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "cli/paro/toy_model/toy_model.hpp"

namespace paro::toy::test {

struct UnitStore {
  std::vector<float> trained;
  std::vector<float> frozen;
  std::vector<float> gradient;  // of the trained ones

  [[nodiscard]] Parameters parameters() const {
    return {ho::DType::kFloat32, trained.data(), frozen.data()};
  }
  [[nodiscard]] Gradients gradients() { return {ho::DType::kFloat32, gradient.data()}; }
};

class WholeModel {
 public:
  explicit WholeModel(const Configuration& configuration)
      : model_(Model::make(configuration).value()) {
    for (size_t u = 0; u < model_.units().size(); ++u) {
      const UnitCounts& counts = model_.units()[u];
      UnitStore store{std::vector<float>(counts.trained),
                      std::vector<float>(counts.frozen),
                      std::vector<float>(counts.trained)};
      model_.initial(u, store.trained, store.frozen);
      stores_.push_back(std::move(store));
    }
  }

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] std::vector<UnitStore>& stores() { return stores_; }

  [[nodiscard]] Pass forward(const Batch& batch) const {
    Pass pass = model_.begin(batch);
    for (uint32_t u = 0; u < stores_.size(); ++u) {
      model_.forward(u, stores_[model_.home(u)].parameters(), pass);
    }
    return pass;
  }
  [[nodiscard]] double loss(const Batch& batch) const { return forward(batch).loss; }

  // Adds the batch's gradients to those there; returns the loss.
  double forward_backward(const Batch& batch, double loss_scale = 1) {
    Pass pass = forward(batch);
    for (auto u = static_cast<uint32_t>(stores_.size()); u-- > 0;) {
      UnitStore& store = stores_[model_.home(u)];
      model_.backward(u, store.parameters(), store.gradients(), pass, loss_scale);
    }
    return pass.loss;
  }
  void forget_gradients() {
    for (UnitStore& store : stores_) {
      store.gradient.assign(store.gradient.size(), 0);
    }
  }

 private:
  Model model_;
  std::vector<UnitStore> stores_;
};

// Every way to freeze, to leave parts out, and uneven sizes.
inline std::vector<Configuration> configurations() {
  std::vector<Configuration> all(10);
  all[1].freeze_embedding = true;
  all[2].freeze_up = true;
  all[3].freeze_embedding = true;
  all[3].freeze_up = true;
  all[3].gain = false;
  all[4].attention = false;
  all[5] = {.vocabulary = 7, .dim = 2, .hidden = 3, .blocks = 1, .sequence = 3};
  all[6] = {.vocabulary = 5, .dim = 3, .hidden = 5, .blocks = 3, .sequence = 1};
  all[7].blocks = 0;
  all[8].blocks = 6;  // of which each has less than its whole say
  all[9].tie_head = true;
  return all;
}

}  // namespace paro::toy::test
