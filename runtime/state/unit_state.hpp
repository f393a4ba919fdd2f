// What one rank holds of one unit.
#pragma once

#include <vector>

#include "layout/unit_layout.hpp"
#include "state/needs.hpp"
#include "state/storage.hpp"

namespace paro {

struct UnitState {
  Storage parameters;              // at the parameters' scope
  Storage frozen;                  // at the frozen parameters' scope
  Storage sums;                    // gradients, at their scope
  std::vector<Storage> optimizer;  // fp32 at the optimizer's scope: the master, then the rule's own

  [[nodiscard]] static ho::Result<UnitState> make(Ledger& ledger,
                                                  const UnitLayout& layout,
                                                  const StateShape& shape,
                                                  ho::GlobalRank self);
  [[nodiscard]] Storage& master() { return optimizer.front(); }
};

}  // namespace paro
