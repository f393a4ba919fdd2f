#include "core/network.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/builtin/off_net.hpp"
#include "core/forward/forward.hpp"
#ifdef HORING_HAVE_UCX
#include "core/ucx/ucx_net.hpp"
#endif

namespace ho::plugin {
namespace {

Result<std::string> transport() {
  std::string named = env::text(env::kTransport);
  if (named.empty()) {
    named = env::kTransport.default_value;  // set to nothing: as not set
  }
  if (named != "tcp" && named != "ucx") {
    return invalid(fmt::format("{}={}: takes tcp or ucx", env::kTransport.name, named));
  }
  return named;
}

Result<std::unique_ptr<NetDriver>> builtin_driver(BuiltinConfig config) {
  HORING_ASSIGN(const std::string named, transport());
  if (named == "ucx") {
#ifdef HORING_HAVE_UCX
    HORING_ASSIGN(std::unique_ptr<NetDriver> driver, UcxNet::create(std::move(config)));
    return driver;
#else
    return Status(
        StatusCode::kUnsupported,
        "HORING_TRANSPORT=ucx: this build has no UCX; install libucx-dev and build again, "
        "or set HORING_TRANSPORT=tcp");
#endif
  }
  HORING_ASSIGN(std::unique_ptr<NetDriver> driver, BuiltinNet::create(std::move(config)));
  return driver;
}

Result<Network> builtin_network() {
  HORING_ASSIGN(BuiltinConfig config, BuiltinConfig::from_environment());
  Network network;
  network.job_key = config.key;
  std::vector<std::string> addresses;
  for (const BuiltinDevice& device : config.devices) {
    addresses.push_back(device.rail.address);
  }
  network.rendezvous_address = [addresses](int32_t device) -> Result<SocketAddress> {
    if (device < 0 || static_cast<size_t>(device) >= addresses.size()) {
      return invalid(fmt::format("there is no device {}", device));
    }
    return SocketAddress::numeric(addresses[static_cast<size_t>(device)], 0);
  };
  HORING_ASSIGN(network.driver, builtin_driver(std::move(config)));
  return network;
}

// The forwarded plugin's devices may have no addresses for TCP. Members meet over the interface of
// the device's name where there is one, else over the first that the filter takes.
Result<Network> forwarded_network(const std::string& name) {
  HORING_TRY(transport().status());  // not used here, but a mistake should not go unseen
  Network network;
  HORING_ASSIGN(network.job_key, JobKey::from_environment());
  HORING_ASSIGN(const BuiltinDevices interfaces, discover_devices());
  HORING_ASSIGN(network.driver, forward::forward_to(name));
  network.rendezvous_address = [taken = interfaces.taken, driver = network.driver.get()](
                                   int32_t device) -> Result<SocketAddress> {
    DeviceProperties properties;
    if (driver->properties(device, &properties) != Reply::kSuccess) {
      return invalid(fmt::format("there is no device {}", device));
    }
    const auto same = std::find_if(taken.begin(), taken.end(), [&](const BuiltinDevice& each) {
      return each.properties.name == properties.name;
    });
    const BuiltinDevice& chosen = same == taken.end() ? taken.front() : *same;
    return SocketAddress::numeric(chosen.rail.address, 0);
  };
  return network;
}

}  // namespace

Result<Network> network_from_environment() {
  const std::string forwarded = env::text(env::kNetForward);
  return forwarded.empty() ? builtin_network() : forwarded_network(forwarded);
}

// The settings that cannot be read may be those of this network too: it does without all of them.
Result<Network> network_turned_off(const TurnedOff& off) {
  HORING_ASSIGN(BuiltinDevices devices, discover_devices());
  BuiltinConfig config;
  config.devices = std::move(devices.taken);
  config.left_out = std::move(devices.left_out);
  auto key = JobKey::from_environment();
  config.key = key.ok() ? *std::move(key) : JobKey::none(false);
  Network network;
  network.job_key = config.key;
  HORING_ASSIGN(network.driver, OffNet::create(std::move(config), off));
  return network;
}

}  // namespace ho::plugin
