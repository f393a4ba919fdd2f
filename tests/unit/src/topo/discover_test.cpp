#include "topo/discover.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "catch.hpp"
#include "scoped_variable.hpp"
#include "temporary_folder.hpp"
#include "topo/binding.hpp"
#include "topo/emulation.hpp"
#include "topo/host_identity.hpp"
#include "topo/rank_info.hpp"

namespace {

const std::string kFixture = std::string(HORING_FIXTURES) + "/two_socket_8gpu_8nic.xml";

std::string fixture_text() {
  std::ifstream file(kFixture);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string fault_of(const std::string& xml) {
  const auto topology = ho::parse_topology_xml(xml, "t.xml");
  return topology.ok() ? "none" : topology.status().message();
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = fixture_text();
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("an XML file gives the whole host") {
  const auto topology = ho::discover_xml(kFixture);
  REQUIRE(topology.ok());
  CHECK(topology->source == "xml " + kFixture);
  CHECK(topology->host_name == "dgx-like");
  CHECK(topology->package_count == 2);
  CHECK(topology->core_count == 8);
  REQUIRE(topology->numa_nodes.size() == 2);
  CHECK(topology->numa_nodes[1].cpus == std::vector<uint32_t>{4, 5, 6, 7});
  REQUIRE(topology->gpus.size() == 8);  // the management controller's VGA is none
  CHECK(topology->gpus[6].name == "cuda6");
  CHECK(topology->gpus[6].pci == "0000:a4:00.0");
  CHECK(topology->gpus[6].numa_node == 1);
  REQUIRE(topology->interfaces.size() == 10);
  CHECK(topology->interfaces[0].name == "eno1");
  CHECK(topology->interfaces[0].speed_mbit == 1000);
  CHECK(topology->interfaces[0].operstate == "unknown");  // the file says nothing
  CHECK(topology->interfaces[1].operstate == "down");
  const auto& rail7 = topology->interfaces[9];
  CHECK(rail7.name == "rail7");
  CHECK(rail7.pci == "0000:a3:00.0");
  CHECK(rail7.numa_node == 1);
  CHECK(rail7.speed_mbit == 400000);
  CHECK(rail7.addresses == std::vector<std::string>{"10.8.0.1/24"});
}

TEST_CASE("display chips of servers are no GPUs, whatever their class") {
  const std::string chip = "0300 [1a03:2000] [1a03:2000]";
  const auto gpus_with = [&](const std::string& other) {
    const auto topology = ho::parse_topology_xml(replaced(chip, other), "t.xml");
    REQUIRE(topology.ok());
    return topology->gpus.size();
  };
  for (const char* device : {"1002:515e",     // ATI ES1000
                             "1002:5969",     // ATI ES1000
                             "1002:4752",     // ATI Rage XL
                             "102b:0536",     // Matrox G200eW3
                             "1a03:2000",     // ASPEED
                             "1b36:0100"}) {  // QXL
    for (const char* display_class : {"0300", "0380"}) {
      INFO(device << " of class " << display_class);
      const std::string ids = " [" + std::string(device) + "] [" + std::string(device) + "]";
      CHECK(gpus_with(display_class + ids) == 8);
    }
  }
  CHECK(gpus_with("0300 [1002:744c] [1002:744c]") == 9);  // Radeon 7900: computes
  CHECK(gpus_with("0380 [1002:740f] [1002:740f]") == 9);  // Instinct MI210
  CHECK(gpus_with("0300 [10de:2684] [10de:2684]") == 9);  // GeForce 4090
  CHECK(gpus_with("0380 [8086:0bd5] [8086:0bd5]") == 9);  // Data Center GPU Max
  CHECK(gpus_with("1200 [19e5:d802] [19e5:d802]") == 9);  // Ascend
}

TEST_CASE("distances order as the machine is wired") {
  const auto topology = *ho::discover_xml(kFixture);
  const auto distance = [&](size_t gpu, const std::string& name) {
    const auto nic = std::find_if(topology.interfaces.begin(),
                                  topology.interfaces.end(),
                                  [&](const auto& i) { return i.name == name; });
    return ho::distance_to(*nic, topology, {-1, topology.gpus[gpu].pci});
  };
  CHECK(distance(0, "rail0") < ho::kSameHostBridge);
  CHECK(distance(0, "rail1") < ho::kSameHostBridge);
  CHECK(distance(0, "rail2") == ho::kSameNumaNode);
  CHECK(distance(0, "eno1") == ho::kSameNumaNode);
  CHECK(distance(0, "rail4") == ho::kOtherNumaNode);
  CHECK(distance(7, "rail6") < ho::kSameHostBridge);
}

TEST_CASE("a file that cannot be read is named") {
  CHECK(ho::discover_xml("/no/such.xml")
            .status()
            .message()
            .find("topology file /no/such.xml: open: No such file or directory") == 0);
  CHECK(ho::discover_xml("/").status().message().find("is not a regular file") !=
        std::string::npos);
  CHECK(ho::discover_xml("/dev/zero").status().message().find("is not a regular file") !=
        std::string::npos);
  const ho::test::TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(ho::discover_xml(pipe).status().message().find("is not a regular file") !=
        std::string::npos);
}

TEST_CASE("damaged XML says where it is damaged") {
  CHECK(fault_of("").find("topology file t.xml: is empty") == 0);
  CHECK(fault_of("handshake").find("has no <topology> element") != std::string::npos);
  CHECK(fault_of("<a/>").find("line 1: <a> stands where") != std::string::npos);
  CHECK(fault_of("<topology version=\"2.0\">\n<info>\n</topology>")
            .find("line 3: </topology> closes <info> of line 2") != std::string::npos);
  CHECK(fault_of("<topology version=\"2.0\">\n<object").find("line 2: a tag is cut off") !=
        std::string::npos);
  CHECK(fault_of("<topology version=\"2.0\">\n<info>").find("ends inside <info> of line 2") !=
        std::string::npos);
  CHECK(fault_of("<topology version=\"2.0\"><!-- ").find("a comment is cut off") !=
        std::string::npos);
  CHECK(fault_of("</topology>").find("closes nothing") != std::string::npos);
  CHECK(fault_of("<topology></topology>").find("not of version 2") != std::string::npos);
  CHECK(fault_of("<topology></topology>").find("hwloc 3") == std::string::npos);
  CHECK(fault_of("<topology version=\"3.0\"></topology>")
            .find("of hwloc 3, `lstopo --of xml --export-xml-flags V2 FILE` does") !=
        std::string::npos);
  CHECK(fault_of("<topology version=\"2.0\"/>").find("hwloc") != std::string::npos);
  CHECK(fault_of(std::string("<topology>\0", 11)).find("control characters") != std::string::npos);
  std::string deep = "<topology version=\"2.0\">";
  for (int i = 0; i < 300; ++i) {
    deep += "<info>";
  }
  CHECK(fault_of(deep).find("nested more than 256 deep") != std::string::npos);
}

TEST_CASE("damaged attributes name the interface") {
  CHECK(fault_of(replaced("\"10.1.0.1/24\"", "\"10.1.0.1/99\""))
            .find("interface rail0: IPAddress "
                  "'10.1.0.1/99'") != std::string::npos);
  CHECK(fault_of(replaced("\"400000\"", "\"quick\"")).find("Speed 'quick'") != std::string::npos);
  CHECK(fault_of(replaced("type=\"Package\"", "type=\"Basket\"")).find("hwloc") !=
        std::string::npos);
}

TEST_CASE("objects without their sets are refused before hwloc sees them") {
  for (const char* set : {" cpuset=", " complete_cpuset=", " nodeset=", " complete_nodeset="}) {
    for (const char* type : {"Machine", "Package", "NUMANode", "Core", "PU"}) {
      std::string text = fixture_text();
      const size_t object = text.find("type=\"" + std::string(type));
      text.replace(text.find(set, object), 2, " _");
      INFO(set << type);
      CHECK(fault_of(text).find("has no valid") != std::string::npos);
    }
  }
}

TEST_CASE("a file that is cut off anywhere is refused") {
  const std::string text = fixture_text();
  const size_t root_end = text.rfind("</topology>") + 10;
  for (size_t length = 0; length <= root_end; length += 37) {
    INFO(length);
    REQUIRE_FALSE(ho::parse_topology_xml(text.substr(0, length), "t.xml").ok());
  }
  CHECK_FALSE(ho::parse_topology_xml(text.substr(0, root_end), "t.xml").ok());
}

TEST_CASE("in a job the file's interfaces take live addresses") {
  ho::Topology topology;
  topology.interfaces.resize(2);
  topology.interfaces[0].name = "eth0";
  topology.interfaces[0].speed_mbit = 100;
  topology.interfaces[0].addresses = {"10.9.9.9/24"};
  topology.interfaces[1].name = "eth1";
  ho::NetworkInterface live;
  live.name = "eth0";
  live.operstate = "up";
  live.speed_mbit = 7;
  live.addresses = {"10.0.0.1/24"};
  ho::adopt_live(std::vector{live}, topology);
  CHECK(topology.interfaces[0].addresses == live.addresses);
  CHECK(topology.interfaces[0].speed_mbit == 100);
  CHECK(topology.interfaces[1].operstate == "absent");
}

TEST_CASE("a host whose identity cannot be read says what to set") {
  const auto identity = ho::host_identity("/no/proc");
  REQUIRE_FALSE(identity.ok());
  CHECK(identity.status().message().find("HORING_HOST_ID") != std::string::npos);
}

TEST_CASE("emulated rails take the place of interfaces") {
  ho::Topology topology;
  topology.interfaces.resize(1);
  CHECK(ho::adopt_emulated("", topology).ok());
  CHECK(topology.interfaces.size() == 1);
  REQUIRE(ho::adopt_emulated("rail0=127.1.0.2,rail2=127.3.0.2", topology).ok());
  REQUIRE(topology.interfaces.size() == 2);
  CHECK(topology.interfaces[0].name == "rail0");
  CHECK(topology.interfaces[0].emulated);
  CHECK_FALSE(topology.interfaces[0].pace);
  CHECK(topology.interfaces[1].addresses == std::vector<std::string>{"127.3.0.2/16"});
  for (const char* wrong : {"bad",
                            "rail1=300.1.1.1",
                            "=127.1.0.2",
                            ";mbit",
                            "rail0=127.1.0.2;mbit=fast",
                            "rail0=127.1.0.2;mbit=1;fd=-1",
                            "rail0=127.1.0.2;rate=1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(ho::adopt_emulated(wrong, topology).ok());
  }
}

TEST_CASE("the rate of emulated rails comes with them, a slot for each") {
  ho::Topology topology;
  REQUIRE(ho::adopt_emulated("rail0=127.1.0.2,rail1=127.2.0.2;mbit=200;fd=7", topology).ok());
  REQUIRE(topology.interfaces[1].pace);
  CHECK(topology.interfaces[0].pace->slot == 0);
  CHECK(topology.interfaces[1].pace->slot == 1);
  CHECK(topology.interfaces[1].pace->mbit == 200);
  CHECK(topology.interfaces[1].pace->memory_fd == 7);

  ho::Topology live;
  live.interfaces.resize(1);
  REQUIRE(ho::adopt_emulated(";mbit=100", live).ok());
  CHECK(live.interfaces[0].pace->mbit == 100);
  CHECK_FALSE(live.interfaces[0].emulated);
}

TEST_CASE("HORING_RAIL_PACE_MBIT is the rate of interfaces that have none") {
  const ho::test::ScopedVariable pace("HORING_RAIL_PACE_MBIT", "50");
  ho::Topology plain;
  plain.interfaces.resize(2);
  REQUIRE(ho::adopt_emulation(plain).ok());
  CHECK(plain.interfaces[1].pace->mbit == 50);
  CHECK(plain.interfaces[1].pace->memory_fd < 0);
  CHECK_FALSE(plain.interfaces[1].emulated);
  const ho::test::ScopedVariable rails("HORING_EMULATED_RAILS", "rail0=127.1.0.2;mbit=200");
  REQUIRE(ho::adopt_emulation(plain).ok());
  CHECK(plain.interfaces[0].pace->mbit == 200);
}
