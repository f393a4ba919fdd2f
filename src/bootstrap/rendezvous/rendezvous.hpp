// Who this rank is and where the ranks find each other, from a launcher's environment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "bootstrap/rendezvous/job_identity.hpp"

namespace ho {

// Who this rank is and where the ranks find each other. From torchrun's, Slurm's, Open MPI's or
// PMI's variables and HORING_RENDEZVOUS, or given by the caller.
struct Rendezvous {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::optional<uint32_t> local_rank;
  std::string address;      // "tcp://HOST:PORT" or "file:///PATH"; may be empty for a world of 1
  std::string source;       // "torchrun", "slurm", "openmpi", "pmi", "arguments": for messages
  std::string called = {};  // what messages call this rank; empty: "rank 5"
  std::string host = {};    // how messages name this process's host; "": by its host name
  std::string remedy = {};  // what to do where rank 0 is not found; empty: see to its settings
  std::string job = {};     // what is known of the job's identity (job_identity.hpp)
};

// From this process's environment.
[[nodiscard]] Result<Rendezvous> rendezvous_from_environment();
// From any: for tests.
[[nodiscard]] Result<Rendezvous> rendezvous_from(const EnvironmentLookup& lookup);

// The first host of a Slurm node list: "node[03-07,9],login" gives "node03". Pure.
[[nodiscard]] Result<std::string> first_host_of(std::string_view nodelist);

}  // namespace ho
