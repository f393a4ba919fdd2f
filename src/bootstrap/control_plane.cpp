#include "bootstrap/control_plane.hpp"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "bootstrap/control_client.hpp"
#include "bootstrap/coordinator.hpp"
#include "bootstrap/meeting.hpp"
#include "bootstrap/meeting_place.hpp"
#include "os/socket.hpp"

namespace ho {
namespace {

wire::Introduction introduce(const Rendezvous& rendezvous, Deadline deadline) {
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

Status check(const Rendezvous& rendezvous) {
  const std::string source = rendezvous.source.empty() ? "arguments" : rendezvous.source;
  if (rendezvous.world_size == 0 || rendezvous.world_size > wire::kMaxWorldSize ||
      rendezvous.rank >= rendezvous.world_size) {
    return {StatusCode::kInvalidArgument,
            "rank " + std::to_string(rendezvous.rank) + " of " +
                std::to_string(rendezvous.world_size) + " (from " + source +
                ") cannot be: ranks are 0 to world size - 1, at most 65536"};
  }
  if (rendezvous.world_size > 1 && rendezvous.address.empty()) {
    return {StatusCode::kInvalidArgument,
            "no place to meet is known for " + std::to_string(rendezvous.world_size) +
                " ranks (from " + source +
                "); set HORING_RENDEZVOUS=tcp://HOST:PORT with rank 0's host, or file:///PATH"};
  }
  return {};
}

uint64_t random_job_id() {
  uint64_t id = 0;
  randombytes_buf(&id, sizeof id);
  return id;
}

Result<std::unique_ptr<ControlPlane>> create_first(const Rendezvous& rendezvous,
                                                   std::shared_ptr<const JobKey> key,
                                                   Deadline deadline,
                                                   std::vector<Fd> listeners) {
  Door door;
  if (!listeners.empty()) {
    HORING_ASSIGN(const MeetingPlace place, parse_meeting_place(rendezvous.address));
    door = {std::move(listeners), rendezvous.address, place.tcp.host, {}};
  } else if (rendezvous.world_size > 1) {
    HORING_ASSIGN(const MeetingPlace place, parse_meeting_place(rendezvous.address));
    auto opened = open_door(place, *key, rendezvous.job);
    if (!opened.ok()) {
      return opened.status();
    }
    door = std::move(*opened);
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    if (door.take_down) {
      door.take_down();
    }
    return system_error("socketpair for rank 0's control connection", errno);
  }
  Fd own(ends[0]);
  std::string local = door.likely_address.empty() ? "127.0.0.1" : door.likely_address;
  Coordinator::Setup setup{.world_size = rendezvous.world_size,
                           .listeners = std::move(door.listeners),
                           .key = std::move(key),
                           .own_end = Fd(ends[1]),
                           .own = introduce(rendezvous, deadline),
                           .address = door.text,
                           .job_id = random_job_id(),
                           .deadline = deadline,
                           .on_ended = door.take_down};
  const auto start = [&]() -> Result<std::unique_ptr<Coordinator>> {
    auto coordinator = Coordinator::start(std::move(setup));
    if (!coordinator.ok() && door.take_down) {
      door.take_down();
    }
    return coordinator;
  };
  HORING_ASSIGN(
      auto client,
      ControlClient::create(rendezvous, std::move(own), start, std::move(local), deadline));
  return std::unique_ptr<ControlPlane>(std::move(client));
}

Result<std::unique_ptr<ControlPlane>> create_other(const Rendezvous& rendezvous,
                                                   const std::shared_ptr<const JobKey>& key,
                                                   Deadline deadline) {
  HORING_ASSIGN(const MeetingPlace place, parse_meeting_place(rendezvous.address));
  HORING_ASSIGN(
      FoundDoor door,
      find_door(place, key, introduce(rendezvous, deadline), rendezvous.remedy, deadline));
  HORING_ASSIGN(const SocketAddress local, local_address(door.fd.get()));
  HORING_ASSIGN(
      auto client,
      ControlClient::create(
          rendezvous, std::move(door.fd), nullptr, local.host(), deadline, door.rank_0_later));
  return std::unique_ptr<ControlPlane>(std::move(client));
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(const Rendezvous& rendezvous,
                                                           std::shared_ptr<const JobKey> key,
                                                           Deadline deadline,
                                                           std::vector<Fd> listeners) {
  HORING_TRY(check(rendezvous));
  return rendezvous.rank == 0
             ? create_first(rendezvous, std::move(key), deadline, std::move(listeners))
             : create_other(rendezvous, key, deadline);
}

Status ControlPlane::barrier(std::string_view tag,
                             std::span<const GlobalRank> members,
                             Deadline deadline) {
  return all_gather(tag, {}, members, deadline).status();
}

}  // namespace ho
