// Ranks that find each other through a store: rank 0 listens on any port, draws a key for this job
// alone and sets both under one key of the store; the others wait for it, and connect as behind a
// rendezvous file. Once all have joined the job key is taken out of the store again.
#pragma once

#include <string>

#include "bootstrap/control/control_plane.hpp"
#include "bootstrap/rendezvous/store.hpp"

namespace ho {

// The key of the store that rank 0 sets, for communicators of that name.
[[nodiscard]] std::string store_key_of(const std::string& name);

// Collective, as ControlPlane::create, for at least 2 ranks. `rendezvous` has rank and world size;
// its address is not looked at. If rank 0 fails, it sets why, for ranks that come later.
[[nodiscard]] Result<KeyedPlane> join_through_store(Store& store,
                                                    const std::string& key,
                                                    Rendezvous rendezvous,
                                                    Deadline deadline);

}  // namespace ho
