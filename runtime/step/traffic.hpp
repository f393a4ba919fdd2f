// Bytes that the collectives of a step move, in all ranks together. Pure.
//
// Each element that a collective brings to the members of a set, or sums over them, travels along a
// tree that spans the set, over members - 1 edges. If the algorithm crosses no boundary twice
// (HO-Ring does not), nodes - 1 of them cross from one node to another. An all-reduce uses two
// trees. So of V bytes (members - nodes) V stay inside nodes and (nodes - 1) V go between them.
// HO-Ring's reduce-scatter over nodes brings a member that has no rail of its own its part once
// more: the rails' ranks sum it, and the member's own share has been to them before.
#pragma once

#include <cstdint>

#include "step/participants.hpp"
#include "step/step_plan.hpp"

namespace paro {

struct Traffic {
  uint64_t intra_bytes = 0;
  uint64_t inter_bytes = 0;
  Traffic& operator+=(const Traffic& other);
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

// Bytes of kAgree: squared norm, count of elements that are not finite, the learning rate in four
// parts and their squares, three flags of a rank, each a double.
inline constexpr uint64_t kAgreeBytes = 104;

struct ElementBytes {
  uint64_t parameter = 2;
  uint64_t gradient = 2;
};

class StepTraffic {
 public:
  // `layouts` of the plan's units over `groups`; `nodes` are where the ranks are (often the same,
  // and always as many ranks), with as many rails as are used.
  StepTraffic(const StepPlan& plan,
              const std::vector<UnitLayout>& layouts,
              const ho::GroupMap& groups,
              const ho::GroupMap& nodes,
              const ElementBytes& bytes);
  [[nodiscard]] const Traffic& of(ActionId action) const { return by_action_[action.at()]; }
  [[nodiscard]] Traffic of(Phase phase) const;
  [[nodiscard]] Traffic total() const;

 private:
  std::vector<Traffic> by_action_;
  std::vector<Phase> phases_;
};

}  // namespace paro
