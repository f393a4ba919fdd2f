#include "bench/perf/rows.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/perf/json_report.hpp"
#include "catch.hpp"

namespace ho::perf {
namespace {

Job job_of(int32_t groups, int32_t rails, uint32_t nics) {
  Job job;
  job.collective = harness::Collective::kAllReduce;
  job.ranks = groups * rails;
  job.group_count = groups;
  job.groups = std::to_string(groups) + "x" + std::to_string(rails);
  job.rails = rails;
  job.nics = nics;
  job.emulation = "namespaces";
  return job;
}

Measurement measurement() {
  Measurement row;
  row.algorithm = "ho_ring";
  row.size_bytes = 1 << 20;
  row.count = 1 << 18;
  row.iterations = 20;
  row.time_us = 1000.0;
  row.algorithm_gbps = 1.0;
  row.bus_gbps = 1.875;
  row.wrong = 0;
  row.link_share = 0.95;
  row.percentiles_us = {1.0, 2.0, 3.0};
  return row;
}

Row row_of(std::optional<Measurement> out_of_place, std::optional<Measurement> in_place) {
  const Case what{.collective = harness::Collective::kAllReduce};
  return {what, std::move(out_of_place), std::move(in_place)};
}

std::set<std::string> keys(const nlohmann::ordered_json& object) {
  std::set<std::string> all;
  for (const auto& item : object.items()) {
    all.insert(item.key());
  }
  return all;
}

bool has_all(const nlohmann::ordered_json& object, const std::set<std::string>& wanted) {
  const std::set<std::string> present = keys(object);
  return std::includes(present.begin(), present.end(), wanted.begin(), wanted.end());
}

TEST_CASE("the header tells rails from network interfaces") {
  CHECK(rails_text(job_of(4, 4, 1)) == "4 rails over 1 NIC per node");
  CHECK(rails_text(job_of(4, 4, 2)) == "4 rails over 2 NICs per node");
  CHECK(rails_text(job_of(4, 4, 4)) == "4 rails, each over a NIC of its own");
  CHECK(rails_text(job_of(2, 1, 1)) == "1 rail over a NIC of its own");
  CHECK(rails_text(job_of(2, 2, 9)) == "2 rails over 2 of 9 NICs per node");
  CHECK(rails_text(job_of(4, 4, 0)) == "4 rails");
  CHECK(rails_text(job_of(1, 8, 1)) == "one node, no rails");
}

TEST_CASE("the JSON report has nccl-tests' keys and nesting") {
  Options options;
  options.words = {"all_reduce_perf", "-b", "1M"};
  const std::vector<Row> rows{row_of(measurement(), measurement())};
  const auto report = json_report(job_of(4, 4, 4), options, rows, {.started = 0, .ended = 1});
  CHECK(keys(report) == std::set<std::string>{"version",
                                              "start_time",
                                              "args",
                                              "horing_version",
                                              "config",
                                              "results",
                                              "out_of_bounds",
                                              "average_bus_bandwidth",
                                              "end_time"});
  CHECK(report["args"] == nlohmann::ordered_json{"all_reduce_perf", "-b", "1M"});
  CHECK(has_all(report["config"],
                {"minimum_bytes",
                 "maximum_bytes",
                 "step_bytes",
                 "warmup_iters",
                 "iterations",
                 "validation",
                 "blocking_collectives"}));
  CHECK(report["out_of_bounds"]["count"] == 0);
  CHECK(report["out_of_bounds"]["okay"] == "true");
  CHECK(report["average_bus_bandwidth"]["bandwidth"] == 1.875);
  CHECK(report["average_bus_bandwidth"]["okay"] == "unchecked");
  REQUIRE(report["results"].size() == 1);
  const auto& row = report["results"][0];
  CHECK(has_all(row, {"size", "count", "type", "redop", "root", "algorithm", "groups"}));
  CHECK(row["actual_iterations"] == 20);
  for (const char* at_index : {"out_of_place", "in_place"}) {
    CHECK(has_all(row[at_index], {"time", "alg_bw", "bus_bw", "nwrong", "link_share", "time_p50"}));
    CHECK(row[at_index]["time"] == 1000.0);
    CHECK(row[at_index]["nwrong"] == 0);
    CHECK(row[at_index]["overlap_ratio"].is_null());
  }
}

TEST_CASE("what was not measured or checked is null") {
  Measurement unchecked = measurement();
  unchecked.wrong.reset();
  const std::vector<Row> rows{row_of({}, unchecked)};
  const auto report = json_report(job_of(4, 4, 4), {}, rows, {});
  CHECK(report["results"][0]["out_of_place"].is_null());
  CHECK(report["results"][0]["in_place"]["nwrong"].is_null());
  CHECK(report["out_of_bounds"]["okay"] == "unchecked");
}

TEST_CASE("a summary counts wrong elements, and shares that mean nothing") {
  Measurement wrong = measurement();
  wrong.wrong = 3;
  wrong.link_share = 1.2;
  Measurement broken = wrong;
  broken.share_claimed = true;
  const Summary summary = summarize({row_of(wrong, broken), row_of(measurement(), {})});
  CHECK(summary.wrong == 6);
  CHECK(summary.checked);
  CHECK(summary.unclaimed_shares == 1);
  CHECK(summary.average_bus_gbps == 1.875);
  CHECK_FALSE(summarize({}).checked);
}

}  // namespace
}  // namespace ho::perf
