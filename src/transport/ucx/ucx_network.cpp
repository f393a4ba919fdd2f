#include <atomic>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
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

// Who sets the variable counts on it. Each communicator makes a transport: one line a process.
void say_that_links_do_not_fail_over() {
  static std::atomic<bool> said = false;
  const bool set = env::text_if_set(env::kFailover).has_value();
  const Result<bool> failover = env::flag(env::kFailover);
  if (set && failover.ok() && *failover && !said.exchange(true)) {
    const std::string name(env::kTransport.name);
    log_warn(
        "{}=1 does nothing for links of {}=ucx, which end with their rail; the control plane "
        "goes on over another one. Set {}=tcp for links that do",
        env::kFailover.name,
        name,
        name);
  }
}

Result<std::unique_ptr<Transport>> make(const NetworkSetup& setup) {
  for (const RailInterface& rail : setup.rails) {
    if (rail.pace) {
      return cannot_pace(*rail.pace);
    }
  }
  say_that_links_do_not_fail_over();
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
