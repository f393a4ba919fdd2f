#include "comm/place_ranks.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/env.hpp"
#include "base/log.hpp"
#include "comm/shared_devices.hpp"
#include "connect/rail_interface.hpp"
#include "os/affinity.hpp"
#include "topo/assign.hpp"
#include "topo/binding.hpp"
#include "topo/blob.hpp"
#include "topo/consistency.hpp"
#include "topo/discover.hpp"

namespace ho {
namespace {

Result<RankInfo> own_info(const Topology& topology,
                          const std::optional<std::string>& host_id,
                          const std::optional<uint32_t>& local_rank,
                          const device::DeviceFacts* device,
                          const std::optional<GroupFile>& group_file,
                          const std::optional<NamedLevels>& levels) {
  HORING_ASSIGN(const InterfaceFilter filter, interface_filter());
  HORING_ASSIGN(const auto cpus, allowed_cpus());
  RankLocation position = location_of_rank(topology, cpus, local_rank);
  if (device != nullptr) {
    position.gpu_pci = device->pci_bus_id;
  }
  RankInfo info = make_rank_info(topology, filter, position);
  info.settings = settings_that_must_match(group_file);
  info.settings.push_back(setting_of(levels));
  info.host_id = host_id.value_or(info.host_id);
  info.local_rank = local_rank;
  if (device != nullptr) {
    info.device = RankDevice{device->uuid, device->pci_bus_id};
  }
  for (const RankNic& nic : info.nics) {
    log_info("interface {}: taken", nic.name);
  }
  for (const DroppedNic& nic : info.dropped) {
    log_info("interface {}: {}", nic.name, nic.reason);
  }
  return info;
}

Result<std::vector<RankInfo>> exchange_infos(ControlPlane& plane,
                                             const RankInfo& mine,
                                             Deadline deadline) {
  HORING_ASSIGN(const auto encoded, encode_rank_info(mine));
  HORING_ASSIGN(const auto blobs, plane.all_gather("rank info", encoded, {}, deadline));
  std::vector<RankInfo> infos;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    Result<RankInfo> info = parse_rank_info(blobs[rank]);
    if (!info.ok()) {
      return info.status().with_context(fmt::format("info of rank {}", rank));
    }
    infos.push_back(*std::move(info));
  }
  return infos;
}

RailInterface rail_here(const Topology& topology, const AssignedNic& nic) {
  const auto found = std::ranges::find_if(
      topology.interfaces, [&](const NetworkInterface& each) { return each.name == nic.name; });
  return found == topology.interfaces.end() ? RailInterface{nic.name, nic.address}
                                            : rail_of(*found, nic.address);
}

// A file may be of a larger job, of which this one is a part.
void take_levels(const NamedLevels& named, Placement& placement) {
  Result<JobLevels> levels = levels_under(named, placement.map);
  if (levels.ok()) {
    placement.levels = *std::move(levels);
    return;
  }
  placement.warnings.push_back(
      fmt::format("{} does not fit this job, so auto goes by bytes ({}): {}",
                  env::kLevelsFile.name,
                  env::kDirectMaxBytes.name,
                  levels.status().message()));
}

}  // namespace

Result<Placement> place_ranks(ControlPlane& plane,
                              const std::optional<std::string>& host_id,
                              const device::DeviceFacts* device,
                              Deadline deadline) {
  HORING_ASSIGN(const auto group_file, group_file_from_environment());
  HORING_ASSIGN(const auto levels, levels_from_environment());
  HORING_ASSIGN(const Topology topology, discover());
  HORING_ASSIGN(
      const RankInfo mine,
      own_info(topology, host_id, plane.rendezvous().local_rank, device, group_file, levels));
  HORING_ASSIGN(const std::vector<RankInfo> infos, exchange_infos(plane, mine, deadline));
  HORING_TRY(check_consistency(infos));
  HORING_ASSIGN(const uint64_t rails, env::number(env::kRails));
  const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(rails, infos.size()));
  HORING_ASSIGN(Assignment assignment, assign_rails(infos, group_file, wanted));
  const GlobalRank self(plane.rendezvous().rank);
  log_info("{}", explain_rank(assignment, self));
  for (const SharedDevice& shared : shared_devices(infos)) {
    if (shared.ranks.front() == self.value()) {
      log_warn("{}", shared.warning);
    }
  }
  Placement placement{.map = std::move(assignment.map),
                      .wanted_rails = wanted,
                      .warnings = std::move(assignment.warnings),
                      .lost_nics = std::move(assignment.lost_nics),
                      .device = std::ranges::any_of(
                          infos, [](const RankInfo& info) { return info.device.has_value(); })};
  if (levels) {
    take_levels(*levels, placement);
  }
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    const uint32_t host = assignment.host_of_rank[rank];
    placement.host_id.push_back(std::to_string(host));
    placement.host_name.push_back(assignment.host_names[host]);
    const AssignedNic& nic = assignment.nic_of_rank[rank];
    const bool is_here = host == assignment.host_of_rank[self.at()];
    placement.nic.push_back(is_here ? rail_here(topology, nic)
                                    : RailInterface{nic.name, nic.address});
    placement.nic_mbit.push_back(nic.speed_mbit);
  }
  for (const AssignedNic& nic : assignment.nics_of_host[assignment.host_of_rank[self.at()]]) {
    if (std::ranges::count(topology.interfaces, nic.name, &NetworkInterface::name) > 0) {
      placement.nics_here.push_back(rail_here(topology, nic));  // not another container's
    }
  }
  return placement;
}

Result<std::vector<uint32_t>> progress_cpus(std::string_view interface) {
  const std::string setting = env::text(env::kProgressCpu);
  if (setting == "none") {
    return std::vector<uint32_t>();
  }
  HORING_ASSIGN(const Topology topology, discover());
  HORING_ASSIGN(const auto allowed, allowed_cpus());
  const auto nic = std::ranges::find_if(
      topology.interfaces, [&](const NetworkInterface& found) { return found.name == interface; });
  const int32_t numa_node = nic == topology.interfaces.end() ? -1 : nic->numa_node;
  return progress_cpus(setting, topology.numa_nodes, numa_node, allowed);
}

}  // namespace ho
