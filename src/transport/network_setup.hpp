// How a communicator makes its network transport, whichever that is. A transport defines
// Result<MakeNetwork> NAME_network(), which reads its own settings, and its folder's meson.build
// adds it to network_transports; transport/network has the table.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "auth/job_key.hpp"
#include "connect/rail_interface.hpp"
#include "transport/transport.hpp"

namespace ho {

// What every network transport knows of its communicator.
struct NetworkMember {
  GlobalRank self;
  uint32_t world_size = 1;
  uint16_t communicator = 0;
  uint64_t job_id = 0;
  std::shared_ptr<const JobKey> key;
};

struct NetworkSetup : NetworkMember {
  std::vector<RailInterface> rails;   // of this rank's host, by RailIndex; may have a pace
  std::vector<RailInterface> spares;  // its other NICs as good; ranks may have different numbers
  std::chrono::milliseconds connect_timeout{60000};
  // Collective over the communicator: what each rank gives, by rank. `what` names it in errors.
  std::function<Result<std::vector<std::vector<std::byte>>>(std::string_view what,
                                                            std::span<const std::byte> mine)>
      exchange;
};

// Collective over the communicator. A transport that knows how to reach its peers; links to them
// are opened when they are used.
using MakeNetwork = std::function<Result<std::unique_ptr<Transport>>(const NetworkSetup& setup)>;

}  // namespace ho
