#include "cli/run/cluster_model.hpp"

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "cli/run/cluster.hpp"

namespace ho {
namespace {

GroupMap sizes(std::string_view text) {
  return GroupMap::parse(text).value();
}

std::string value_of(const Environment& environment, std::string_view name) {
  const auto found = std::find_if(environment.begin(), environment.end(), [&](const auto& entry) {
    return entry.first == name;
  });
  return found == environment.end() ? "(absent)" : found->second;
}

}  // namespace

TEST_CASE("no two things of a cluster share a name or an address") {
  std::set<std::string> seen;
  size_t count = 0;
  for (uint32_t node = 0; node < kMaxNodes; ++node) {
    for (const std::string& text :
         {node_name(node), management_address(node), management_port_name(node)}) {
      seen.insert(text);
      ++count;
    }
    for (uint32_t rail = 0; rail < 9; ++rail) {
      for (const std::string& text : {rail_address(rail, node),
                                      loopback_rail_address(rail, node),
                                      rail_port_name(rail, node)}) {
        seen.insert(text);
        ++count;
      }
    }
  }
  seen.insert(std::string(kOutsideAddress));
  CHECK(seen.size() == count + 1);
  // The kernel's bound on interface names is 15 characters.
  CHECK(rail_port_name(kMaxRails - 1, kMaxNodes - 1).size() <= 15);
}

TEST_CASE("round-robin deals ranks to nodes until each is full") {
  const GroupMap placed = place_block_or_round_robin(sizes("3+5+1"), true).value();
  const std::vector<uint32_t> node_of{0, 1, 2, 0, 1, 0, 1, 1, 1};
  for (uint32_t rank = 0; rank < node_of.size(); ++rank) {
    CAPTURE(rank);
    CHECK(placed.group_of(GlobalRank(rank)) == GroupIndex(node_of[rank]));
  }
  CHECK(place_block_or_round_robin(sizes("3+5+1"), false).value() == sizes("3+5+1"));
}

TEST_CASE("an order file is checked against -n") {
  const GroupMap placed = place_by_list(sizes("1+3"), "1 0\n1\t1\n").value();
  CHECK(placed.group_of(GlobalRank(1)) == GroupIndex(0));
  CHECK(placed.group_rank_of(GlobalRank(3)) == GroupRank(2));
  for (const char* wrong :
       {"", "0 0 1 1", "0 1 1", "0 1 1 1 1", "0 1 1 2", "0 1 1 x", "0 1 1 -1"}) {
    CAPTURE(wrong);
    const Result<GroupMap> result = place_by_list(sizes("1+3"), wrong);
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().message().find("order file") == 0);
  }
}

TEST_CASE("nodes share no CPU while there are enough, and take turns where not") {
  using Cpus = std::vector<uint32_t>;
  const Cpus five{1, 3, 4, 8, 9};
  CHECK(cpus_of_node(five, 0, 2) == Cpus{1, 3});
  CHECK(cpus_of_node(five, 1, 2) == Cpus{4, 8, 9});
  CHECK(cpus_of_node(five, 4, 5) == Cpus{9});
  CHECK(cpus_of_node({6, 7}, 0, 3) == Cpus{6});
  CHECK(cpus_of_node({6, 7}, 2, 3) == Cpus{6});
  CHECK(cpus_of_node(five, 0, 1) == five);
}

TEST_CASE("a rank's environment follows from its place") {
  const Cluster cluster = plain_cluster(Emulation::kPaced, {2, 2, 200});
  const GroupMap placed = place_block_or_round_robin(sizes("2x3"), true).value();
  const JobFacts facts{"127.0.0.1", 20001, "secret", "", 2, 7};
  const Environment got = rank_environment(cluster, placed, GlobalRank(3), facts);
  CHECK(value_of(got, "RANK") == "3");
  CHECK(value_of(got, "WORLD_SIZE") == "6");
  CHECK(value_of(got, "LOCAL_RANK") == "1");
  CHECK(value_of(got, "LOCAL_WORLD_SIZE") == "3");
  CHECK(value_of(got, "MASTER_PORT") == "20001");
  CHECK(value_of(got, "HORING_JOB_KEY") == "secret");
  CHECK(value_of(got, "HORING_JOB_KEY_FILE") == "(absent)");
  CHECK(value_of(got, "HORING_HOST_ID") == "node1");
  CHECK(value_of(got, "HORING_EMULATED_RAILS") == "rail0=127.1.0.2,rail1=127.2.0.2;mbit=200;fd=7");
  CHECK(value_of(got, "HORING_EMULATION") == "paced");
}

TEST_CASE("on namespaces a rank finds its rails by their names") {
  Cluster cluster = plain_cluster(Emulation::kNamespaces, {2, 4, 200});
  const JobFacts all{"10.0.0.1", 20001, "", "/key", 4, -1};
  const Environment got = rank_environment(cluster, sizes("2x4"), GlobalRank(0), all);
  CHECK(value_of(got, "HORING_SOCKET_IFNAME") == "rail");
  CHECK(value_of(got, "HORING_HOST_ID") == "(absent)");
  CHECK(value_of(got, "HORING_EMULATED_RAILS") == "(absent)");
  CHECK(value_of(got, "HORING_JOB_KEY_FILE") == "/key");
  CHECK(value_of(got, "HORING_JOB_KEY") == "(absent)");
  CHECK(value_of(node_environment(cluster, 0, 2), "HORING_SOCKET_IFNAME") == "=rail0,rail1");
}

TEST_CASE("a cluster's description survives being written and read") {
  Cluster cluster = plain_cluster(Emulation::kNamespaces, {3, 2, 500});
  cluster.nodes[1].init_pid = 77;
  cluster.sizes = "1+3";
  const Cluster read = parse_cluster(to_json(cluster)).value();
  CHECK(read.sizes == "1+3");
  CHECK(read.emulation == cluster.emulation);
  CHECK(read.shape.nodes == 3);
  CHECK(read.shape.rails == 2);
  CHECK(read.shape.rail_rate_mbit == 500);
  CHECK(read.nodes[1].init_pid == 77);
  CHECK(read.nodes[2].name == "node2");
  for (const char* wrong :
       {"",
        "{}",
        "[]",
        "{\"emulation\": 3}",
        "{\"emulation\":\"none\",\"rails\":0,\"rail_rate_mbit\":0,\"nodes\":[]}"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_cluster(wrong).ok());
  }
}

}  // namespace ho
