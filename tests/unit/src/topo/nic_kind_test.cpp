// NICs whose speed nobody knows: which of them carry rails. Hosts with two kinds of memory for the
// same CPUs: which NICs are near.
#include "topo/nic_kind.hpp"

#include "catch.hpp"
#include "infos.hpp"
#include "topo/assign.hpp"
#include "topo/discover.hpp"

namespace {

using ho::RankInfo;
using Names = std::vector<std::string>;
using Kinds = std::set<std::string>;

const ho::Topology& two_memories() {
  static const auto topology = ho::discover_xml(std::string(HORING_FIXTURES) + "/two_memories.xml");
  INFO((topology.ok() ? "" : topology.status().message()));
  REQUIRE(topology.ok());
  return *topology;
}

const ho::NetworkInterface& nic(const std::string& name) {
  for (const ho::NetworkInterface& interface : two_memories().interfaces) {
    if (interface.name == name) {
      return interface;
    }
  }
  FAIL("no " << name);
  return two_memories().interfaces.front();
}

RankInfo info_with(uint32_t host, const Names& names, uint64_t speed_mbit) {
  std::vector<ho::RankNic> nics;
  for (size_t i = 0; i < names.size(); ++i) {
    nics.push_back(
        ho::info_nic(names[i],
                     "10." + std::to_string(i) + ".0." + std::to_string(host + 1) + "/16",
                     ho::kSameNumaNode,
                     speed_mbit));
  }
  return ho::info_on(host, std::move(nics));
}

ho::Assignment nics_of(const std::vector<RankInfo>& infos) {
  auto assigned = ho::assign_rails(infos, std::nullopt, 0);
  REQUIRE(assigned.ok());
  return *std::move(assigned);
}

std::string names_of(const ho::Assignment& assignment) {
  std::string text;
  for (const ho::AssignedNic& each : assignment.nic_of_rank) {
    text += (text.empty() ? "" : " ") + each.name;
  }
  return text;
}

std::vector<RankInfo> two_hosts(const Names& names, uint64_t speed_mbit = 0) {
  std::vector<RankInfo> infos;
  for (uint32_t host = 0; host < 2; ++host) {
    infos.insert(infos.end(), 4, info_with(host, names, speed_mbit));
  }
  return infos;
}

}  // namespace

TEST_CASE("a kind of interface is its name without numbers") {
  CHECK(ho::kind_of("hsi2") == "hsi#");
  CHECK(ho::kind_of("enP5p1s0f1") == "enP#p#s#f#");
  CHECK(ho::kind_of("enP48p1s0f0") == "enP#p#s#f#");
  CHECK(ho::kind_of("lo") == "lo");
}

TEST_CASE("fabrics come first among kinds, then the kind with the most NICs") {
  CHECK(ho::kinds_for_rails({{"enP5p1s0f0", "enP5p1s0f1", "ib0", "ib1"}}) == Kinds{"ib#"});
  CHECK(ho::kinds_for_rails({{"eno1", "eno2", "hsi0"}}) == Kinds{"hsi#"});
  CHECK(ho::kinds_for_rails({{"eno1", "ens1", "ens2"}}) == Kinds{"ens#"});
  CHECK(ho::kinds_for_rails({{"eno1", "ens1"}}).empty());
  CHECK(ho::kinds_for_rails({{"ib0", "hsi0"}}) == Kinds{"hsi#", "ib#"});
  // A kind that a host lacks cannot carry a rail.
  CHECK(ho::kinds_for_rails({{"eth0", "ib0"}, {"eth0", "eth1"}}) == Kinds{"eth#"});
  CHECK(ho::kinds_for_rails({{"eth0", "ib0"}, {"eno1"}}).empty());
  CHECK(ho::kinds_for_rails({}).empty());
}

TEST_CASE("rails do not mix Ethernet with InfiniBand where no speed is known") {
  const Names mixed{"enP5p1s0f0", "enP5p1s0f1", "ib0", "ib1", "ib2", "ib3"};
  const ho::Assignment unknown = nics_of(two_hosts(mixed));
  CHECK(names_of(unknown) == "ib0 ib1 ib2 ib3 ib0 ib1 ib2 ib3");
  CHECK(unknown.map.rail_count() == 4);
  REQUIRE(unknown.warnings.size() == 1);
  CHECK(unknown.warnings[0].find("rails use ib0 ib1 ib2 ib3, which are of one kind, and not "
                                 "enP5p1s0f0 enP5p1s0f1") != std::string::npos);
  // Speeds that are known decide themselves.
  CHECK(names_of(nics_of(two_hosts(mixed, 1000))) ==
        "enP5p1s0f0 enP5p1s0f1 ib0 ib1 enP5p1s0f0 enP5p1s0f1 ib0 ib1");
  // Slingshot beside a management port.
  CHECK(names_of(nics_of(two_hosts({"enp1s0", "hsi0", "hsi1", "hsi2", "hsi3"}))) ==
        "hsi0 hsi1 hsi2 hsi3 hsi0 hsi1 hsi2 hsi3");
  CHECK(nics_of(two_hosts({"eth0", "eth1"})).warnings.empty());
}

TEST_CASE("a kind that has no subnet with the other hosts is left alone") {
  std::vector<RankInfo> infos = two_hosts({"eth0", "eth1", "ib0"});
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    infos[rank].nics[2].addresses = {rank < 4 ? "192.168.1.1/24" : "192.168.2.1/24"};
  }
  CHECK(names_of(nics_of(infos)) == "eth0 eth1 eth0 eth1 eth0 eth1 eth0 eth1");
}

TEST_CASE("a NIC beside two kinds of memory has the NUMA node of its CPUs") {
  CHECK(nic("ib0").numa_node == 0);  // of nodes 0, 2 and 4
  CHECK(nic("ib3").numa_node == 1);  // of 1, 3 and 4
  CHECK(nic("enP1p1s0f0").numa_node == 1);
  REQUIRE(two_memories().numa_nodes.size() == 5);
  const std::vector<uint32_t> cpus{4, 5};
  const ho::RankLocation location = ho::location_of_rank(two_memories(), cpus, std::nullopt);
  CHECK(ho::distance_to(nic("ib2"), two_memories(), location) == ho::kSameNumaNode);
  CHECK(ho::distance_to(nic("ib0"), two_memories(), location) == ho::kOtherNumaNode);
  // HBM of the same CPUs is the same place.
  CHECK(ho::distance_to(nic("ib2"), two_memories(), {3, ""}) == ho::kSameNumaNode);
  CHECK(ho::distance_to(nic("ib2"), two_memories(), {2, ""}) == ho::kOtherNumaNode);
}
