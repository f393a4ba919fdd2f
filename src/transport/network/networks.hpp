// The network transports by their names in HORING_TRANSPORT. The table is constant; the build
// writes it from the transports that are on (table.cpp.in), so that nothing else names one.
#pragma once

#include <span>
#include <string_view>

#include "transport/network_setup.hpp"

namespace ho {

struct NetworkEntry {
  std::string_view name;
  Result<MakeNetwork> (*from_environment)();  // null: not in this build
  std::string_view missing;                   // then, what the build lacks and what to do
};

[[nodiscard]] std::span<const NetworkEntry> networks();
// Of that name, with its settings. A transport that this build has not is an error only when it is
// to be made: jobs on one host need no network.
[[nodiscard]] Result<MakeNetwork> network_of(std::string_view name);

}  // namespace ho
