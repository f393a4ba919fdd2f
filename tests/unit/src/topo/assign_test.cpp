// Which NIC each rank gets, and what a world that cannot work says.
#include "topo/assign.hpp"

#include <map>
#include <set>

#include "catch.hpp"
#include "infos.hpp"
#include "topo/discover.hpp"

using ho::GlobalRank;
using ho::RankInfo;

namespace {

ho::Assignment assign(const std::vector<RankInfo>& infos) {
  auto result = ho::assign_rails(infos, std::nullopt, 0);
  INFO((result.ok() ? "" : result.status().message()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

std::string names(const ho::Assignment& assignment) {
  std::string text;
  for (const ho::AssignedNic& nic : assignment.nic_of_rank) {
    text += (text.empty() ? "" : " ") + nic.name;
  }
  return text;
}

// Ranks dealt to hosts of these sizes one after the other.
std::vector<RankInfo> round_robin(std::vector<uint32_t> sizes, uint32_t nics) {
  std::vector<RankInfo> infos;
  for (bool dealt = true; dealt;) {
    dealt = false;
    for (uint32_t host = 0; host < sizes.size(); ++host) {
      if (sizes[host] > 0) {
        --sizes[host];
        infos.push_back(ho::railed_info(host, nics));
        dealt = true;
      }
    }
  }
  return infos;
}

std::vector<RankInfo> blocks(const std::vector<uint32_t>& sizes, uint32_t nics) {
  std::vector<RankInfo> infos;
  for (uint32_t host = 0; host < sizes.size(); ++host) {
    infos.insert(infos.end(), sizes[host], ho::railed_info(host, nics));
  }
  return infos;
}

void check_even_use(const ho::Assignment& assignment, uint32_t nics) {
  std::vector<std::map<std::string, uint32_t>> uses(assignment.host_names.size());
  std::vector<uint32_t> ranks(assignment.host_names.size(), 0);
  for (size_t rank = 0; rank < assignment.nic_of_rank.size(); ++rank) {
    ++uses[assignment.host_of_rank[rank]][assignment.nic_of_rank[rank].name];
    ++ranks[assignment.host_of_rank[rank]];
  }
  for (size_t host = 0; host < uses.size(); ++host) {
    CHECK(uses[host].size() == std::min(nics, ranks[host]));
    for (const auto& [name, count] : uses[host]) {
      CHECK(count >= ranks[host] / nics);
      CHECK(count <= (ranks[host] + nics - 1) / nics);
    }
  }
}

void check_rails_align(const ho::Assignment& assignment) {
  for (const auto& rails : assignment.rails) {
    REQUIRE(rails.size() == assignment.map.rail_count());
    for (size_t rail = 0; rail < rails.size(); ++rail) {
      CHECK(rails[rail].subnet == assignment.rails[0][rail].subnet);
    }
  }
  CHECK(assignment.warnings.empty());
}

}  // namespace

TEST_CASE("every placement and shape uses NICs evenly and aligns rails") {
  const std::vector<std::vector<uint32_t>> shapes{
      {1}, {5}, {1, 1}, {4, 4}, {1, 3}, {7, 8}, {1, 8}, {3, 5, 1}, {4, 4, 4, 4}, {2, 2, 2}};
  for (const auto& shape : shapes) {
    for (uint32_t nics = 1; nics <= 8; ++nics) {
      for (const bool dealt : {false, true}) {
        const auto infos = dealt ? round_robin(shape, nics) : blocks(shape, nics);
        const auto assignment = assign(infos);
        CHECK(assignment.map.group_count() == shape.size());
        CHECK(assignment.map.world_size() == infos.size());
        check_even_use(assignment, nics);
        check_rails_align(assignment);
        CHECK(assignment.ring_count == std::min(nics, assignment.map.rail_count()));
      }
    }
  }
}

TEST_CASE("ranks dealt round-robin keep the order of their group") {
  const auto assignment = assign(round_robin({4, 4, 4, 4}, 4));
  for (uint32_t rank = 0; rank < 16; ++rank) {
    CHECK(assignment.map.group_of(GlobalRank(rank)).value() == rank % 4);
    CHECK(assignment.map.group_rank_of(GlobalRank(rank)).value() == rank / 4);
    CHECK(assignment.nic_of_rank[rank].name == "rail" + std::to_string(rank / 4));
    CHECK(assignment.nic_of_rank[rank].address ==
          "10." + std::to_string(rank / 4 + 1) + ".0." + std::to_string(rank % 4 + 1));
  }
}

TEST_CASE("one NIC is shared by all ranks of its host") {
  const auto assignment = assign(blocks({4, 4}, 1));
  CHECK(names(assignment) == "rail0 rail0 rail0 rail0 rail0 rail0 rail0 rail0");
  CHECK(assignment.nic_of_rank[2].sharers == 4);
  CHECK(assignment.ring_count == 1);
}

TEST_CASE("numbers in NIC names count as numbers") {
  auto infos = blocks({12, 12}, 12);
  for (auto& info : infos) {
    std::reverse(info.nics.begin(), info.nics.end());
  }
  const auto assignment = assign(infos);
  CHECK(assignment.nic_of_rank[2].name == "rail2");
  CHECK(assignment.nic_of_rank[10].name == "rail10");
}

TEST_CASE("of more NICs than ranks the nearest are taken, then the fastest") {
  auto infos = blocks({1, 1}, 3);
  for (auto& info : infos) {
    info.nics[0].distance = ho::kOtherNumaNode;
  }
  CHECK(names(assign(infos)) == "rail1 rail1");
  for (auto& info : infos) {
    info.nics[1].speed_mbit = 1000;
  }
  CHECK(names(assign(infos)) == "rail2 rail2");
}

TEST_CASE("GPUs choose the nearest of 8 NICs on 2 NUMA nodes") {
  const auto topology =
      ho::discover_xml(std::string(HORING_FIXTURES) + "/two_socket_8gpu_8nic.xml");
  REQUIRE(topology.ok());
  const auto filter = *ho::parse_interface_filter("rail");
  // Local rank r has GPU order[r]: each rank's NIC must hang under its GPU's switch.
  const std::vector<uint32_t> order{5, 2, 7, 0, 3, 6, 1, 4};
  std::vector<RankInfo> infos;
  infos.reserve(order.size());
  for (const uint32_t gpu : order) {
    infos.push_back(
        ho::make_rank_info(*topology, filter, ho::location_of_rank(*topology, {}, gpu)));
  }
  const auto assignment = assign(infos);
  std::set<std::string> used;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto& nic = assignment.nic_of_rank[rank];
    CHECK(nic.distance < ho::kSameHostBridge);
    CHECK((nic.name == "rail" + std::to_string(order[rank] / 2 * 2) ||
           nic.name == "rail" + std::to_string(order[rank] / 2 * 2 + 1)));
    CHECK(used.insert(nic.name).second);
  }
}

TEST_CASE("CPUs choose the nearest of 8 NICs on 2 NUMA nodes") {
  const auto topology =
      *ho::discover_xml(std::string(HORING_FIXTURES) + "/two_socket_8gpu_8nic.xml");
  const auto filter = *ho::parse_interface_filter("rail");
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const std::vector<uint32_t> cpus{rank % 2 == 0 ? 4U + rank : rank};  // 4, 1, 6, 3
    infos.push_back(
        ho::make_rank_info(topology, filter, ho::location_of_rank(topology, cpus, std::nullopt)));
  }
  CHECK(names(assign(infos)) == "rail4 rail0 rail5 rail1");
}

TEST_CASE("communicators of one rank per host use the NICs of their local ranks") {
  for (uint32_t local = 0; local < 6; ++local) {
    auto infos = blocks({1, 1, 1}, 4);
    for (auto& info : infos) {
      info.nics[0].speed_mbit = 1000;  // as a management NIC: no local rank's
      info.local_rank = local;
    }
    const std::string rail = "rail" + std::to_string(1 + local % 3);
    CHECK(names(assign(infos)) == rail + " " + rail + " " + rail);
  }
}

TEST_CASE("a management NIC is left alone while fast rails suffice") {
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    infos.push_back(ho::railed_info(rank / 4, 4));
    infos.back().nics.insert(
        infos.back().nics.begin(),
        ho::info_nic(
            "eno1", "192.168.0." + std::to_string(rank / 4 + 1) + "/24", ho::kSameNumaNode, 1000));
  }
  CHECK(names(assign(infos)) == "rail0 rail1 rail2 rail3 rail0 rail1 rail2 rail3");
  infos.push_back(infos[0]);
  const auto shared = assign(infos);
  REQUIRE(shared.warnings.size() == 1);
  CHECK(shared.warnings[0].find("HORING_SOCKET_IFNAME=^eno1") != std::string::npos);
}

