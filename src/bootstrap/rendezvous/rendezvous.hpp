// Who this rank is and where the ranks meet, from a launcher's environment.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "bootstrap/control/control_plane.hpp"
#include "bootstrap/rendezvous/job_identity.hpp"

namespace ho {

// From this process's environment.
[[nodiscard]] Result<Rendezvous> rendezvous_from_environment();
// From any: for tests.
[[nodiscard]] Result<Rendezvous> rendezvous_from(const EnvironmentLookup& lookup);

// The first host of a Slurm node list: "node[03-07,9],login" gives "node03". Pure.
[[nodiscard]] Result<std::string> first_host_of(std::string_view nodelist);

}  // namespace ho
