#include "cli/status/metrics.hpp"

#include <regex>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "has.hpp"
#include "reports.hpp"

using namespace ho;

namespace {

// What a scraper refuses; "": nothing. Each metric has its help, its type and then all of its
// samples; each sample is there once.
std::string fault_of(const std::string& text) {
  static const std::regex help("# HELP (horing_[a-z_]+) [^\\n]+\\.");
  static const std::regex type("# TYPE (horing_[a-z_]+) (counter|gauge)");
  static const std::regex sample(
      R"re((horing_[a-z_]+)((\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\})?) ([0-9.e+-]+))re");
  std::set<std::string> seen;
  std::set<std::string> series;
  std::string metric;
  bool typed = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      metric = match[1];
      typed = false;
      if (!seen.insert(metric).second) {
        return "twice: " + line;
      }
    } else if (std::regex_match(line, match, type)) {
      typed = match[1] == metric && (match[2] == "counter") == metric.ends_with("_total");
    } else if (!std::regex_match(line, match, sample) || !typed || match[1] != metric ||
               !series.insert(match[1].str() + match[2].str()).second) {
      return line;
    }
  }
  return text.ends_with('\n') ? "" : "no end of a line";
}

}  // namespace

TEST_CASE("metrics of jobs are what a scraper takes") {
  const JobView first = view_of({test::report_of({.rank = 0, .waits_for = 1}, 3),
                                 test::report_of({.rank = 1, .cause = "rank 2 is gone"}, 3)});
  JobView second = first;
  second.job = "0000000000000def";
  const std::string text = metrics_text({first, second});
  CHECK(fault_of(text) == "");
  CHECK(has(text, "\nhoring_jobs 2\n"));
  CHECK(has(text, "horing_rank_up{job=\"0000000000000abc\",rank=\"2\",host=\"there\"} 0\n"));
  CHECK(has(text, "horing_rank_waited_for{job=\"0000000000000abc\",rank=\"1\",host=\"here\"} 1\n"));
  CHECK(has(text,
            "horing_rank_waiting_seconds{job=\"0000000000000abc\",rank=\"0\",host=\"here\"} 2"));
  CHECK(has(text,
            "rank=\"1\",host=\"here\",communicator=\"world\",key=\"0000000000000000\"} 1048576\n"));
  CHECK(has(text, "horing_communicator_failed{job=\"0000000000000def\",rank=\"1\""));
  CHECK(has(text, "rail=\"rail0\",address=\"10.1.0.1\"} 12500000000\n"));
}

TEST_CASE("ranks of other hosts answer, and their counts are theirs to tell") {
  RankReply elsewhere = test::report_of({.rank = 1, .waits_for = 0}, 2);
  elsewhere.elsewhere = true;
  const std::string text = metrics_text({view_of({test::report_of({.rank = 0}, 2), elsewhere})});
  CHECK(fault_of(text) == "");
  CHECK(has(text, "horing_rank_up{job=\"0000000000000abc\",rank=\"1\",host=\"here\"} 1\n"));
  CHECK(has(text, "horing_operations_completed_total{job=\"0000000000000abc\",rank=\"0\""));
  CHECK_FALSE(has(text, "horing_operations_completed_total{job=\"0000000000000abc\",rank=\"1\""));
  CHECK(has(text, "rail=\"rail0\",address=\"10.1.0.1\"} 0\n"));  // failovers
}

TEST_CASE("a host without rank 0 tells of its own ranks, and not of the job") {
  RankReply elsewhere = test::report_of({.rank = 0}, 4);
  elsewhere.elsewhere = true;
  const JobView view = view_of({elsewhere, test::report_of({.rank = 1, .waits_for = 2}, 4)});
  const std::string text = metrics_text({view});
  CHECK(fault_of(text) == "");
  const auto tells_of = [&text](const char* rank) {
    return has(text, "horing_rank_up{job=\"0000000000000abc\",rank=\"" + std::string(rank) + "\"");
  };
  CHECK_FALSE(tells_of("0"));
  CHECK(tells_of("1"));
  CHECK(tells_of("2"));        // missing here
  CHECK_FALSE(tells_of("3"));  // missing there
  CHECK_FALSE(has(text, "horing_rank_waited_for"));
  CHECK(has(text, "horing_rank_waiting_seconds{job=\"0000000000000abc\",rank=\"1\""));
}

TEST_CASE("who is missing on a host that nobody knows is not told as down") {
  RankReply under_nccl = test::report_of({.rank = 0}, 2);
  nlohmann::json report = nlohmann::json::parse(under_nccl.answer);
  report["hosts"] = nlohmann::json::array();
  under_nccl.answer = report.dump();
  const std::string text = metrics_text({view_of({under_nccl})});
  CHECK(has(text, "horing_rank_up{job=\"0000000000000abc\",rank=\"0\",host=\"here\"} 1\n"));
  CHECK_FALSE(has(text, "rank=\"1\""));
}

TEST_CASE("processes of one rank number are told apart by their ids") {
  RankReply first = test::report_of({.rank = 0}, 1);
  RankReply second = first;
  second.pid = 101;
  second.name.pid = 101;
  const std::string text = metrics_text({view_of({first, second})});
  CHECK(fault_of(text) == "");
  CHECK(has(text,
            "horing_rank_up{job=\"0000000000000abc\",rank=\"0\",host=\"here\",pid=\"100\"} 1\n"));
  CHECK(has(text, "pid=\"101\",communicator=\"world\""));
}

TEST_CASE("communicators of one name are told apart by their keys") {
  JobView view = view_of({test::report_of({.rank = 0}, 1)});
  nlohmann::json& all = view.ranks[0].report.at("communicators");
  all.push_back(all.at(0));
  all.at(1)["key"] = "00000000000000ff";
  CHECK(fault_of(metrics_text({view})) == "");
}

TEST_CASE("names with quotes and line ends stay one label") {
  JobView view = view_of({test::report_of({.rank = 0}, 1)});
  view.ranks[0].report.at("communicators").at(0)["name"] = "a \"b\"\n\\c";
  const std::string text = metrics_text({view});
  CHECK(fault_of(text) == "");
  CHECK(has(text, R"(communicator="a \"b\"\n\\c")"));
}

TEST_CASE("without a job there is the count of jobs alone") {
  const std::string text = metrics_text({});
  CHECK(fault_of(text) == "");
  CHECK(has(text, "horing_jobs 0\n"));
  CHECK_FALSE(has(text, "horing_rank"));
}

TEST_CASE("the check of the format finds what scrapers refuse") {
  const std::string head = "# HELP horing_a A.\n# TYPE horing_a gauge\n";
  CHECK(fault_of(head + "horing_a{b=\"c\"} 1\n") == "");
  CHECK(fault_of(head + "horing_a{b=\"c\"} 1\nhoring_a{b=\"c\"} 2\n") != "");
  CHECK(fault_of(head + "horing_b 1\n") != "");
  CHECK(fault_of(head + "horing_a{b=\"\"\"} 1\n") != "");
  CHECK(fault_of("# HELP horing_a A.\n# TYPE horing_a counter\nhoring_a 1\n") != "");
  CHECK(fault_of(head + head + "horing_a 1\n") != "");
}
