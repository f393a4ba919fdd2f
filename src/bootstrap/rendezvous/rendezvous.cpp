// Who (rank, world size, local rank) and where (the rendezvous) are answered separately,
// because launchers nest: torchrun inside srun leaves both sets of variables behind, and the inner
// launcher is the one that made this process. For who, the first launcher below whose variables are
// there decides; half a set is an error, never a reason to ask the next one, which would silently
// run another job than the user meant. For where: HORING_RENDEZVOUS, MASTER_ADDR and MASTER_PORT,
// the first host of the Slurm step.
#include "bootstrap/rendezvous/rendezvous.hpp"

#include <array>
#include <cstdlib>

#include "auth/printable.hpp"
#include "base/env.hpp"
#include "base/quantity.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"

namespace ho {
namespace {

struct Launcher {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
};

// Slurm last: mpirun and torchrun run inside its allocations, not the other way round.
constexpr std::array kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{
        "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    Launcher{"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

Result<uint32_t> number_of(const std::string& name, const std::string& value, uint64_t most) {
  const auto number = whole_number<uint64_t>(value);
  if (!number || *number > most) {
    return invalid(name + "=" + printable(value, 64) + " is not a whole number up to " +
                   std::to_string(most) + "; correct or unset it");
  }
  return static_cast<uint32_t>(*number);
}

std::string to_string(const char* name, const std::optional<std::string>& value) {
  return value.has_value() ? std::string(name) + "=" + printable(*value, 64)
                           : std::string(name) + " is not set";
}

Status half_set(const Launcher& launcher,
                const std::optional<std::string>& rank,
                const std::optional<std::string>& size) {
  return invalid(to_string(launcher.rank, rank) + " but " + to_string(launcher.size, size) + " (" +
                 launcher.source + "): set both on every rank, or neither");
}

// Fills rank, world size, local rank and source; false: this launcher did not start the process.
Result<bool> identify(const Launcher& launcher,
                      const EnvironmentLookup& lookup,
                      Rendezvous& result) {
  const auto rank = lookup(launcher.rank);
  const auto size = lookup(launcher.size);
  if (!rank.has_value() && !size.has_value()) {
    return false;
  }
  if (!rank.has_value() || !size.has_value()) {
    return half_set(launcher, rank, size);
  }
  HORING_ASSIGN(result.rank, number_of(launcher.rank, *rank, wire::kMaxWorldSize));
  HORING_ASSIGN(result.world_size, number_of(launcher.size, *size, wire::kMaxWorldSize));
  if (result.rank >= result.world_size) {
    return invalid(to_string(launcher.rank, rank) + " and " + to_string(launcher.size, size) +
                   " (" + launcher.source + ") contradict each other: ranks are 0 to " +
                   launcher.size + " - 1");
  }
  if (const auto local = lookup(launcher.local_rank)) {
    HORING_ASSIGN(result.local_rank, number_of(launcher.local_rank, *local, wire::kMaxWorldSize));
  }
  result.source = launcher.source;
  return true;
}

Result<std::string> address_from_master(const EnvironmentLookup& lookup) {
  const auto address = lookup("MASTER_ADDR");
  const auto port = lookup("MASTER_PORT");
  if (!address.has_value() && !port.has_value()) {
    return std::string();
  }
  if (!address.has_value() || !port.has_value()) {
    return invalid(to_string("MASTER_ADDR", address) + " but " + to_string("MASTER_PORT", port) +
                   ": set both (rank 0's host and a free port there), or HORING_RENDEZVOUS");
  }
  HORING_ASSIGN(uint32_t number, number_of("MASTER_PORT", *port, 65535));
  // There torchrun's own store listens at MASTER_PORT for the whole job.
  if (lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    ++number;
  }
  if (number == 0 || number > 65535) {
    return invalid("MASTER_PORT=" + *port +
                   " leaves no port for a rendezvous; choose a port between 1 "
                   "and 65534, or set HORING_RENDEZVOUS=tcp://HOST:PORT");
  }
  return "tcp://" + HostPort{*address, static_cast<uint16_t>(number)}.to_string();
}

// A port below the range that the kernel hands out; jobs that share a host get different ones.
uint16_t port_for(uint64_t job) {
  constexpr uint64_t kFirstPort = 15000;
  constexpr uint64_t kPortCount = 16000;
  return static_cast<uint16_t>(kFirstPort + job % kPortCount);
}

// mpirun tells ranks nothing of each other's hosts, but whether all of them are on one.
Result<std::string> address_from_open_mpi(const EnvironmentLookup& lookup) {
  const auto size = lookup("OMPI_COMM_WORLD_SIZE");
  auto job = lookup("PMIX_NAMESPACE");
  if (!job.has_value()) {
    job = lookup("OMPI_MCA_ess_base_jobid");
  }
  if (!size.has_value() || !job.has_value() || lookup("OMPI_COMM_WORLD_LOCAL_SIZE") != size) {
    return std::string();
  }
  // Every rank has the same text; what is in it is Open MPI's business.
  uint64_t hash = 0;
  for (const char c : *job) {
    hash = hash * 31 + static_cast<unsigned char>(c);
  }
  return "tcp://" + HostPort{"127.0.0.1", port_for(hash)}.to_string();
}

Result<std::string> address_from_slurm(const EnvironmentLookup& lookup) {
  auto nodes = lookup("SLURM_STEP_NODELIST");
  if (!nodes.has_value()) {
    nodes = lookup("SLURM_JOB_NODELIST");
  }
  const auto job = lookup("SLURM_JOB_ID");
  if (!nodes.has_value() || !job.has_value()) {
    return std::string();
  }
  HORING_ASSIGN(const uint64_t job_id, number_of("SLURM_JOB_ID", *job, UINT32_MAX));
  uint64_t step_id = 0;
  if (const auto step = lookup("SLURM_STEP_ID")) {
    HORING_ASSIGN(step_id, number_of("SLURM_STEP_ID", *step, UINT32_MAX));
  }
  HORING_ASSIGN(const std::string host, first_host_of(*nodes));
  return "tcp://" + HostPort{host, port_for(job_id * 7 + step_id)}.to_string();
}

Result<std::string> find_address(const EnvironmentLookup& lookup) {
  if (auto address_found = lookup("HORING_RENDEZVOUS")) {
    return std::move(*address_found);
  }
  HORING_ASSIGN(std::string address_found, address_from_master(lookup));
  if (address_found.empty()) {
    HORING_ASSIGN(address_found, address_from_open_mpi(lookup));
  }
  return address_found.empty() ? address_from_slurm(lookup)
                               : Result<std::string>(std::move(address_found));
}

}  // namespace

Result<std::string> first_host_of(std::string_view nodelist) {
  constexpr size_t kMaxBytes = 255;
  std::string host;
  bool ended = false;
  for (size_t i = 0; i < nodelist.size() && !ended; ++i) {
    if (nodelist[i] == '[') {
      // The first number of the brackets, with its leading zeros.
      const size_t close = nodelist.find(']', i);
      const std::string_view inside = nodelist.substr(i + 1, close - i - 1);
      const std::string_view number = inside.substr(0, inside.find_first_of("-,"));
      if (close == std::string_view::npos || number.empty() ||
          number.find_first_not_of("0123456789") != std::string_view::npos) {
        host.clear();
        break;
      }
      host += number;
      i = close;
    } else if (nodelist[i] == ',') {
      ended = true;
    } else {
      host += nodelist[i];
    }
  }
  if (host.empty() || host.size() > kMaxBytes || printable(host, kMaxBytes) != host ||
      host.find_first_of(" ]/:") != std::string::npos) {
    return invalid("the Slurm node list \"" + printable(nodelist, 200) +
                   "\" names no first host; set HORING_RENDEZVOUS=tcp://HOST:PORT");
  }
  return host;
}

Result<Rendezvous> rendezvous_from(const EnvironmentLookup& lookup) {
  Rendezvous result;
  bool known = false;
  for (const Launcher& launcher : kLaunchers) {
    HORING_ASSIGN(known, identify(launcher, lookup, result));
    if (known) {
      break;
    }
  }
  if (!known && !lookup("HORING_RENDEZVOUS").has_value()) {
    result.source = "no launcher";
    return result;
  }
  if (!known) {
    return invalid(
        "HORING_RENDEZVOUS is set, but nothing says which rank this process is; set RANK "
        "and WORLD_SIZE, or start it with horing run, torchrun, srun or mpirun");
  }
  if (result.world_size == 1) {
    return result;
  }
  result.job = job_identity_from(lookup);
  HORING_ASSIGN(result.address, find_address(lookup));
  if (result.address.empty()) {
    return invalid("rank " + std::to_string(result.rank) + " of " +
                   std::to_string(result.world_size) + " (from " + result.source +
                   ") knows no rendezvous; set HORING_RENDEZVOUS=tcp://HOST:PORT with rank "
                   "0's host or file:///PATH on a shared file system, or MASTER_ADDR and "
                   "MASTER_PORT");
  }
  HORING_TRY(parse_rendezvous_endpoint(result.address).status());
  return result;
}

Result<Rendezvous> rendezvous_from_environment() {
  return rendezvous_from([](const std::string& name) -> std::optional<std::string> {
    if (name == env::kRendezvous.name || name == env::kJobId.name) {
      return env::text_if_set(name == env::kJobId.name ? env::kJobId : env::kRendezvous);
    }
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace ho
