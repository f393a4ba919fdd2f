#include "state/unit_state.hpp"

#include <utility>

namespace paro {

ho::Result<UnitState> UnitState::make(Ledger& ledger,
                                      const UnitLayout& layout,
                                      const StateShape& shape,
                                      ho::GlobalRank self) {
  const auto trained = [&](Purpose purpose, Scope scope, ho::DType dtype) {
    return Storage::make(ledger, purpose, layout.trained, scope, self, dtype);
  };
  const Strategy& strategy = shape.strategy;
  HORING_ASSIGN(Storage parameters,
                trained(Purpose::kParameters, strategy.parameters, shape.parameter_dtype));
  HORING_ASSIGN(
      Storage frozen,
      Storage::make(
          ledger, Purpose::kParameters, layout.frozen, shape.frozen, self, shape.parameter_dtype));
  HORING_ASSIGN(Storage sums, trained(Purpose::kGradients, strategy.gradients, shape.sum_dtype));
  std::vector<Storage> optimizer;
  for (uint32_t array = 0; array < shape.optimizer_arrays; ++array) {
    HORING_ASSIGN(Storage one,
                  trained(Purpose::kOptimizer, strategy.optimizer, ho::DType::kFloat32));
    optimizer.push_back(std::move(one));
  }
  return UnitState{std::move(parameters), std::move(frozen), std::move(sums), std::move(optimizer)};
}

}  // namespace paro
