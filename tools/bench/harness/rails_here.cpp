#include "bench/harness/rails_here.hpp"

#include "topo/address.hpp"
#include "topo/emulation.hpp"
#include "topo/filter.hpp"
#include "topo/interfaces.hpp"

namespace ho::harness {
namespace {

Result<std::vector<RailHere>> find_rails() {
  Topology topology;
  HORING_ASSIGN(topology.interfaces, live_interfaces());
  HORING_TRY(adopt_emulation(topology));
  HORING_ASSIGN(const InterfaceFilter filter, interface_filter());
  const auto decisions = judge_interfaces(topology.interfaces, filter);
  std::vector<RailHere> rails;
  std::vector<RailHere> loopback;  // only where nothing else is left
  for (size_t i = 0; i < decisions.size(); ++i) {
    std::string host;
    for (const std::string& text : topology.interfaces[i].addresses) {
      const auto address = parse_interface_address(text);
      const std::string scope =
          address && address->link_local ? "%" + topology.interfaces[i].name : "";
      host = address && (host.empty() || !address->ipv6) ? address->host + scope : host;
    }
    if (decisions[i].taken && !host.empty()) {
      HORING_ASSIGN(const SocketAddress rail, SocketAddress::numeric(host, 0));
      const auto& pace = topology.interfaces[i].pace;
      (topology.interfaces[i].loopback ? loopback : rails).push_back({rail, pace ? pace->mbit : 0});
    }
  }
  return rails.empty() ? loopback : rails;
}

}  // namespace

std::vector<RailHere> rails_here() {
  auto rails = find_rails();
  return rails.ok() ? *std::move(rails) : std::vector<RailHere>();
}

}  // namespace ho::harness
