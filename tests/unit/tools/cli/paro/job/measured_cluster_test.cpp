#include "cli/paro/job/measured_cluster.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace paro::tool {

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

TEST_CASE("of what a computation hides the share comes back that both take longer") {
  CHECK(slowdown_of({.computation = 3, .collectives = 2, .both = 3}) == 0);
  CHECK(slowdown_of({.computation = 3, .collectives = 2, .both = 3.5}) == 0.25);
  CHECK(slowdown_of({.computation = 2, .collectives = 4, .both = 5}) == 0.5);
  CHECK(slowdown_of({.computation = 2, .collectives = 2, .both = 4}) == 1);
  // What varies from run to run.
  CHECK(slowdown_of({.computation = 3, .collectives = 2, .both = 2.9}) == 0);
  CHECK(slowdown_of({.computation = 2, .collectives = 2, .both = 5}) == 1);
  CHECK(slowdown_of({}) == 0);

  std::vector<std::string> notes;
  MeasuredJob job{{2, 2}, 1, {1e9, 1e9, 1e9}, {1e7, 1e7, 1e7}};
  CHECK_FALSE(facts_of(job, notes)->slowdown.has_value());
  notes.clear();
  job.slowdown = 0.254;
  CHECK(facts_of(job, notes)->slowdown == 0.254);
  CHECK(notes[0] == "measured a computation beside collectives: of what it hides 0.25 comes back");
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
