#include "core/network.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/log.hpp"
#include "core/builtin/builtin_net.hpp"
#include "core/builtin/off_net.hpp"
#include "core/forward/forward.hpp"
#include "core/links/link_net.hpp"
#ifdef HORING_HAVE_UCX
#include "core/ucx/ucx_net.hpp"
#endif

namespace ho::plugin {
namespace {

std::string unreachable() {
  const bool ours = !env::text(env::kSocketIfname).empty();
  return fmt::format(
      "which no other host can reach: bring another interface up, give it an address, or change {} "
      "(`horing topo` shows what was left out and why)",
      ours || env::text(env::kNcclSocketIfname).empty() ? env::kSocketIfname.name
                                                        : env::kNcclSocketIfname.name);
}

// Several nodes on one host may want it so: no error.
void warn_of_loopback(const BuiltinConfig& config) {
  if (!config.emulated() && std::ranges::all_of(config.devices, on_loopback)) {
    log_warn("horing plugin: the only network device is {}, {}",
             config.devices.front().properties.name,
             unreachable());
  }
}

// Of the members of a rail that use the device.
Result<SocketAddress> rendezvous_at(const BuiltinDevice& device) {
  static std::once_flag said;
  if (on_loopback(device) && !device.rail.emulated) {
    std::call_once(said, [&] {
      log_warn("horing plugin: CollNet is given {}, {}", device.properties.name, unreachable());
    });
  }
  return own_address(device);
}

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
  HORING_ASSIGN(const FailoverOptions failover, FailoverOptions::from_environment());
  if (failover.on) {
    HORING_ASSIGN(std::unique_ptr<NetDriver> driver, LinkNet::create(std::move(config), failover));
    return driver;
  }
  HORING_ASSIGN(std::unique_ptr<NetDriver> driver, BuiltinNet::create(std::move(config)));
  return driver;
}

Result<Network> builtin_network() {
  HORING_ASSIGN(BuiltinConfig config, BuiltinConfig::from_environment());
  Network network;
  network.job_key = config.key;
  warn_of_loopback(config);
  network.rendezvous_address = [devices = config.devices](int32_t device) -> Result<SocketAddress> {
    if (device < 0 || static_cast<size_t>(device) >= devices.size()) {
      return invalid(fmt::format("there is no device {}", device));
    }
    return rendezvous_at(devices[static_cast<size_t>(device)]);
  };
  HORING_ASSIGN(network.driver, builtin_driver(std::move(config)));
  return network;
}

// The forwarded plugin's devices may have no addresses for TCP. Members find each other over the
// interface of the device's name where there is one, else over the first that the filter takes.
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
    const auto same = std::ranges::find_if(
        taken, [&](const BuiltinDevice& each) { return each.properties.name == properties.name; });
    const BuiltinDevice& chosen = same == taken.end() ? taken.front() : *same;
    return rendezvous_at(chosen);
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
  // Any interface will do to tell peers that HORING_SOCKET_IFNAME cannot be read.
  const auto filter = network_filter();
  HORING_ASSIGN(BuiltinDevices devices,
                discover_devices_or_live(filter.ok() ? *filter : InterfaceFilter()));
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
