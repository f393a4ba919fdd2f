#include "core/watched_job.hpp"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "core/driver/process_text.hpp"

namespace ho::plugin {
namespace {

// NCCL's ranks meet without our rendezvous: where none is set, any will do.
std::optional<std::string> value_or_any_rendezvous(const std::string& name) {
  if (name == env::kRendezvous.name) {
    return "tcp://127.0.0.1:1";
  }
  if (name == env::kJobId.name) {
    return env::text_if_set(env::kJobId);
  }
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

WatchedJob job_of_this_process() {
  WatchedJob job;
  job.host = host_and_id_text();
  Result<Rendezvous> self = rendezvous_from_environment();
  if (!self.ok()) {
    self = rendezvous_from(value_or_any_rendezvous);
  }
  Hash hash;
  if (self.ok() && self->world_size > 1) {
    job.rank = self->rank;
    job.world_size = self->world_size;
    hash.add(self->job).add(self->address);
  } else {
    hash.add(static_cast<uint64_t>(::getppid()));
  }
  job.job = hash.value();
  return job;
}

}  // namespace ho::plugin
