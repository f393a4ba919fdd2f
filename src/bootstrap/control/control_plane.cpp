#include "bootstrap/control/control_plane.hpp"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "bootstrap/control/control_client.hpp"
#include "bootstrap/control/coordinator.hpp"
#include "bootstrap/control/join_rendezvous.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

wire::RankClaim rank_claim(const Rendezvous& rendezvous, Deadline deadline) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left(deadline)).count();
  return {.rank = rendezvous.rank,
          .world_size = rendezvous.world_size,
          .pid = static_cast<uint32_t>(::getpid()),
          .timeout_ms = static_cast<uint32_t>(std::min<int64_t>(ms, UINT32_MAX)),
          .host = rendezvous.host.empty() ? host.data() : rendezvous.host,
          .called = rendezvous.called,
          .job = rendezvous.job};
}

}  // namespace

Status check_rendezvous(const Rendezvous& rendezvous) {
  const std::string source = rendezvous.source.empty() ? "arguments" : rendezvous.source;
  if (rendezvous.world_size == 0 || rendezvous.world_size > wire::kMaxWorldSize ||
      rendezvous.rank >= rendezvous.world_size) {
    return invalid("rank " + std::to_string(rendezvous.rank) + " of " +
                   std::to_string(rendezvous.world_size) + " (from " + source +
                   ") cannot be: ranks are 0 to world size - 1, at most 65536");
  }
  if (rendezvous.world_size > 1 && rendezvous.address.empty()) {
    return invalid("no rendezvous is known for " + std::to_string(rendezvous.world_size) +
                   " ranks (from " + source +
                   "); set HORING_RENDEZVOUS=tcp://HOST:PORT with rank 0's host, or file:///PATH");
  }
  return {};
}

namespace {

uint64_t random_job_id() {
  uint64_t id = 0;
  randombytes_buf(&id, sizeof id);
  return id;
}

// What rank 0 listens on: where the rendezvous is, or what its caller has brought.
Result<RendezvousListeners> listeners_of(const Rendezvous& rendezvous,
                                         const JobKey& key,
                                         std::vector<Fd> brought) {
  if (brought.empty() && rendezvous.world_size == 1) {
    return RendezvousListeners{};
  }
  HORING_ASSIGN(const RendezvousEndpoint entry, parse_rendezvous_endpoint(rendezvous.address));
  if (!brought.empty()) {
    return RendezvousListeners{std::move(brought), rendezvous.address, entry.tcp.host, {}};
  }
  return listen_for_rendezvous(entry, key, rendezvous.job);
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> open_rendezvous(const Rendezvous& rendezvous,
                                                      std::shared_ptr<const JobKey> key,
                                                      Deadline deadline,
                                                      RendezvousListeners listening) {
  std::array<int, 2> ends{};
  const auto failover = ControlFailover::from_environment();
  Status unusable = failover.status();
  if (unusable.ok() &&
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    unusable = system_error("socketpair for rank 0's control connection", errno);
  }
  if (!unusable.ok()) {
    if (listening.take_down) {
      listening.take_down();
    }
    return unusable;
  }
  Fd own(ends[0]);
  std::string local = listening.likely_address.empty() ? "127.0.0.1" : listening.likely_address;
  Coordinator::Setup setup{.world_size = rendezvous.world_size,
                           .listeners = std::move(listening.listeners),
                           .key = std::move(key),
                           .own_end = Fd(ends[1]),
                           .own = rank_claim(rendezvous, deadline),
                           .address = listening.text,
                           .job_id = random_job_id(),
                           .deadline = deadline,
                           .failover = *failover,
                           .on_ended = listening.take_down};
  const auto start = [&]() -> Result<std::unique_ptr<Coordinator>> {
    auto coordinator = Coordinator::start(std::move(setup));
    if (!coordinator.ok() && listening.take_down) {
      listening.take_down();
    }
    return coordinator;
  };
  HORING_ASSIGN(auto client,
                ControlClient::create(rendezvous,
                                      {.fd = std::move(own),
                                       .start_coordinator = start,
                                       .local_address = std::move(local),
                                       .deadline = deadline}));
  return std::unique_ptr<ControlPlane>(std::move(client));
}

Result<KeyedPlane> join_rendezvous(const Rendezvous& rendezvous,
                                   const RankZeroLookup& lookup,
                                   Deadline deadline) {
  HORING_ASSIGN(
      RendezvousConnection connection,
      connect_rendezvous(lookup, rank_claim(rendezvous, deadline), rendezvous.remedy, deadline));
  HORING_ASSIGN(const SocketAddress local, local_address(connection.fd.get()));
  HORING_ASSIGN(const ControlFailover failover, ControlFailover::from_environment());
  HORING_ASSIGN(auto client,
                ControlClient::create(rendezvous,
                                      {.fd = std::move(connection.fd),
                                       .local_address = local.host(),
                                       .deadline = deadline,
                                       .rank_0_later = connection.rank_0_later,
                                       .failover = failover,
                                       .key = connection.key}));
  return KeyedPlane{std::move(client), std::move(connection.key)};
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(const Rendezvous& rendezvous,
                                                           std::shared_ptr<const JobKey> key,
                                                           Deadline deadline,
                                                           std::vector<Fd> listeners) {
  HORING_TRY(check_rendezvous(rendezvous));
  if (rendezvous.rank == 0) {
    HORING_ASSIGN(auto listening, listeners_of(rendezvous, *key, std::move(listeners)));
    return open_rendezvous(rendezvous, std::move(key), deadline, std::move(listening));
  }
  HORING_ASSIGN(const RendezvousEndpoint entry, parse_rendezvous_endpoint(rendezvous.address));
  HORING_ASSIGN(
      KeyedPlane joined,
      join_rendezvous(rendezvous, lookup_at(entry, std::move(key), rendezvous.job), deadline));
  return std::move(joined.plane);
}

Status ControlPlane::barrier(std::string_view tag,
                             std::span<const GlobalRank> members,
                             Deadline deadline) {
  return all_gather(tag, {}, members, deadline).status();
}

}  // namespace ho
