// Shared memory transports for thread ranks of one test process.
#pragma once

#include <memory>
#include <vector>

#include "conformance.hpp"
#include "transport/shm/shm_transport.hpp"

namespace ho::conformance {

struct ShmCase {
  uint64_t ring_bytes = 64 * 1024;
  uint64_t single_copy_min_bytes = 16 * 1024;
  bool single_copy = true;
};

[[nodiscard]] ShmOptions options_of(const ShmCase& config, GlobalRank self, uint32_t world_size);
[[nodiscard]] UnderTest shm_under_test(const ShmCase& config);
// All ranks' transports, to be driven by one thread, where the order of events must be known.
[[nodiscard]] std::vector<std::unique_ptr<ShmTransport>> make_all(const ShmCase& config,
                                                                  uint32_t world_size);

}  // namespace ho::conformance
