// Which network is below the plugin: the builtin one, or another plugin's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "core/driver/turned_off.hpp"
#include "os/socket.hpp"

namespace ho::plugin {

struct Network {
  std::unique_ptr<NetDriver> driver;
  std::shared_ptr<const JobKey> job_key;
  // This host's TCP address where a rail's members find each other that use the device.
  std::function<Result<SocketAddress>(int32_t device)> rendezvous_address;
};

// In place of one that cannot be made for that reason: it sends the reason to each peer that is to
// be connected. An error where it cannot, since this host has no interface to be reached at.
[[nodiscard]] Result<Network> network_turned_off(const TurnedOff& off);

// HORING_NET_FORWARD and what the builtin network reads.
[[nodiscard]] Result<Network> network_from_environment();

}  // namespace ho::plugin
