// All that a job must keep to go on later, as one rank's share of it: the world parts of masters,
// of the optimizer's state and of frozen parameters. Every element is in exactly one rank's
// snapshot, whatever the strategy. The share has the same size on all ranks, to within one block. A
// checkpoint writes snapshots, and a change of strategy goes through them. Parameters are not in
// it: they are masters rounded. Gradients are not: it is taken between steps.
//
// Not counted by the ledger: the memory belongs to the snapshot's owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "layout/partition.hpp"
#include "optim/loss_scale.hpp"

namespace paro {

// Elements of one flat buffer: those of ascending ranges, one range after the other.
struct PartValues {
  std::vector<Range> ranges;  // none reaches into the buffer's padding
  ho::DType dtype = ho::DType::kFloat32;
  std::vector<std::byte> bytes;

  [[nodiscard]] uint64_t count() const;
};

struct UnitSnapshot {
  std::vector<PartValues> states;  // the master, then the rule's own
  PartValues frozen;
};

struct Snapshot {
  uint64_t applied_steps = 0;
  uint64_t called_steps = 0;     // with those that were left out
  uint64_t optimizer_steps = 0;  // applied since the optimizer's state began
  LossScaleState loss_scale;
  // Its source: ranks whose snapshots are of one job and step have the same.
  std::array<uint64_t, 2> source{};
  std::vector<UnitSnapshot> units;
  // By unit: a hash of what load() was given since the last comparison; 0: nothing.
  std::vector<uint64_t> loads{};

  [[nodiscard]] uint64_t size_bytes() const;
};

// A range of one of a unit's states, where it lies.
struct StatePart {
  uint32_t unit = 0;
  uint32_t state = 0;  // as in UnitSnapshot::states; kFrozenState for frozen parameters
  Range range;
  ho::DType dtype = ho::DType::kFloat32;
  std::span<const std::byte> values;
};
inline constexpr uint32_t kFrozenState = ~uint32_t{0};
// All there is, unit by unit, ascending in each state. Valid as long as the snapshot's memory.
[[nodiscard]] std::vector<StatePart> parts_of(const Snapshot& snapshot);

// World parts as a snapshot holds them: without what reaches into the padding.
[[nodiscard]] std::vector<Range> snapshot_ranges(const Partition& partition, ho::GlobalRank rank);

}  // namespace paro
