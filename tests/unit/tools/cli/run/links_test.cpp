#include "cli/run/links.hpp"

#include <sstream>

#include "catch.hpp"

namespace ho {
namespace {

size_t lines_with(const std::string& script, const std::string& text) {
  std::istringstream lines(script);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.find(text) != std::string::npos ? 1U : 0U;
  }
  return count;
}

}  // namespace

TEST_CASE("every node has one link into each rail's bridge and one into the management bridge") {
  Cluster cluster = plain_cluster(Emulation::kNamespaces, {3, 2, 200});
  for (uint32_t node = 0; node < 3; ++node) {
    cluster.nodes[node].init_pid = static_cast<pid_t>(100 + node);
  }
  const std::string script = outside_link_script(cluster);
  CHECK(lines_with(script, "type bridge") == 3);
  CHECK(lines_with(script, "type veth") == 9);
  CHECK(lines_with(script, "master railbr1") == 3);
  CHECK(lines_with(script, "peer name rail1 netns 102") == 1);
  CHECK(lines_with(script, "peer name mgmt0 netns 100") == 1);
  CHECK(lines_with(script, "10.0.0.254/24 dev mgmtbr") == 1);
}

TEST_CASE("both ends of a rail are shaped, the management network is not") {
  const ClusterShape shape{3, 2, 250};
  const std::string outside = outside_shape_script(shape);
  CHECK(lines_with(outside, "htb rate 250mbit burst 16kb cburst 16kb quantum 60000") == 6);
  CHECK(lines_with(outside, "bfifo limit 512kb") == 6);
  const std::string inside = node_shape_script(shape);
  CHECK(lines_with(inside, "htb rate 250mbit") == 2);
  CHECK(lines_with(outside + inside, "mgmt") == 0);
  CHECK(lines_with(outside + inside, "n0m") == 0);
}

TEST_CASE("without a rate nothing is shaped") {
  CHECK(outside_shape_script({3, 2, 0}).empty());
  CHECK(node_shape_script({3, 2, 0}).empty());
}

TEST_CASE("a node's interfaces get their addresses") {
  const std::string script = node_link_script({4, 2, 0}, 2);
  CHECK(lines_with(script, "address add 10.1.0.3/24 dev rail0") == 1);
  CHECK(lines_with(script, "address add 10.2.0.3/24 dev rail1") == 1);
  CHECK(lines_with(script, "address add 10.0.0.3/24 dev mgmt0") == 1);
  CHECK(lines_with(script, " up") == 4);
}

}  // namespace ho
