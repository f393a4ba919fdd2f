#include "comm/configuration.hpp"

#include <spdlog/fmt/fmt.h>

#include "base/env.hpp"
#include "bootstrap/rendezvous.hpp"

namespace ho {

Result<CommunicatorConfig> configure(const GivenConfiguration& given) {
  CommunicatorConfig config;
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
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format(
              "rank {} of world size {}", config.rendezvous.rank, config.rendezvous.world_size));
    }
  }
  config.rendezvous.address = given.rendezvous.value_or(config.rendezvous.address);
  if (given.job_key) {
    HORING_ASSIGN(config.key, JobKey::from_text(*given.job_key));
  } else {
    HORING_ASSIGN(config.key, JobKey::from_environment());
  }
  config.host_id = given.host_id;
  config.timeout = given.timeout;
  return config;
}

}  // namespace ho
