// The order of ranks in their groups, subnets, and groups by file.
#include <algorithm>
#include <random>

#include "catch.hpp"
#include "infos.hpp"
#include "topo/assign.hpp"

using ho::GlobalRank;
using ho::GroupIndex;
using ho::RailIndex;
using ho::RankInfo;

namespace {

ho::Assignment assign_infos(const std::vector<RankInfo>& infos,
                            const std::optional<ho::GroupFile>& file = std::nullopt) {
  auto result = ho::assign_rails(infos, file, 0);
  INFO((result.ok() ? "" : result.status().message()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

std::string subnet_address(uint32_t subnet, uint32_t host) {
  return "10." + std::to_string(subnet + 1) + ".0." + std::to_string(host + 1) + "/24";
}

}  // namespace

TEST_CASE("subnets in another order on each host are aligned by rail") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const uint32_t rails = 1 + static_cast<uint32_t>(random() % 6);
    std::vector<RankInfo> infos;
    for (uint32_t host = 0; host < 3; ++host) {
      std::vector<uint32_t> subnets(rails);
      for (uint32_t n = 0; n < rails; ++n) {
        subnets[n] = n;
      }
      std::shuffle(subnets.begin(), subnets.end(), random);
      std::vector<ho::RankNic> nics;
      for (uint32_t n = 0; n < rails; ++n) {
        nics.push_back(ho::info_nic("eth" + std::to_string(n), subnet_address(subnets[n], host)));
      }
      infos.insert(infos.end(), rails, ho::info_on(host, nics));
    }
    std::shuffle(infos.begin(), infos.end(), random);
    const auto assignment = assign_infos(infos);
    CHECK(assignment.warnings.empty());
    CHECK(assignment.ring_count == rails);
    for (uint32_t g = 0; g < 3; ++g) {
      for (uint32_t rail = 0; rail < rails; ++rail) {
        const auto& nic = assignment.rails[g][rail];
        CHECK(nic.subnet == assignment.rails[0][rail].subnet);
        const auto rank = assignment.map.rail_rank(GroupIndex(g), RailIndex(rail));
        CHECK(assignment.nic_of_rank[rank.at()] == nic);
      }
    }
  }
}

TEST_CASE("ranks keep their nearest NIC; their order follows the subnets") {
  // Host 1's ranks are near to the NICs in reverse.
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    RankInfo info = ho::railed_info(rank / 4, 4);
    for (uint32_t n = 0; n < 4; ++n) {
      const uint32_t near = rank < 4 ? rank : 7 - rank;
      info.nics[n].distance = n == near ? 2 : ho::kOtherNumaNode;
    }
    infos.push_back(info);
  }
  const auto assignment = assign_infos(infos);
  CHECK(assignment.nic_of_rank[4].name == "rail3");
  CHECK(assignment.nic_of_rank[4].distance == 2);
  CHECK(assignment.map.rail_rank(GroupIndex(1), RailIndex(0)) == GlobalRank(7));
  CHECK(assignment.rails[1][0].name == "rail0");
  CHECK(assignment.warnings.empty());
}

TEST_CASE("a small group sets the rails, wherever its NIC is") {
  // 3 + 1: the group of one's NIC is on the third subnet.
  std::vector<RankInfo> infos(3, ho::railed_info(0, 3));
  infos.push_back(ho::info_on(1, {ho::info_nic("eth0", subnet_address(2, 1))}));
  for (auto& nic : infos[0].nics) {
    nic.addresses[0].replace(nic.addresses[0].find('/'), 3, "/24");
  }
  infos[1] = infos[2] = infos[0];
  const auto assignment = assign_infos(infos);
  CHECK(assignment.rails[0][0].subnet == "10.3.0.0/24");
  CHECK(assignment.rails[1][0].subnet == "10.3.0.0/24");
  CHECK(assignment.warnings.empty());
}

TEST_CASE("of many NICs those on common subnets are taken") {
  const auto nics = [](std::vector<uint32_t> subnets, uint32_t host) {
    std::vector<ho::RankNic> list;
    for (size_t n = 0; n < subnets.size(); ++n) {
      list.push_back(ho::info_nic("eth" + std::to_string(n), subnet_address(subnets[n], host)));
    }
    return list;
  };
  const std::vector<RankInfo> infos{ho::info_on(0, nics({5, 6, 1, 2}, 0)),
                                    ho::info_on(0, nics({5, 6, 1, 2}, 0)),
                                    ho::info_on(1, nics({7, 2, 8, 1}, 1)),
                                    ho::info_on(1, nics({7, 2, 8, 1}, 1))};
  const auto assignment = assign_infos(infos);
  CHECK(assignment.warnings.empty());
  CHECK(assignment.rails[0][0].subnet == "10.2.0.0/24");
  CHECK(assignment.rails[1][0].subnet == "10.2.0.0/24");
  CHECK(assignment.rails[1][1].subnet == "10.3.0.0/24");
}

