// Rails that this host has not: the launcher of an emulated cluster names addresses that stand for
// them, and may have their senders keep to a rate. The only place that reads that of the
// environment.
#pragma once

#include <string_view>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// HORING_EMULATED_RAILS, whose rails take the place of live interfaces, and HORING_RAIL_PACE_MBIT,
// the rate of interfaces that it gives none.
[[nodiscard]] Status adopt_emulation(Topology& topology);
// "rail0=127.1.0.1,rail1=127.2.0.1;mbit=200;fd=7": every part may be left out. Where there are no
// rails the live interfaces stay.
[[nodiscard]] Status adopt_emulated(std::string_view text, Topology& topology);

}  // namespace ho
