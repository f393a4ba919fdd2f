// Steps that several tests look at.
#pragma once

#include <string>
#include <vector>

#include "step/step_plan.hpp"

namespace paro::test {

inline const std::vector<const char*> kGroups{
    "1x1", "1x4", "4x1", "2x2", "2x4", "4x2", "3+1", "1+1+2", "1+3", "3+5+1"};

// One element, a prime, nothing trained, nothing at all, frozen and trained.
inline std::vector<UnitShape> uneven_units() {
  return {{"embedding", 64, 0},
          {"gain", 1, 0},
          {"block", 97, 31},
          {"frozen", 0, 40},
          {"empty", 0, 0},
          {"head", 48, 1}};
}

inline StepShape step_shape(const Strategy& strategy,
                            uint32_t micro_batches,
                            uint32_t prefetch = 1,
                            Scope frozen = Scope::kReplicated) {
  return {strategy, frozen, uneven_units(), micro_batches, prefetch};
}

inline ho::GroupMap groups_of(const std::string& text) {
  return ho::GroupMap::parse(text).value();
}

}  // namespace paro::test
