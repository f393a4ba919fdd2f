// The windows of a rail as a Plan, for verify(), `horing plan --plugin-window` and tests. Pure: it
// runs the engine's own walks (window.hpp) to their end and takes from operands.hpp, as the engine
// does, what each message reads and writes. The engine keeps walking lazily and never sees this
// plan.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "core/rail/window.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho::plugin::rail {

struct WindowPlan {
  GroupMap map;  // member m is rank m, in a group of its own: a rail has one member per node
  WholePlan whole;
};

// A plan with more is refused: pieces, times the members that pass them on.
inline constexpr uint64_t kMaxPlanMessages = uint64_t{1} << 17U;

// Windows under way together, entered in this order by all members. Member m is rank m, a rail's
// flow a connection, a piece a chunk. A block of the plan is what of one member's block lies in
// one window; blocks without bytes are left out. Piece sizes are as for piece_bytes_of().
//
// What the plan does not show: how many messages a flow has under way (flow.hpp), and how many
// pieces its scratch memory holds.
[[nodiscard]] Result<WindowPlan> window_plan(const std::vector<Window>& windows,
                                             uint64_t wanted_piece_bytes);

}  // namespace ho::plugin::rail
