#include "catch.hpp"
#include "topo/discover.hpp"

TEST_CASE("a synthetic description is a whole host") {
  const auto topology = ho::discover_synthetic(
      "pack:2 numa:1 core:8 pu:2; host=node1;"
      " nic=eth10,numa=1,speed=100000,addr=10.2.0.1/24,addr=fd00::1/64;"
      " nic=eth9,numa=0,switch=3,state=down; gpu=cuda0,numa=0,switch=3,pci=0000:01:00.0;"
      " nic=lo,addr=127.0.0.1/8");
  REQUIRE(topology.ok());
  CHECK(topology->source == "synthetic");
  CHECK(topology->host_name == "node1");
  CHECK(topology->host_id == "node1");
  CHECK(topology->package_count == 2);
  CHECK(topology->core_count == 16);
  CHECK(topology->cpu_count == 32);
  REQUIRE(topology->numa_nodes.size() == 2);
  CHECK(topology->numa_nodes[1].cpus.size() == 16);
  REQUIRE(topology->interfaces.size() == 3);
  CHECK(topology->interfaces[0].name == "eth9");
  CHECK(topology->interfaces[0].operstate == "down");
  CHECK(topology->interfaces[0].pci_path == topology->gpus[0].pci_path);
  CHECK(topology->interfaces[1].speed_mbit == 100000);
  CHECK(topology->interfaces[1].numa_node == 1);
  CHECK(topology->interfaces[1].addresses == std::vector<std::string>{"10.2.0.1/24", "fd00::1/64"});
  CHECK(topology->interfaces[2].loopback);
  CHECK(topology->gpus[0].pci == "0000:01:00.0");
}

TEST_CASE("damaged descriptions say what is wrong") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "does not read"},
      {"pack:", "does not read"},
      {"nic=eth0", "does not read"},
      {"pack:1 core:0 pu:1", "does not read"},
      {"pack:70000 core:1", "more than 65536 objects"},
      {"pack:4294967295 core:4294967295", "more than 65536 objects"},
      {"core:2 pu:1; nic", "'nic' is not NAME=VALUE"},
      {"core:2 pu:1; nic=", "is not NAME=VALUE"},
      {"core:2 pu:1; nic=e,", "'' is not NAME=VALUE"},
      {"core:2 pu:1; nic=e,numa=7", "numa=7 is no NUMA node"},
      {"core:2 pu:1; nic=e,numa=x", "numa=x is no NUMA node"},
      {"core:2 pu:1; nic=e,speed=-1", "speed=-1 is no whole number"},
      {"core:2 pu:1; nic=e,addr=10.0.0.1/40", "addr=10.0.0.1/40 is no numeric address"},
      {"core:2 pu:1; nic=e,colour=red", "a nic has no field 'colour'"},
      {"core:2 pu:1; gpu=g,speed=1", "a gpu has no field 'speed'"},
      {"core:2 pu:1; nic=e; nic=e", "two interfaces of this name"},
      {"core:2 pu:1; disk=sda", "an item is nic=NAME, gpu=NAME or host=NAME"},
      {std::string("core:2\0;", 8), "none of them zero"},
      {std::string(70000, ';'), "at most 65536 characters"}};
  for (const auto& [text, what] : cases) {
    INFO(text.substr(0, 60));
    const auto topology = ho::discover_synthetic(text);
    REQUIRE_FALSE(topology.ok());
    CHECK(topology.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(topology.status().message().find(what) != std::string::npos);
  }
}
