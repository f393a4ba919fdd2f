#include "layout/unit_layout.hpp"

namespace paro {
namespace {

// Sums of bytes stay below 2^64: buffers for 2^17 units gathered ahead (a plan has no more) of 4
// bytes per element are the largest of them.
constexpr uint64_t kMaxModelElements = uint64_t{1} << 44U;

}  // namespace

ho::Result<std::vector<UnitLayout>> lay_out(const std::vector<UnitShape>& units,
                                            const ho::GroupMap& groups,
                                            uint64_t alignment,
                                            PartSizes sizes) {
  std::vector<UnitLayout> layouts;
  layouts.reserve(units.size());
  uint64_t all = 0;  // one unit, of less than 2^59, beyond the bound at most
  for (const UnitShape& unit : units) {
    auto trained = Partition::make(groups, unit.trained, alignment, sizes);
    auto frozen = Partition::make(groups, unit.frozen, alignment, sizes);
    for (const auto* made : {&trained, &frozen}) {
      if (!made->ok()) {
        return made->status().with_context("unit " + std::to_string(layouts.size()) + " (" +
                                           unit.name + ")");
      }
    }
    all += trained->padded_count() + frozen->padded_count();
    if (all > kMaxModelElements) {
      return ho::invalid("up to unit " + std::to_string(layouts.size()) + " (" + unit.name +
                         ") there are " + std::to_string(all) +
                         " elements, padding included: takes at most 2^44 of all units together");
    }
    layouts.push_back({std::move(trained).value(), std::move(frozen).value()});
  }
  return layouts;
}

}  // namespace paro
