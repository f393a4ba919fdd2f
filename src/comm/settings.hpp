// A communicator's settings from the environment.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "comm/selection.hpp"
#include "exec/binding.hpp"
#include "transport/network_setup.hpp"

namespace ho {

// Read and checked once per communicator.
struct CommunicatorSettings {
  SelectionRules rules;
  BindingLimits limits;
  std::chrono::milliseconds timeout{600000};
  std::chrono::milliseconds connect_timeout{60000};
  std::chrono::milliseconds rendezvous_timeout{60000};
  uint64_t ring_bytes = uint64_t{128} << 10;
  bool single_copy = true;
  bool device_sharing = true;
  std::optional<bool> device_adds_pinned;  // nothing: as measured
  MakeNetwork network;
  std::string trace_path;
  std::string record_dir;
  [[nodiscard]] static Result<CommunicatorSettings> from_environment();
};

// How long a driver spins before it sleeps, by HORING_SPIN_US.
[[nodiscard]] Result<std::chrono::nanoseconds> spin_time(size_t ranks_on_host);

}  // namespace ho
