// A communicator's configuration from what a caller gives and, for the rest, the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "bootstrap/rendezvous/store.hpp"
#include "comm/job_part.hpp"

namespace ho {

struct CommunicatorConfig {
  Rendezvous rendezvous;
  std::shared_ptr<const JobKey> key;  // null: through the store
  std::shared_ptr<Store>
      store;  // where the ranks find each other; null: at the rendezvous' address
  std::string store_key;
  std::optional<std::string> host_id;                // overrides HORING_HOST_ID
  std::optional<std::chrono::milliseconds> timeout;  // overrides HORING_TIMEOUT_MS
  // For all ranks to come, also to splits; without it HORING_CONNECT_TIMEOUT_MS.
  std::optional<std::chrono::milliseconds> rendezvous_timeout;
  std::optional<int> device;  // whose memory calls may have; below 0: the local rank's
  JobPart part;
};

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
  std::optional<std::string> rank_name;
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<std::chrono::milliseconds> rendezvous_timeout;
  std::optional<int> device;  // below 0: by the local rank
  JobPart part;
};

[[nodiscard]] Result<CommunicatorConfig> configure(const ConfigurationInput& input);

}  // namespace ho
