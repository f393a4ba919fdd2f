// CPU affinity of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"

namespace ho {

// CPUs that this process may use, ascending.
[[nodiscard]] Result<std::vector<uint32_t>> allowed_cpus();
// Binds the calling thread; an empty set leaves it alone.
[[nodiscard]] Status bind_current_thread(std::span<const uint32_t> cpus);

}  // namespace ho
