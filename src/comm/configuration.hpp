// A communicator's configuration from what a caller gives and, for the rest, the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/communicator.hpp"

namespace ho {

struct ConfigurationInput {
  // Both or neither; both with a store.
  std::optional<uint32_t> rank;
  std::optional<uint32_t> world_size;
  std::optional<uint32_t> local_rank;
  std::optional<std::string> rendezvous;
  std::optional<std::string> job_key;
  std::shared_ptr<Store> store;  // instead of a rendezvous and a job key
  std::string store_name;
  std::optional<std::string> host_id;
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<std::chrono::milliseconds> rendezvous_timeout;
  std::optional<int> device;  // below 0: by the local rank
};

[[nodiscard]] Result<CommunicatorConfig> configure(const ConfigurationInput& input);

}  // namespace ho
