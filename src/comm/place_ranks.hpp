// The exchange of what every rank found on its host, and what follows from it for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/control/control_plane.hpp"
#include "comm/placement.hpp"
#include "device/device.hpp"

namespace ho {

// Collective. Fails on all ranks with the same error where they disagree in a setting; it names the
// ranks and the setting. `device`: whose memory this rank may have in calls; null: none. Ranks of
// one host that have the same device are named in a warning by the lowest of them.
[[nodiscard]] Result<Placement> place_ranks(ControlPlane& plane,
                                            const std::optional<std::string>& host_id,
                                            const device::DeviceFacts* device,
                                            Deadline deadline);

// CPUs for the progress thread of a rank that uses this interface, by HORING_PROGRESS_CPU.
[[nodiscard]] Result<std::vector<uint32_t>> progress_cpus(std::string_view interface);

}  // namespace ho
