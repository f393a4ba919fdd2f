#include "layout/unit_layout.hpp"

namespace paro {

ho::Result<std::vector<UnitLayout>> lay_out(const std::vector<UnitShape>& units,
                                            const ho::GroupMap& groups,
                                            uint64_t alignment) {
  std::vector<UnitLayout> layouts;
  layouts.reserve(units.size());
  for (const UnitShape& unit : units) {
    auto trained = Partition::make(groups, unit.trained, alignment);
    auto frozen = Partition::make(groups, unit.frozen, alignment);
    for (const auto* made : {&trained, &frozen}) {
      if (!made->ok()) {
        return made->status().with_context("unit " + std::to_string(layouts.size()) + " (" +
                                           unit.name + ")");
      }
    }
    layouts.push_back({std::move(trained).value(), std::move(frozen).value()});
  }
  return layouts;
}

}  // namespace paro