TEST_CASE("subnets that cannot be aligned are warned of") {
  const std::vector<RankInfo> infos{ho::info_on(0, {ho::info_nic("eth0", "10.1.0.1/24")}),
                                    ho::info_on(1, {ho::info_nic("eth0", "10.2.0.1/24")}),
                                    ho::info_on(2, {ho::info_nic("eth0", "10.1.0.3/24")})};
  const auto assignment = assign_infos(infos);
  REQUIRE(assignment.warnings.size() == 1);
  CHECK(assignment.warnings[0].find("rail 0: 1 of 3 groups are on another subnet: node0 has eth0 "
                                    "10.1.0.1 (10.1.0.0/24), node1 has eth0 10.2.0.1") == 0);
}

TEST_CASE("routed addresses without a shared subnet are not warned of") {
  const std::vector<RankInfo> infos{ho::info_on(0, {ho::info_nic("eth0", "10.1.0.1/32")}),
                                    ho::info_on(1, {ho::info_nic("eth0", "10.2.0.1/32")})};
  CHECK(assign_infos(infos).warnings.empty());
}

TEST_CASE("a rail has one address family in all groups") {
  RankInfo both = ho::info_on(0, {ho::info_nic("eth0", "10.1.0.1/24")});
  both.nics[0].addresses.emplace_back("fd00::1/64");
  const RankInfo six = ho::info_on(1, {ho::info_nic("eth0", "fd00::2/64")});
  const auto assignment = assign_infos({both, six});
  CHECK(assignment.rails[0][0].address == "fd00::1");
  CHECK(assignment.rails[1][0].address == "fd00::2");
  CHECK(assignment.warnings.empty());
  const auto apart = assign_infos({ho::info_on(0, {ho::info_nic("eth0", "10.1.0.1/24")}), six});
  CHECK(apart.warnings.size() == 1);
}

TEST_CASE("the first rails use different NICs") {
  // Ranks 0 and 1 are near eth0, 2 and 3 near eth1: rails 0 and 1 must not both be on eth0.
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    const uint32_t near = rank % 4 / 2;
    RankInfo info = ho::railed_info(rank / 4, 2);
    info.nics[near].distance = 2;
    infos.push_back(info);
  }
  const auto assignment = assign_infos(infos);
  CHECK(assignment.ring_count == 2);
  CHECK(assignment.rails[0][0].name == "rail0");
  CHECK(assignment.rails[0][1].name == "rail1");
  CHECK(assignment.map.rail_rank(GroupIndex(0), RailIndex(1)) == GlobalRank(2));
}

TEST_CASE("several NICs on one subnet are told apart") {
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    infos.push_back(
        ho::info_on(rank / 2,
                    {ho::info_nic("eth0", "10.0.0." + std::to_string(rank / 2 * 2 + 1) + "/24"),
                     ho::info_nic("eth1", "10.0.0." + std::to_string(rank / 2 * 2 + 2) + "/24")}));
  }
  const auto assignment = assign_infos(infos);
  CHECK(assignment.ring_count == 2);
  CHECK(assignment.nic_of_rank[3].address == "10.0.0.4");
}

TEST_CASE("rings count the NICs that every group has") {
  std::vector<RankInfo> infos(4, ho::railed_info(0, 4));
  infos.insert(infos.end(), 4, ho::railed_info(1, 2));
  const auto assignment = assign_infos(infos);
  CHECK(assignment.ring_count == 2);
  CHECK(assignment.rails[1][1].name == "rail1");
}

TEST_CASE("a group file joins hosts; hosts stay apart") {
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    infos.push_back(ho::railed_info(rank / 2, 2));
  }
  const auto file =
      *ho::GroupFile::parse(R"({"groups": [["node0", "node3"], ["node1", "node2"]]})", "g.json");
  const auto assignment = assign_infos(infos, file);
  CHECK(assignment.map.to_string() == "2x4");
  CHECK(assignment.map.group_of(GlobalRank(6)) == assignment.map.group_of(GlobalRank(0)));
  CHECK(assignment.host_of_rank == std::vector<uint32_t>{0, 0, 1, 1, 2, 2, 3, 3});
  const auto missing =
      ho::assign_rails(infos, *ho::GroupFile::parse(R"({"groups": [["node0"]]})", "g.json"), 0);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().message().find("host node1 runs ranks but is in no group") !=
        std::string::npos);
}

TEST_CASE("ranks of one identity with interfaces of their own keep them") {
  // Containers with own network namespaces that were given one HORING_HOST_ID.
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    infos.push_back(ho::info_on(
        rank / 2, {ho::info_nic("eth0", "10.0.0." + std::to_string(rank + 1) + "/24")}));
  }
  const auto assignment = assign_infos(infos);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(assignment.nic_of_rank[rank].address == "10.0.0." + std::to_string(rank + 1));
  }
}