TEST_CASE("a link may go over all NICs as good as those in use, and over no others") {
  const auto of_host = [](const ho::Assignment& made, size_t host) {
    std::string text;
    for (const ho::AssignedNic& nic : made.nics_of_host.at(host)) {
      text += (text.empty() ? "" : " ") + nic.name + " " + nic.address;
    }
    return text;
  };
  std::vector<RankInfo> infos = blocks({1, 1}, 3);
  for (uint32_t host = 0; host < 2; ++host) {
    infos[host].local_rank = 1;
    const std::string end = ".0.0." + std::to_string(host + 1) + "/16";
    infos[host].nics.push_back(ho::info_nic("eth0", "172" + end, ho::kSameNumaNode, 1000));
  }
  infos[1].nics.push_back(ho::info_nic("alone", "192.168.7.9/24"));
  const ho::Assignment made = assign(infos);
  CHECK(names(made) == "rail1 rail1");
  CHECK(of_host(made, 0) == "rail0 10.1.0.1 rail1 10.2.0.1 rail2 10.3.0.1");
  CHECK(of_host(made, 1) == "rail0 10.1.0.2 rail1 10.2.0.2 rail2 10.3.0.2");

  // What is in use stays, however slow.
  std::vector<RankInfo> full = blocks({4, 4}, 3);
  for (size_t rank = 0; rank < full.size(); ++rank) {
    const std::string address = "172.0.0." + std::to_string(rank / 4 + 1) + "/16";
    full[rank].nics.push_back(ho::info_nic("eth0", address, ho::kSameNumaNode, 1000));
  }
  CHECK(of_host(assign(full), 0) == "eth0 172.0.0.1 rail0 10.1.0.1 rail1 10.2.0.1 rail2 10.3.0.1");
}

