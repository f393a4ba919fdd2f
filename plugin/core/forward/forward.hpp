// The network of another plugin, whatever version it has, as a driver.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "core/forward/net_library.hpp"

namespace ho::plugin::forward {

// name: HORING_NET_FORWARD's. newest: no newer table is taken, for tests.
[[nodiscard]] Result<std::unique_ptr<NetDriver>> forward_to(const std::string& name,
                                                            int newest = kNewestVersion);

}  // namespace ho::plugin::forward
