#include "planner/text/cluster_facts.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace paro {

TEST_CASE("a cluster file fills in the request") {
  const auto facts = parse_cluster(
      R"({"nodes": 4, "ranks_per_node": 8, "memory": "80GB", "intra": "2000Gbit",
          "inter": "80Gbit", "nics": 1})",
      "c.json");
  REQUIRE(facts.ok());
  PlannerRequest request;
  REQUIRE(apply(*facts, request).ok());
  CHECK(request.world.group_count == 4);
  CHECK(request.world.group_size == 8);
  CHECK(request.memory_bytes == 80e9);
  CHECK(request.links.intra_bytes_per_s == 250e9);
  CHECK(request.links.inter_bytes_per_s == 10e9);
  CHECK(request.links.nics_per_group == 1);
}

TEST_CASE("a cluster file has the times of calls") {
  const auto facts = parse_cluster(
      R"({"nodes": 4, "ranks_per_node": 8, "intra": "2000Gbit", "inter": "80Gbit",
          "intra_call": "20us", "inter_call": "100us"})",
      "c.json");
  REQUIRE(facts.ok());
  PlannerRequest request;
  REQUIRE(apply(*facts, request).ok());
  CHECK(request.links.intra_call_s == Approx(20e-6));
  CHECK(request.links.inter_call_s == Approx(100e-6));
  CHECK(request.links.world_call_s == Approx(100e-6));  // it does both
}

TEST_CASE("a cluster file of levels fills in the request, the short form does not mix with it") {
  auto facts = parse_cluster(
      R"({"levels": [{"name": "node", "size": 8, "rate": "250GB"},
                     {"name": "pod", "size": 4, "rate": "80Gbit", "nics": 2},
                     {"name": "site", "size": 2, "rate": "80Gbit", "nics": 8}], "memory": "80GB",
          "slowdown": 0.5})",
      "c.json");
  REQUIRE(facts.ok());
  PlannerRequest request;
  REQUIRE(apply(*facts, request).ok());
  CHECK(request.links.levels.size() == 3);
  CHECK(request.world.group_count == 8);
  CHECK(request.world.group_size == 8);
  CHECK(request.memory_bytes == 80e9);
  CHECK(request.effects.slowdown == 0.5);
  facts->inter_bytes_per_s = 1e9;
  CHECK(has(apply(*facts, request),
            "--inter beside a cluster of levels: change the level in the file instead"));
}

TEST_CASE("a cluster is written as it is read") {
  ClusterFacts facts;
  facts.nodes = 4;
  facts.ranks_per_node = 8;
  facts.memory_bytes = 80e9 / 7;  // of no round figure
  facts.intra_bytes_per_s = 250e9;
  facts.inter_bytes_per_s = 1e10 / 3;
  facts.nics = 2;
  facts.intra_call_s = 1e-5 / 3;
  facts.inter_call_s = 1e-4;
  facts.world_call_s = 2e-4;
  facts.slowdown = 1.0 / 3;
  const auto back = parse_cluster(cluster_text(facts), "again");
  INFO(cluster_text(facts) << back.status().message());
  REQUIRE(back.ok());
  CHECK(back->nodes == facts.nodes);
  CHECK(back->ranks_per_node == facts.ranks_per_node);
  CHECK(back->memory_bytes == facts.memory_bytes);
  CHECK(back->intra_bytes_per_s == facts.intra_bytes_per_s);
  CHECK(back->inter_bytes_per_s == facts.inter_bytes_per_s);
  CHECK(back->nics == facts.nics);
  CHECK(back->intra_call_s == facts.intra_call_s);
  CHECK(back->inter_call_s == facts.inter_call_s);
  CHECK(back->world_call_s == facts.world_call_s);
  CHECK(back->slowdown == facts.slowdown);
  PlannerRequest request;
  REQUIRE(apply(*back, request).ok());
  CHECK(request.effects.slowdown == facts.slowdown);
  facts.slowdown.reset();  // what is not known is not written
  CHECK_FALSE(parse_cluster(cluster_text(facts), "again")->slowdown.has_value());
  request.effects.slowdown = 0.5;
  REQUIRE(apply(facts, request).ok());
  CHECK(request.effects.slowdown == 0.5);
}

