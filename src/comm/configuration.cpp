#include "comm/configuration.hpp"

#include <spdlog/fmt/fmt.h>

#include "base/env.hpp"
#include "bootstrap/control/store_rendezvous.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"

namespace ho {

namespace {

constexpr size_t kMaxStoreNameBytes = 512;

Status check_store(const ConfigurationInput& input) {
  if (!input.rank) {
    return invalid("a store without a rank: give rank and world size with it");
  }
  if (input.rendezvous || input.job_key) {
    return invalid(
        fmt::format("rank {}: a store and a {}: the ranks find each other through the store, with "
                    "a job key of their own; "
                    "leave the {} out, or the store",
                    *input.rank,
                    input.rendezvous ? "rendezvous" : "job key",
                    input.rendezvous ? "rendezvous" : "job key"));
  }
  if (input.store_name.empty() || input.store_name.size() > kMaxStoreNameBytes) {
    return invalid(fmt::format("rank {}: a store name of {} bytes; it has 1 to {}",
                               *input.rank,
                               input.store_name.size(),
                               kMaxStoreNameBytes));
  }
  return {};
}

// A rank that is alone waits for nobody: neither the store nor the environment's key is looked at.
void configure_store(const ConfigurationInput& input, CommunicatorConfig& config) {
  config.rendezvous.address.clear();
  if (config.rendezvous.world_size == 1) {
    config.key = JobKey::none(false);
    return;
  }
  config.store = input.store;
  config.store_key = store_key_of(input.store_name);
}

}  // namespace

Result<CommunicatorConfig> configure(const ConfigurationInput& input) {
  CommunicatorConfig config;
  if (input.store != nullptr) {
    HORING_TRY(check_store(input));
  }
  if (!input.rank) {
    HORING_ASSIGN(config.rendezvous, rendezvous_from_environment());
  } else {
    config.rendezvous.rank = *input.rank;
    config.rendezvous.world_size = input.world_size.value_or(0);
    config.rendezvous.local_rank = input.local_rank;
    config.rendezvous.source = "arguments";
    config.rendezvous.address = env::text(env::kRendezvous);
    // What a launcher has set need not be about ranks that are given.
    config.rendezvous.job = job_identity_from([](const std::string& name) {
      return name == env::kJobId.name ? env::text_if_set(env::kJobId) : std::nullopt;
    });
    if (config.rendezvous.rank >= config.rendezvous.world_size) {
      return invalid(fmt::format(
          "rank {} of world size {}", config.rendezvous.rank, config.rendezvous.world_size));
    }
  }
  config.rendezvous.called = input.rank_name.value_or("");
  if (config.rendezvous.called.size() > wire::kMaxCalledBytes) {
    return invalid(fmt::format("rank {}: ho_comm_options.rank_name has {} bytes; it may have {}",
                               config.rendezvous.rank,
                               config.rendezvous.called.size(),
                               wire::kMaxCalledBytes));
  }
  HORING_TRY(check_job_part(input.part, config.rendezvous.rank, config.rendezvous.world_size));
  config.part = input.part;
  config.rendezvous.address = input.rendezvous.value_or(config.rendezvous.address);
  if (input.store != nullptr) {
    configure_store(input, config);
  } else if (input.job_key) {
    HORING_ASSIGN(config.key, JobKey::from_text(*input.job_key));
  } else {
    HORING_ASSIGN(config.key, JobKey::from_environment());
  }
  config.host_id = input.host_id;
  config.timeout = input.timeout;
  config.rendezvous_timeout = input.rendezvous_timeout;
  config.device = input.device;
  if (input.device.value_or(0) < 0 && !config.rendezvous.local_rank) {
    return invalid(
        fmt::format("rank {}: the device is to be that of the local rank, which is not known; set "
                    "ho_comm_options.local_rank or LOCAL_RANK, or name the device",
                    config.rendezvous.rank));
  }
  return config;
}

}  // namespace ho
