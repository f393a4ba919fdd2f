#include "comm/configuration.hpp"

#include <spdlog/fmt/fmt.h>

#include "base/env.hpp"
#include "bootstrap/control/store_rendezvous.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"

namespace ho {

namespace {

constexpr size_t kMaxStoreNameBytes = 512;

Status check_store(const GivenConfiguration& given) {
  if (!given.rank) {
    return invalid("a store without a rank: give rank and world size with it");
  }
  if (given.rendezvous || given.job_key) {
    return invalid(fmt::format(
        "rank {}: a store and a {}: the ranks meet through the store, with a job key of their own; "
        "leave the {} out, or the store",
        *given.rank,
        given.rendezvous ? "rendezvous" : "job key",
        given.rendezvous ? "rendezvous" : "job key"));
  }
  if (given.store_name.empty() || given.store_name.size() > kMaxStoreNameBytes) {
    return invalid(fmt::format("rank {}: a store name of {} bytes; it has 1 to {}",
                               *given.rank,
                               given.store_name.size(),
                               kMaxStoreNameBytes));
  }
  return {};
}

// A rank that is alone meets nobody: neither the store nor the environment's key is looked at.
void configure_store(const GivenConfiguration& given, CommunicatorConfig& config) {
  config.rendezvous.address.clear();
  if (config.rendezvous.world_size == 1) {
    config.key = JobKey::none(false);
    return;
  }
  config.store = given.store;
  config.store_key = store_key_of(given.store_name);
}

}  // namespace

Result<CommunicatorConfig> configure(const GivenConfiguration& given) {
  CommunicatorConfig config;
  if (given.store != nullptr) {
    HORING_TRY(check_store(given));
  }
  if (!given.rank) {
    HORING_ASSIGN(config.rendezvous, rendezvous_from_environment());
  } else {
    config.rendezvous.rank = *given.rank;
    config.rendezvous.world_size = given.world_size.value_or(0);
    config.rendezvous.local_rank = given.local_rank;
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
  config.rendezvous.address = given.rendezvous.value_or(config.rendezvous.address);
  if (given.store != nullptr) {
    configure_store(given, config);
  } else if (given.job_key) {
    HORING_ASSIGN(config.key, JobKey::from_text(*given.job_key));
  } else {
    HORING_ASSIGN(config.key, JobKey::from_environment());
  }
  config.host_id = given.host_id;
  config.timeout = given.timeout;
  config.rendezvous_timeout = given.rendezvous_timeout;
  config.device = given.device;
  if (given.device.value_or(0) < 0 && !config.rendezvous.local_rank) {
    return invalid(
        fmt::format("rank {}: the device is to be that of the local rank, which is not known; set "
                    "ho_comm_options.local_rank or LOCAL_RANK, or name the device",
                    config.rendezvous.rank));
  }
  return config;
}

}  // namespace ho
