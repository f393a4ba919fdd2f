#include "comm/place_ranks.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/env.hpp"
#include "base/log.hpp"
#include "os/affinity.hpp"
#include "topo/agreement.hpp"
#include "topo/assign.hpp"
#include "topo/binding.hpp"
#include "topo/blob.hpp"
#include "topo/discover.hpp"

namespace ho {
namespace {

Result<RankCard> own_card(const std::optional<std::string>& host_id,
                          const std::optional<uint32_t>& local_rank,
                          const std::optional<GroupFile>& group_file) {
  HORING_ASSIGN(const Topology topology, discover());
  HORING_ASSIGN(const InterfaceFilter filter, interface_filter());
  HORING_ASSIGN(const auto cpus, allowed_cpus());
  RankCard card = make_rank_card(topology, filter, place_of_rank(topology, cpus, local_rank));
  card.settings = settings_that_must_agree(group_file);
  card.host_id = host_id.value_or(card.host_id);
  for (const CardNic& nic : card.nics) {
    log_info("interface {}: taken", nic.name);
  }
  for (const DroppedNic& nic : card.dropped) {
    log_info("interface {}: {}", nic.name, nic.reason);
  }
  return card;
}

Result<std::vector<RankCard>> exchange_cards(ControlPlane& plane,
                                             const RankCard& mine,
                                             Deadline deadline) {
  HORING_ASSIGN(const auto encoded, encode_rank_card(mine));
  HORING_ASSIGN(const auto blobs, plane.all_gather("rank cards", encoded, {}, deadline));
  std::vector<RankCard> cards;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    Result<RankCard> card = parse_rank_card(blobs[rank]);
    if (!card.ok()) {
      return card.status().with_context(fmt::format("card of rank {}", rank));
    }
    cards.push_back(*std::move(card));
  }
  return cards;
}

}  // namespace

Result<Placement> place_ranks(ControlPlane& plane,
                              const std::optional<std::string>& host_id,
                              Deadline deadline) {
  HORING_ASSIGN(const auto group_file, group_file_from_environment());
  HORING_ASSIGN(const RankCard mine, own_card(host_id, plane.rendezvous().local_rank, group_file));
  HORING_ASSIGN(const std::vector<RankCard> cards, exchange_cards(plane, mine, deadline));
  HORING_TRY(agree(cards));
  HORING_ASSIGN(const uint64_t rails, env::number(env::kRails));
  const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(rails, cards.size()));
  HORING_ASSIGN(Assignment assignment, assign_rails(cards, group_file, wanted));
  const GlobalRank self(plane.rendezvous().rank);
  log_info("{}", explain_rank(assignment, self));
  Placement placement{std::move(assignment.map),
                      {},
                      {},
                      {},
                      {},
                      wanted,
                      std::move(assignment.warnings),
                      std::move(assignment.lost_nics)};
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const uint32_t host = assignment.host_of_rank[rank];
    placement.host_id.push_back(std::to_string(host));
    placement.host_name.push_back(assignment.host_names[host]);
    const AssignedNic& nic = assignment.nic_of_rank[rank];
    placement.nic.push_back({nic.name, nic.address});
    placement.nic_mbit.push_back(nic.speed_mbit);
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
  const auto nic = std::find_if(
      topology.interfaces.begin(), topology.interfaces.end(), [&](const NetworkInterface& found) {
        return found.name == interface;
      });
  const int32_t numa_node = nic == topology.interfaces.end() ? -1 : nic->numa_node;
  return progress_cpus(setting, topology.numa_nodes, numa_node, allowed);
}

}  // namespace ho
