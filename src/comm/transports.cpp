#include "comm/transports.hpp"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "transport/network_setup.hpp"

namespace ho {
namespace {

Result<std::unique_ptr<ShmTransport>> make_shm(const MemberExchange& members,
                                               const Placement& placement,
                                               const CommunicatorSettings& settings,
                                               GlobalRank self,
                                               Deadline deadline) {
  ShmOptions options;
  options.self = self;
  options.members = placement.ranks_on_host_of(self);
  options.ring_bytes = settings.ring_bytes;
  options.single_copy = settings.single_copy;
  options.job_id = members.job_id();
  options.interrupted = [&members] { return members.interrupted(); };
  return ShmTransport::create(
      options,
      [&](std::span<const std::byte> mine) {
        return members.gather(fmt::format("shared memory on {}", placement.host_name[self.at()]),
                              mine,
                              options.members,
                              deadline);
      },
      deadline);
}

Result<std::unique_ptr<Transport>> make_network(const MemberExchange& members,
                                                const Placement& placement,
                                                const CommunicatorSettings& settings,
                                                GlobalRank self,
                                                const std::shared_ptr<const JobKey>& key,
                                                Deadline deadline) {
  // Groups by HORING_HOST_ID may share a host: only one group on one host needs no network.
  if (placement.map.group_count() == 1 &&
      placement.ranks_on_host_of(self).size() == placement.map.world_size()) {
    return std::unique_ptr<Transport>();
  }
  NetworkSetup setup;
  setup.self = self;
  setup.world_size = placement.map.world_size();
  setup.communicator = members.id();
  setup.job_id = members.job_id();
  setup.key = key;
  setup.rails = placement.rails_of(self);
  setup.spares = placement.spares_beside(setup.rails);
  setup.connect_timeout = settings.connect_timeout;
  setup.exchange = [&](std::string_view what, std::span<const std::byte> mine) {
    return members.gather_all(what, mine, deadline);
  };
  return settings.network(setup);
}

}  // namespace

Result<Transports> make_transports(const MemberExchange& members,
                                   const Placement& placement,
                                   const CommunicatorSettings& settings,
                                   GlobalRank self,
                                   const std::shared_ptr<const JobKey>& key,
                                   Deadline deadline) {
  Transports made;
  HORING_ASSIGN(made.shm, make_shm(members, placement, settings, self, deadline));
  HORING_ASSIGN(made.network, make_network(members, placement, settings, self, key, deadline));
  return made;
}

}  // namespace ho
