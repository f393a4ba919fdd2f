// NCCL's topology files: a cloud's machine with bare PCI devices, and what NCCL dumps itself.
#include "topo/nccl_topology.hpp"

#include "catch.hpp"
#include "has.hpp"
#include "topo/discover.hpp"
#include "topo/rank_info.hpp"

namespace {

using ho::parse_topology_xml;

// Two NUMA nodes with a switch each: a GPU and a NIC under it, by their classes alone.
constexpr const char* kOfCloud = R"(<!-- a machine -->
<system version="1">
  <cpu numaid="0" affinity="00000000,0000000f" arch="x86_64" vendor="AuthenticAMD" familyid="23">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000000f,00000000" arch="x86_64" vendor="AuthenticAMD" familyid="23">
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0102:00:00.0" class="0x020000" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
)";

// One node as NCCL writes it, a virtual NIC and a display chip besides.
constexpr const char* kOfDump = R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ff" arch="arm64">
    <pci busid="00000000:3A:00.0" class="0x060400" vendor="0x1000" device="0xc010">
      <pci busid="0000:3b:00.0" class="0x030200" vendor="0x10de" device="0x2330">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:5a:00.0" count="18" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:3c:00.0" class="0x020000" vendor="0x15b3" device="0x1021">
        <nic>
          <net name="mlx5_0" dev="0" latency="0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:02:00.0" class="0x030000" vendor="0x1a03" device="0x2000"/>
    <nic>
      <net name="ens5" dev="1" speed="25000" port="0" gdr="0"/>
    </nic>
  </cpu>
</system>
)";

std::string topology_fault(const std::string& xml) {
  const auto topology = parse_topology_xml(xml, "t.xml");
  return topology.ok() ? "none" : topology.status().message();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a cloud's topology file for NCCL gives GPUs and NICs by their PCI classes") {
  const auto topology = parse_topology_xml(kOfCloud, "/x/cloud.xml");
  REQUIRE(topology.status().message() == "");
  CHECK(topology->source == "xml /x/cloud.xml");
  CHECK(topology->host_name == "cloud");
  CHECK(topology->cpu_count == 8);
  REQUIRE(topology->numa_nodes.size() == 2);
  CHECK(topology->numa_nodes[0].cpus == std::vector<uint32_t>{0, 1, 2, 3});
  CHECK(topology->numa_nodes[1].cpus == std::vector<uint32_t>{32, 33, 34, 35});
  REQUIRE(topology->gpus.size() == 2);
  CHECK(topology->gpus[1].name == "0002:00:00.0");
  CHECK(topology->gpus[1].numa_node == 1);
  REQUIRE(topology->interfaces.size() == 2);
  CHECK(topology->interfaces[0].name == "0101:00:00.0");
  CHECK(topology->interfaces[0].numa_node == 0);
  CHECK(topology->interfaces[0].operstate == "unknown");
  CHECK(topology->interfaces[0].pci_path == topology->gpus[0].pci_path);
  CHECK(topology->interfaces[0].pci_path != topology->gpus[1].pci_path);
}

TEST_CASE("a topology that NCCL dumped gives its names, speeds and virtual NICs") {
  const auto topology = parse_topology_xml(kOfDump, "t.xml");
  REQUIRE(topology.status().message() == "");
  REQUIRE(topology->gpus.size() == 1);  // the display chip is none
  CHECK(topology->gpus[0].name == "nvml0");
  CHECK(topology->gpus[0].pci == "0000:3b:00.0");
  CHECK(topology->gpus[0].pci_path == std::vector<std::string>{"cpu0", "0000:3a:00.0"});
  REQUIRE(topology->interfaces.size() == 2);
  CHECK(topology->interfaces[0].name == "ens5");
  CHECK(topology->interfaces[0].pci.empty());
  CHECK(topology->interfaces[0].speed_mbit == 25000);
  CHECK(topology->interfaces[1].name == "mlx5_0");
  CHECK(topology->interfaces[1].pci == "0000:3c:00.0");
  CHECK(topology->interfaces[1].speed_mbit == 400000);
  CHECK(topology->interfaces[1].pci_path == topology->gpus[0].pci_path);
}

TEST_CASE("interfaces of NCCL's files are this host's at the same PCI name") {
  auto topology = *parse_topology_xml(kOfCloud, "t.xml");
  ho::NetworkInterface live;
  live.name = "ib0";
  live.pci = "0101:00:00.0";
  live.operstate = "up";
  live.addresses = {"10.1.0.1/24"};
  ho::adopt_live(std::vector{live}, topology);
  CHECK(topology.interfaces[0].name == "ib0");
  CHECK(topology.interfaces[0].numa_node == 0);
  CHECK(topology.interfaces[0].addresses == live.addresses);
  CHECK(topology.interfaces[1].operstate == "absent");
}

TEST_CASE("what is wrong in one of NCCL's files is named with its line and as what it is") {
  const std::string file = kOfCloud;
  CHECK(topology_fault(replaced(file, "version=\"1\"", "version=\"2\"")) ==
        "topology file t.xml, one of NCCL's: line 2: NCCL's topology files have version=\"1\", and "
        "this one '2'; NCCL_TOPO_DUMP_FILE=FILE writes such a file");
  CHECK(has(topology_fault(replaced(file, "0001:00:00.0", "0001:00")),
            "line 5: <pci> has the busid '0001:00'"));
  CHECK(has(topology_fault(replaced(file, "0000000f", "xyz")),
            "line 3: <cpu> has no valid numaid and affinity"));
  CHECK(has(topology_fault(replaced(file, "numaid=\"1\"", "numaid=\"-2\"")),
            "line 9: <cpu> has no valid"));
  CHECK(has(topology_fault(replaced(file, "numaid=\"1\"", "host_hash=\"2\" numaid=\"1\"")),
            "line 9: <cpu> is of another host"));
  CHECK(has(topology_fault(file.substr(0, file.size() / 2)), "one of NCCL's: "));
  CHECK(has(topology_fault(replaced(kOfDump, "speed=\"400000\"", "speed=\"fast\"")),
            "line 11: <net> has no name"));
  CHECK(
      has(topology_fault("<graphs version=\"1\"/>"), "is NCCL's file of graphs (NCCL_GRAPH_FILE)"));
}
