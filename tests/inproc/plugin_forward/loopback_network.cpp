// The network of the plugins that this suite forwards to: the builtin one on loopback, whatever the
// environment says, which is meant for the plugin that forwards.
#include "core/builtin/builtin_net.hpp"
#include "core/network.hpp"

namespace ho::plugin {

Result<Network> network_from_environment() {
  BuiltinConfig config;
  config.devices = {make_device("loop0", "a host", "127.0.0.1", ""),
                    make_device("loop1", "a host", "127.0.0.1", "")};
  config.devices[1].properties.speed_mbps = 25000;
  config.key = JobKey::none(false);
  Network network;
  network.job_key = config.key;
  network.rendezvous_address = [](int32_t) { return SocketAddress::numeric("127.0.0.1", 0); };
  HORING_ASSIGN(network.driver, BuiltinNet::create(std::move(config)));
  return network;
}

Result<Network> network_turned_off(const TurnedOff& off) {
  return Status(StatusCode::kUnsupported, off.why);
}

}  // namespace ho::plugin
