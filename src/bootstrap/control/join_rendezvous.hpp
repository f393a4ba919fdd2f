// A control plane from what rank 0 listens on, and from where the others look it up.
#pragma once

#include <memory>

#include "bootstrap/control/control_plane.hpp"
#include "bootstrap/rendezvous/rendezvous_connect.hpp"

namespace ho {

// Rank, world size and address can be; the error says from where they are.
[[nodiscard]] Status check_rendezvous(const Rendezvous& rendezvous);

// Rank 0's side: waits for all others, at most until the deadline.
[[nodiscard]] Result<std::unique_ptr<ControlPlane>> open_rendezvous(
    const Rendezvous& rendezvous,
    std::shared_ptr<const JobKey> key,
    Deadline deadline,
    RendezvousListeners listening);
// The others' side; with the key that both have proven.
[[nodiscard]] Result<KeyedPlane> join_rendezvous(const Rendezvous& rendezvous,
                                                 const RankZeroLookup& lookup,
                                                 Deadline deadline);

}  // namespace ho