TEST_CASE("no NIC is fine in one group, and an error that says why in several") {
  std::vector<RankInfo> infos{ho::info_on(0, {}), ho::info_on(0, {})};
  const auto alone = assign(infos);
  CHECK(alone.nic_of_rank[0].name.empty());
  CHECK(alone.ring_count == 1);
  CHECK(alone.rails[0].size() == 2);
  infos = blocks({2, 2}, 1);
  infos[3].nics.clear();
  infos[3].dropped = {{"eth0", "dropped: operstate down"}, {"ib0", "dropped: no address"}};
  const auto failed = ho::assign_rails(infos, std::nullopt, 0);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().message().find("host node1 (rank 3) has no usable network interface") == 0);
  CHECK(failed.status().message().find("eth0 dropped: operstate down; ib0 dropped: no address") !=
        std::string::npos);
}

TEST_CASE("loopback serves groups on one machine only") {
  std::vector<RankInfo> infos;
  for (uint32_t host = 0; host < 2; ++host) {
    infos.push_back(ho::info_on(host, {ho::info_nic("lo", "127.0.0.1/8")}));
    infos.back().host_name = "same";
  }
  CHECK(names(assign(infos)) == "lo lo");
  infos[1].host_name = "other";
  const auto failed = ho::assign_rails(infos, std::nullopt, 0);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.status().message().find("loopback, which other hosts cannot reach") !=
        std::string::npos);
}

