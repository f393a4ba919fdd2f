#include "cli/paro/job/cluster_facts.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace paro::tool {

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

TEST_CASE("cluster files that cannot be are told with file and key") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "c.json: is not JSON at byte"},
      {"{", "c.json: is not JSON at byte"},
      {"[1]", "c.json: takes one JSON object with nodes, ranks_per_node"},
      {R"({"node": 4})", "c.json: \"node\" is not known; takes nodes, ranks_per_node"},
      {R"({"nodes": 0})", "c.json: \"nodes\" 0: takes a whole number from 1 on"},
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
      {R"({"nics": 0})", "c.json: \"nics\" 0: takes a number above 0"},
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
  CHECK(has(apply(facts, request), "a memory of 0"));

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

TEST_CASE("rates of many links are told by slowest, median and fastest") {
  const RateSpan none = span_of({});
  CHECK(none.slowest == 0);
  CHECK(none.median == 0);
  const RateSpan odd = span_of({5, 1, 9});
  CHECK(odd.slowest == 1);
  CHECK(odd.median == 5);
  CHECK(odd.fastest == 9);
  CHECK(span_of({4, 3, 2, 1}).median == 2);
  CHECK(span_of({7}).median == 7);
}

TEST_CASE("of a measured job the median inside nodes counts, and the slowest between them") {
  std::vector<std::string> notes;
  const auto facts = facts_of({{4, 4}, 2, {8e8, 9e8, 1e9}, {1e7, 2e7, 2.5e7}}, notes);
  REQUIRE(facts.ok());
  CHECK(facts->nodes == 2U);
  CHECK(facts->ranks_per_node == 4U);
  CHECK(facts->intra_bytes_per_s == 9e8);
  CHECK(facts->inter_bytes_per_s == 1e7);
  CHECK(facts->nics == 2);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] ==
        "measured inside nodes: 800 MB/s to 1 GB/s, of which the median, 900 MB/s, counts");
  CHECK(notes[1].find("on each rail (of 2): 10 MB/s to 25 MB/s") != std::string::npos);
  CHECK(notes[1].find("they are unequal") != std::string::npos);
}

TEST_CASE("one link inside a node that the machine kept waiting changes nothing") {
  std::vector<std::string> notes;
  const std::vector<double> quiet{1.8e9, 1.9e9, 2e9, 2.1e9, 2.2e9};
  std::vector<double> noisy = quiet;
  noisy.front() = 1.6e8;
  const auto usual = facts_of({{2, 2}, 1, span_of(quiet), {1e7, 1e7, 1e7}}, notes);
  const auto loaded = facts_of({{2, 2}, 1, span_of(noisy), {1e7, 1e7, 1e7}}, notes);
  REQUIRE(usual.ok());
  REQUIRE(loaded.ok());
  CHECK(*usual->intra_bytes_per_s == *loaded->intra_bytes_per_s);
  CHECK(notes[2].find("they are unequal, horing doctor shows which") != std::string::npos);
}

TEST_CASE("a measured job of one node, or of one rank a node, lacks a rate") {
  std::vector<std::string> notes;
  const auto node = facts_of({{4}, 4, {9e8, 9e8, 1e9}, {}}, notes);
  REQUIRE(node.ok());
  CHECK_FALSE(node->inter_bytes_per_s.has_value());
  const auto spread = facts_of({{1, 1, 1}, 1, {}, {1e7, 1e7, 1e7}}, notes);
  REQUIRE(spread.ok());
  CHECK_FALSE(spread->intra_bytes_per_s.has_value());
  CHECK(spread->nodes == 3U);
  notes.clear();
  CHECK(facts_of({{1}, 1, {}, {}}, notes).ok());
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("a job of one rank") != std::string::npos);
}

TEST_CASE("measured jobs that cannot be planned for are refused") {
  std::vector<std::string> notes;
  const auto unequal = facts_of({{3, 1}, 1, {9e8, 9e8, 1e9}, {1e7, 1e7, 1e7}}, notes);
  REQUIRE_FALSE(unequal.ok());
  CHECK(has(unequal.status(), "this job's groups have 3+1 ranks"));
  CHECK(has(unequal.status(), "take groups of one size"));
  const auto silent = facts_of({{2, 2}, 1, {0, 1e9, 1e9}, {1e7, 1e7, 1e7}}, notes);
  REQUIRE_FALSE(silent.ok());
  CHECK(has(silent.status(), "carried nothing"));
}

}  // namespace paro::tool
