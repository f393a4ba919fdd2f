// What a communicator's links belong to: shared memory inside a host, and the network that the
// settings name.
#pragma once

#include <memory>

#include "auth/job_key.hpp"
#include "comm/member_exchange.hpp"
#include "comm/placement.hpp"
#include "comm/settings.hpp"
#include "os/clock.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/transport.hpp"

namespace ho {

struct Transports {
  std::unique_ptr<ShmTransport> shm;
  std::unique_ptr<Transport> network;  // null: no rank is on another host
};

// Collective over the members.
[[nodiscard]] Result<Transports> make_transports(const MemberExchange& members,
                                                 const Placement& placement,
                                                 const CommunicatorSettings& settings,
                                                 GlobalRank self,
                                                 const std::shared_ptr<const JobKey>& key,
                                                 Deadline deadline);

}  // namespace ho