TEST_CASE("two hosts with one address on a rail are named") {
  std::vector<RankInfo> infos;
  for (uint32_t host = 0; host < 2; ++host) {
    infos.push_back(ho::info_on(host, {ho::info_nic("br0", "172.17.0.1/16")}));
  }
  const auto assignment = assign(infos);
  REQUIRE(assignment.warnings.size() == 1);
  CHECK(assignment.warnings[0].find("rail 0: node0 (br0) and node1 (br0) have the same address "
                                    "172.17.0.1, so neither can reach the other") == 0);
  infos[1].host_name = infos[0].host_name;  // one machine that stands for two
  CHECK(assign(infos).warnings.empty());
}

TEST_CASE("link-local addresses serve where a NIC has no other, on no subnet") {
  std::vector<RankInfo> infos;
  for (uint32_t host = 0; host < 2; ++host) {
    const std::string end = std::to_string(host + 1) + "/64";
    infos.push_back(ho::info_on(host, {ho::info_nic("eth0", "fe80::" + end)}));
  }
  CHECK(assign(infos).nic_of_rank[1].address == "fe80::2");
  CHECK(assign(infos).nic_of_rank[1].subnet.empty());
  CHECK(assign(infos).warnings.empty());
  for (uint32_t host = 0; host < 2; ++host) {
    infos[host].nics[0].addresses.push_back("fd00::" + std::to_string(host + 1) + "/128");
  }
  CHECK(assign(infos).nic_of_rank[1].address == "fd00::2");
}

TEST_CASE("an interface that the job would use and cannot is named") {
  const auto lost = [](const std::vector<RankInfo>& infos) { return assign(infos).lost_nics; };
  const RankInfo whole0 = ho::railed_info(0, 2);
  const RankInfo whole1 = ho::railed_info(1, 2);
  RankInfo broken = ho::railed_info(0, 1);
  CHECK(lost({whole0, whole0, whole1, whole1}).empty());

  broken.dropped = {{"rail1", "dropped: operstate down"}};
  CHECK(
      lost({broken, broken, whole1, whole1}) ==
      std::vector<std::string>{"node0: rail1 dropped: operstate down; the job uses 1 of 2 rails"});
  // Without an address, it counts where another host uses that name.
  broken.dropped = {{"rail1", "dropped: operstate down, no address"},
                    {"eno4", "dropped: operstate down, no address"},
                    {"docker0", "dropped: operstate down, inside this host"},
                    {"eth9", "dropped: HORING_SOCKET_IFNAME=^eth excludes it"}};
  CHECK(lost({broken, broken, whole1, whole1}) ==
        std::vector<std::string>{
            "node0: rail1 dropped: operstate down, no address; the job uses 1 of 2 rails"});
  // One host needs no network; one rank per host no second rail.
  CHECK(lost({broken, broken}).empty());
  broken.dropped.clear();
  CHECK(lost({broken, whole1}).empty());
  CHECK(
      lost({broken, broken, whole1, whole1}) ==
      std::vector<std::string>{"node0: 1 usable interface(s) where most hosts have 2; the job uses "
                               "1 of 2 rails"});
}

TEST_CASE("an empty world is an error") {
  CHECK_FALSE(ho::assign_rails({}, std::nullopt, 0).ok());
}

TEST_CASE("which NIC a rank has is explained") {
  const auto assignment = assign(blocks({4, 4}, 2));
  CHECK(ho::explain_rank(assignment, GlobalRank(5)) ==
        "rank 5 (node1): group 1, rail 1, rail1 10.2.0.2 (same NUMA node, shared by 2 ranks)");
}
