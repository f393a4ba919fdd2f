// Messages between hosts over UCX, for networks where it can do what sockets cannot (RDMA). The
// option, not the default: docs/design/adr/0001-transport.md. Built where libucx is found.
//
// UCX chooses devices and lanes itself (UCX_NET_DEVICES, UCX_MAX_RNDV_RAILS), so a link's rail
// separates its messages but does not pick the interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "transport/network_setup.hpp"
#include "transport/transport.hpp"

namespace ho {

struct UcxOptions : NetworkMember {
  uint32_t rail_count = 1;
  // Reports peers that are gone. UCX 1.13 has no shared memory in that mode.
  bool report_lost_peers = true;
};

class UcxTransport : public Transport {
 public:
  // Peers are unknown yet. UCX listens on all its devices, so without a key this is refused unless
  // the key allows any address.
  [[nodiscard]] static Result<std::unique_ptr<UcxTransport>> create(const UcxOptions& options);
  // How peers reach this rank, and a random number of its own: opaque, to be exchanged over the
  // authenticated control plane.
  [[nodiscard]] virtual const std::vector<std::byte>& endpoint() const = 0;
  // By global rank; once, before the first link().
  [[nodiscard]] virtual Status set_peers(std::vector<std::vector<std::byte>> peers) = 0;
};

}  // namespace ho
