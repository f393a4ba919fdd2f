#include "exec/trace.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "temporary_folder.hpp"

namespace ho {
namespace {

constexpr uint64_t kJob = 4711;

class TraceFile {
 public:
  [[nodiscard]] std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  [[nodiscard]] std::string path() const { return path_; }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  void append(uint32_t rank, uint32_t slices, uint64_t job = kJob) const {
    TraceBuffer buffer;
    for (uint32_t i = 0; i < slices; ++i) {
      TraceSlice slice;
      slice.piece = i;
      slice.end_ns = 1000;
      buffer.add(slice);
    }
    const Status status = buffer.append_to(path_.string(), rank, job);
    INFO(status.message());
    REQUIRE(status.ok());
  }

 private:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.root() / "trace.json";
};

// Slices of one rank in the file, which must be JSON.
size_t slices_of(const nlohmann::json& events, uint32_t rank) {
  size_t count = 0;
  for (const auto& event : events) {
    count += event.at("ph") == "X" && event.at("pid") == rank ? 1U : 0U;
  }
  return count;
}

// Events that are whole in the first bytes of a file: lines whose braces close.
size_t whole_lines(const std::string& text) {
  std::istringstream lines(text);
  size_t whole = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string object = line.substr(std::min(line.find('{'), line.size()));
    const std::string trimmed = object.substr(0, object.find_last_of('}') + 1);
    whole += !trimmed.empty() && nlohmann::json::accept(trimmed) ? 1U : 0U;
  }
  return whole;
}

TEST_CASE("ranks take turns in one trace file") {
  const TraceFile file;
  file.append(0, 2);
  file.append(1, 3);
  const auto events = nlohmann::json::parse(file.text());
  CHECK(slices_of(events, 0) == 2);
  CHECK(slices_of(events, 1) == 3);
}

TEST_CASE("another job's trace is replaced") {
  const TraceFile file;
  file.append(0, 2);
  file.append(1, 3, kJob + 1);
  const auto events = nlohmann::json::parse(file.text());
  CHECK(slices_of(events, 0) == 0);
  CHECK(slices_of(events, 1) == 3);
}

TEST_CASE("a writer that was killed at any byte leaves its whole events to the next") {
  const TraceFile file;
  file.append(0, 3);
  const std::string written = file.text();
  const size_t header = written.find('\n') - 1;  // without the comma before the first event
  for (size_t kept = 0; kept <= written.size(); ++kept) {
    const std::string torn = written.substr(0, kept);
    file.write(torn);
    file.append(7, 2);
    INFO("the first " << kept << " bytes were written: ..."
                      << torn.substr(torn.size() - std::min<size_t>(torn.size(), 40)));
    const auto events = nlohmann::json::parse(file.text(), nullptr, false);
    REQUIRE_FALSE(events.is_discarded());
    CHECK(slices_of(events, 7) == 2);
    // 5 lines name the tracks of rank 7; a header that is not whole is written anew.
    const size_t before = kept < header ? 1 : whole_lines(torn);
    CHECK(events.size() == before + 5 + 2);
  }
}

TEST_CASE("rails that fail over leave marks, one for each change") {
  const TraceFile file;
  TraceBuffer buffer;
  std::vector<RailUse> rails(2);
  rails[1].links = 4;
  buffer.note_rails(rails, 1000);  // links that begin are no news
  rails[1] = {.failovers = 0, .links = 1, .away = 0, .lost = 3};
  buffer.note_rails(rails, 2000);
  buffer.note_rails(rails, 3000);
  rails[1] = {.failovers = 4, .links = 4, .away = 4, .lost = 0};
  buffer.note_rails(rails, 4000);
  REQUIRE(buffer.append_to(file.path(), 3, kJob).ok());
  std::vector<std::string> marks;
  for (const auto& event : nlohmann::json::parse(file.text())) {
    if (event.at("ph") == "i") {
      CHECK(event.at("pid") == 3);
      marks.push_back(event.at("name").get<std::string>() + " at " + event.at("ts").dump());
    }
  }
  CHECK(marks ==
        std::vector<std::string>{"rail 1: 0 failovers, 3 of 4 links lost, carries 25 % at 2.0",
                                 "rail 1: 4 failovers, 0 of 4 links lost, carries 0 % at 4.0"});
}

TEST_CASE("a trace file that cannot be written is known before there is a trace") {
  const TraceFile file;
  REQUIRE(check_trace_file(file.path(), 3).ok());  // made where there is none
  file.append(0, 2);
  const std::string before = file.text();
  REQUIRE(check_trace_file(file.path(), 3).ok());
  CHECK(file.text() == before);
  const std::string folder = std::filesystem::temp_directory_path();
  for (const std::string& path : {folder, std::string("/nowhere/%r"), std::string("/dev/null")}) {
    const Status status = check_trace_file(path, 3);
    INFO(status.message());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find("in a directory that you may write") != std::string::npos);
  }
  const std::string link = file.path() + ".link";
  std::filesystem::create_symlink(file.path(), link);
  CHECK(check_trace_file(link, 3).message().find("is a symbolic link") != std::string::npos);
  std::filesystem::remove(link);
  CHECK(check_trace_file("/nowhere/%r", 3).message().find("/nowhere/3:") != std::string::npos);
}

}  // namespace
}  // namespace ho
