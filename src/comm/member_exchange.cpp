#include "comm/member_exchange.hpp"

namespace ho {

Result<std::vector<std::vector<std::byte>>> MemberExchange::gather(
    std::string_view what,
    std::span<const std::byte> mine,
    const std::vector<GlobalRank>& members,
    Deadline deadline) const {
  std::vector<GlobalRank> world;
  world.reserve(members.size());
  for (const GlobalRank rank : members) {
    world.push_back(identity_.ranks[rank.at()]);
  }
  return plane_.all_gather(
      JobControl::gather_tag(what, identity_.id, identity_.communicator_id), mine, world, deadline);
}

Result<std::vector<std::vector<std::byte>>> MemberExchange::gather_all(
    std::string_view what, std::span<const std::byte> mine, Deadline deadline) const {
  return plane_.all_gather(JobControl::gather_tag(what, identity_.id, identity_.communicator_id),
                           mine,
                           identity_.ranks,
                           deadline);
}

Status MemberExchange::interrupted() const {
  return plane_.why_over(JobControl::gather_tag({}, identity_.id, identity_.communicator_id));
}

}  // namespace ho