TEST_CASE("cluster files that cannot be are told with file and key") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "c.json: is not JSON at byte"},
      {"{", "c.json: is not JSON at byte"},
      {"[1]", "c.json: takes one JSON object with nodes, ranks_per_node"},
      {R"({"node": 4})", "c.json: \"node\" is not known; takes nodes, ranks_per_node"},
      {R"({"nodes": 0})", "c.json: \"nodes\" 0: takes a whole number from 1 to 4294967295"},
      {R"({"nodes": -4})", "c.json: \"nodes\" -4: takes"},
      {R"({"nodes": 4.5})", "c.json: \"nodes\" 4.5: takes"},
      {R"({"nodes": "4"})", "c.json: \"nodes\" \"4\": takes"},
      {R"({"ranks_per_node": 4294967296})", "\"ranks_per_node\" 4294967296: takes"},
      {R"({"memory": 80})", "c.json: \"memory\" 80: takes a text with a unit, as \"80GB\""},
      {R"({"memory": "lots"})", "c.json: \"memory\" 'lots': takes bytes"},
      {R"({"intra": "80"})", "c.json: \"intra\" '80': takes a rate"},
      {R"({"inter": null})", "c.json: \"inter\" null: takes a text"},
      {R"({"nics":1e999})", "c.json: has a number that is too large; takes nodes"},
      {R"({"nodes": -1e999})", "c.json: has a number that is too large"},
      {R"({"nodes": 4, "nics": 1, "nodes": 5})", "c.json: \"nodes\" is given twice"},
      {R"({"a\nb": 4})", R"(c.json: "a\nb" is not known)"},
      {R"({"nodes": [[4]]})", "c.json: \"nodes\" [..]: takes"},
      {R"({"nodes": {"nodes": 4}})", "c.json: \"nodes\" {..}: takes"},
      {"{\"nodes\": \"\xff\"}", "c.json: is not JSON at byte"},
      {R"({"memory": "1e30GB"})", "c.json: \"memory\" \"1e30GB\": takes at most 1e+18"},
      {R"({"nics": 1000000000})", "c.json: \"nics\" 1000000000: takes at most 16777216"},
      {R"({"nics": 0})", "c.json: \"nics\" 0: takes a number above 0"},
      {R"({"slowdown": 1.1})", "c.json: \"slowdown\" 1.1: takes a number from 0 to 1"},
      {R"({"slowdown": -0.1})", "c.json: \"slowdown\" -0.1: takes a number from 0 to 1"},
      {R"({"slowdown": "0.1"})", "c.json: \"slowdown\" \"0.1\": takes a number from 0 to 1"},
      {R"({"nics": "2"})", "c.json: \"nics\" \"2\": takes a number above 0"}};
  for (const auto& [text, message] : cases) {
    const auto refused = parse_cluster(text, "c.json");
    REQUIRE_FALSE(refused.ok());
    INFO(text << ": " << refused.status().message());
    CHECK(has(refused.status(), message));
  }
  for (const char* path : {"/no/such/file", "/dev", "/dev/zero"}) {
    const auto refused = read_cluster_file(path);
    REQUIRE_FALSE(refused.ok());
    CHECK(has(refused.status(), std::string("--cluster ") + path + ": cannot be read ("));
  }
}

TEST_CASE("a long value is not repeated in full") {
  const std::string text = R"({"nodes": ")" + std::string(100000, 'x') + R"("})";
  const auto refused = parse_cluster(text, "c.json");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().size() < 200);
}

TEST_CASE("what is missing is asked for by its option") {
  ClusterFacts facts;
  PlannerRequest request;
  CHECK(has(apply(facts, request), "--nodes is missing"));
  facts.nodes = 2;
  CHECK(has(apply(facts, request), "--ranks-per-node is missing"));
  facts.ranks_per_node = 2;
  CHECK(has(apply(facts, request), "--intra is missing"));
  facts.intra_bytes_per_s = 1e9;
  CHECK(has(apply(facts, request), "--inter is missing"));
  facts.inter_bytes_per_s = 1e8;
  CHECK(apply(facts, request).ok());
  CHECK(request.memory_bytes == 0);
  CHECK(request.links.nics_per_group == 1);
  facts.memory_bytes = 0;
  CHECK(has(apply(facts, request), "--memory 0: takes the bytes of a rank"));

  ClusterFacts one;
  one.nodes = 1;
  one.ranks_per_node = 1;
  CHECK(apply(one, request).ok());
}

TEST_CASE("arguments go before what the file says") {
  ClusterFacts arguments;
  arguments.nics = 8;
  ClusterFacts file;
  file.nics = 1;
  file.nodes = 4;
  const ClusterFacts both = merged(arguments, file);
  CHECK(both.nics == 8);
  CHECK(both.nodes == 4U);
  CHECK_FALSE(both.memory_bytes.has_value());
}

}  // namespace paro
