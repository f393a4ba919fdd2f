// What a step log writes, and what becomes of it where it cannot.
#include "observe/step_log.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text_file.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "temporary_folder.hpp"

using namespace paro::observe;
using ho::test::TemporaryFolder;

namespace {

StepRecord record_of(uint64_t step) {
  StepRecord record;
  record.unix_time = 1.5e9;
  record.rank = 3;
  record.strategy = "IIG";
  record.step = step;
  record.micro_batches = 2;
  record.norm = 0.25;
  record.step_s = 2;
  record.compute_s = 1.5;
  record.exposed_s = 0.25;
  record.update_s = 0.125;
  record.collectives_s = 1;
  record.intra_bytes = 100;
  record.inter_bytes = 10;
  record.states_bytes = 1000;
  return record;
}

std::string contents(const std::string& path) {
  const auto text = ho::read_text_file(path, 1 << 20);
  INFO(text.status().message());
  REQUIRE(text.ok());
  return *text;
}

}  // namespace

TEST_CASE("what was not waited for overlapped") {
  StepRecord record = record_of(1);
  CHECK(overlap_ratio(record) == 0.75);
  record.exposed_s = 3;
  CHECK(overlap_ratio(record) == 0);
  record.collectives_s = 0;
  CHECK(overlap_ratio(record) == 1);
}

TEST_CASE("a step is a line of JSON") {
  StepRecord record = record_of(7);
  record.norm = std::numeric_limits<double>::infinity();
  record.applied = false;
  const std::string line = json_line(record);
  CHECK(line.back() == '\n');
  CHECK(line.find('\n') == line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  CHECK(json["step"] == 7);
  CHECK(json["micro_batches"] == 2);
  CHECK(json["applied"] == false);
  CHECK(json["norm"].is_null());
  CHECK(json["seconds"]["exposed"] == 0.25);
  CHECK(json["overlap_ratio"] == 0.75);
  CHECK(json["sent_bytes"]["inter"] == 10);
  CHECK(json["memory_bytes"]["states"] == 1000);
}

TEST_CASE("metrics are in Prometheus' format") {
  StepTotals totals;
  StepRecord record = record_of(1);
  totals.add(record);
  record.applied = false;
  record.drift_checked = true;
  record.norm = std::numeric_limits<double>::quiet_NaN();
  totals.add(record);
  const std::string text = prometheus_text(record, totals);
  const std::string labels = "{rank=\"3\"";
  CHECK(has(text, "paro_strategy_info{rank=\"3\",strategy=\"IIG\"} 1\n"));
  CHECK(has(text, "# TYPE paro_steps_total counter\nparo_steps_total" + labels + "} 2\n"));
  CHECK(has(text, "paro_micro_batches_total" + labels + "} 4\n"));
  CHECK(has(text, "paro_skipped_steps_total" + labels + "} 1\n"));
  CHECK(has(text, "paro_drift_checks_total" + labels + "} 1\n"));
  CHECK(has(text, "paro_step_seconds_total" + labels + ",part=\"compute\"} 3.0\n"));
  CHECK(has(text, "paro_step_seconds_total" + labels + ",part=\"other\"} 0.25\n"));
  CHECK(has(text, "paro_sent_bytes_total" + labels + ",link=\"intra\"} 200\n"));
  CHECK(has(text, "paro_gradient_norm" + labels + "} NaN\n"));
}

TEST_CASE("lines are appended, metrics replaced") {
  const TemporaryFolder folder;
  const StepLogPaths paths{folder.path("steps-%r.jsonl"), folder.path("paro-%r.prom")};
  for (uint64_t run = 0; run < 2; ++run) {
    auto log = StepLog::open(paths, 3);
    INFO(log.status().message());
    REQUIRE(log.ok());
    REQUIRE(log->writes());
    log->write(record_of(1));
    log->write(record_of(2));
  }
  const std::string lines = contents(folder.path("steps-3.jsonl"));
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 4);
  const std::string metrics = contents(folder.path("paro-3.prom"));
  CHECK(has(metrics, "paro_steps_total{rank=\"3\"} 2\n"));
  // Nothing is left beside them.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.root()), {}) == 2);
}

TEST_CASE("without a place for the rank, rank 0 alone writes") {
  const TemporaryFolder folder;
  const StepLogPaths paths{folder.path("steps.jsonl"), ""};
  CHECK(StepLog::open(paths, 0)->writes());
  CHECK(!StepLog::open(paths, 1)->writes());
  CHECK(!StepLog::open({}, 0)->writes());
}

TEST_CASE("links that were planted are not followed, and devices stay") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("secret")) << "keep";
  for (const char* target : {"secret", "not there"}) {
    std::filesystem::remove(folder.path("link"));
    std::filesystem::create_symlink(folder.path(target), folder.path("link"));
    CHECK(has(StepLog::open({folder.path("link"), ""}, 0).status(), "is a symbolic link"));
    CHECK(has(StepLog::open({"", folder.path("link")}, 0).status(), "is a symbolic link"));
    CHECK(std::filesystem::is_symlink(folder.path("link")));
  }
  CHECK(contents(folder.path("secret")) == "keep");
  CHECK(!std::filesystem::exists(folder.path("not there")));
  CHECK(has(StepLog::open({"", "/dev/full"}, 0).status(),
            "PARO_METRICS_FILE: /dev/full: is a device"));
  CHECK(has(StepLog::open({"/dev/null", ""}, 0).status(), "PARO_STEP_LOG: /dev/null: is a device"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
  REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK(has(StepLog::open({"", folder.path("pipe")}, 0).status(), "is a named pipe"));
  // One that nobody reads would hold up the training.
  CHECK(has(StepLog::open({folder.path("pipe"), ""}, 0).status(),
            "PARO_STEP_LOG: " + folder.path("pipe") + ": is a named pipe"));
}

TEST_CASE("what cannot be written is told before the training, and does not end it") {
  const TemporaryFolder folder;
  const auto refused = [](const StepLogPaths& paths) {
    return StepLog::open(paths, 0).status().message();
  };
  CHECK(has(refused({folder.path("no/steps"), ""}), "No such file"));
  CHECK(has(refused({"", folder.path("no/metrics")}), "PARO_METRICS_FILE"));
  auto log = StepLog::open({"", folder.path("metrics")}, 0);
  REQUIRE(log.ok());
  std::filesystem::remove(folder.path("metrics"));
  std::filesystem::create_directories(folder.path("metrics/in the way"));
  log->write(record_of(1));
  log->write(record_of(2));
  std::filesystem::remove_all(folder.path("metrics"));
  log->write(record_of(3));
  CHECK(has(contents(folder.path("metrics")), "} 3\n"));
}
