// How the NCCL of this process finds a tuner, by what its release is known to do.
#pragma once

#include <optional>
#include <string>

#include "abi/releases.hpp"
#include "core/settings.hpp"

namespace ho::plugin {

// setting: of NCCL_TUNER_PLUGIN, as NCCL sees it.
[[nodiscard]] TunerSearch tuner_search(const nccl_abi::Release& release,
                                       const std::optional<std::string>& setting);

// The release of the NCCL whose code this address lies in; where that is not known, the newest one
// that takes the interface ("net v11") rather than another of ours.
[[nodiscard]] const nccl_abi::Release& release_of(const void* code, const std::string& interface);

}  // namespace ho::plugin
