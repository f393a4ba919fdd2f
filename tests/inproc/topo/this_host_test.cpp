// What topo reads of the host that it runs on, and does to it: interfaces, the whole host, a
// thread's CPUs.
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "os/affinity.hpp"
#include "scoped_variable.hpp"
#include "temporary_folder.hpp"
#include "topo/binding.hpp"
#include "topo/discover.hpp"
#include "topo/filter.hpp"
#include "topo/host_identity.hpp"
#include "topo/interfaces.hpp"

using Cpus = std::vector<uint32_t>;

TEST_CASE("a thread is bound, and only that thread") {
  const auto before = ho::allowed_cpus();
  REQUIRE(before.ok());
  REQUIRE_FALSE(before->empty());
  const Cpus last{before->back()};
  Cpus inside;
  ho::Status bound;
  std::thread([&] {
    bound = ho::bind_current_thread(last);
    inside = *ho::allowed_cpus();
  }).join();
  CHECK(bound.ok());
  CHECK(inside == last);
  CHECK(*ho::allowed_cpus() == *before);
  CHECK(ho::bind_current_thread({}).ok());
  CHECK(ho::bind_current_thread(Cpus{65535}).message().find("sched_setaffinity") !=
        std::string::npos);
}

TEST_CASE("the live interfaces do not need a sysfs") {
  const ho::test::TemporaryFolder nothing;
  const auto interfaces = ho::live_interfaces(nothing.root().string());
  REQUIRE(interfaces.ok());
  for (const auto& interface : *interfaces) {
    CHECK_FALSE(interface.name.empty());
    CHECK(interface.speed_mbit == 0);
    for (const std::string& address : interface.addresses) {
      CHECK_FALSE(address.starts_with("fe80:"));
    }
  }
}

TEST_CASE("this machine is discovered, the same twice") {
  const auto topology = ho::discover_live();
  REQUIRE(topology.ok());
  CHECK(topology->source == "live");
  CHECK(topology->cpu_count >= 1);
  CHECK(topology->core_count >= 1);
  CHECK_FALSE(topology->numa_nodes.empty());
  CHECK_FALSE(topology->host_name.empty());
  CHECK(topology->host_id == *ho::host_identity());
  CHECK(topology->host_id.find(".net") != std::string::npos);
  const auto again = ho::discover_live();
  CHECK(again->host_id == topology->host_id);
  CHECK(again->interfaces.size() == topology->interfaces.size());
  // Every interface is judged, with a reason.
  for (const auto& decision :
       ho::judge_interfaces(topology->interfaces, *ho::parse_interface_filter(""))) {
    CHECK_FALSE(decision.reason.empty());
  }
}

TEST_CASE("variables choose source and identity") {
  const std::string fixture = std::string(HORING_FIXTURES) + "/two_socket_8gpu_8nic.xml";
  const ho::test::ScopedVariable id("HORING_HOST_ID", "rack1-7");
  CHECK(*ho::host_identity() == "rack1-7");
  const ho::test::ScopedVariable file("HORING_TOPO_FILE", fixture);
  const auto topology = ho::discover();
  REQUIRE(topology.ok());
  CHECK(topology->host_id == "rack1-7");
  CHECK(topology->host_name == ho::host_name());
  CHECK(topology->gpus.size() == 8);
  const ho::test::ScopedVariable missing("HORING_TOPO_FILE", "/no/such.xml");
  CHECK(ho::discover().status().message().find("HORING_TOPO_FILE: topology file /no/such.xml") ==
        0);
}
