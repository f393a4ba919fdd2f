#include <string>
#include <utility>

#include "base/env.hpp"
#include "transport/network_setup.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ho {
namespace {

Status cannot_pace(const RailPace& pace) {
  const std::string name(env::kTransport.name);
  return {StatusCode::kUnsupported,
          name + "=ucx: the rails are to be paced by their senders to " +
              std::to_string(pace.mbit) + " Mbit/s (by " + std::string(env::kEmulatedRails.name) +
              ", which horing run sets, or by " + std::string(env::kRailPaceMbit.name) +
              "), and what UCX sends "
              "cannot be paced; set " +
              name + "=tcp, or run with --emulate namespaces or --rail-rate none"};
}

Result<std::unique_ptr<Transport>> make(const NetworkSetup& setup) {
  for (const RailInterface& rail : setup.rails) {
    if (rail.pace) {
      return cannot_pace(*rail.pace);
    }
  }
  UcxOptions options{setup};
  options.rail_count = static_cast<uint32_t>(setup.rails.size());
  HORING_ASSIGN(auto ucx, UcxTransport::create(options));
  HORING_ASSIGN(auto peers, setup.exchange("UCX endpoints", ucx->endpoint()));
  HORING_TRY(ucx->set_peers(std::move(peers)));
  return std::unique_ptr<Transport>(std::move(ucx));
}

}  // namespace

Result<MakeNetwork> ucx_network() {
  return MakeNetwork(make);
}

}  // namespace ho
