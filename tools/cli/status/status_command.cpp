// `horing status`: where each rank of a running job on this host is, without its help but for one
// thread of its own.
#include "cli/status/status_command.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/escaped.hpp"
#include "base/near_names.hpp"
#include "base/quantity.hpp"
#include "cli/status/ask.hpp"
#include "cli/status/job_view.hpp"
#include "cli/status/metrics.hpp"
#include "cli/status/watch.hpp"
#include "cli/subcommands/option_error.hpp"
#include "cli/subcommands/table.hpp"
#include "status/folder.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{700};
constexpr std::chrono::milliseconds kRecordTime{5000};  // files may be far away

int fail(const std::string& why) {
  std::fprintf(stderr, "horing status: %s\n", message_text(why).c_str());
  return 1;
}

// Users whose jobs have folders in /tmp.
std::string other_users() {
  std::string users;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp", error)) {
    constexpr std::string_view kPrefix = "horing-";
    const std::string name = entry.path().filename().string();
    const auto user = name.starts_with(kPrefix)
                          ? whole_number<uid_t>(std::string_view(name).substr(kPrefix.size()))
                          : std::nullopt;
    if (user && *user != ::geteuid()) {
      users += fmt::format("{}{}", users.empty() ? "" : ", ", *user);
    }
  }
  return users.empty() ? "" : "; jobs of another user (" + users + ") only that user can ask";
}

int no_job(const std::vector<std::string>& folders, const std::vector<std::string>& looked_in) {
  if (folders.empty()) {
    return fail("HORING_STATUS_DIR=none: jobs make no sockets to be asked at; unset it");
  }
  std::string looked;
  for (const std::string& folder : looked_in) {
    looked += "\n  " + folder;
  }
  return fail(fmt::format("no job of user {} runs on this host. It looked in{}{}",
                          ::geteuid(),
                          looked.empty() ? " " + folders.front() : looked,
                          other_users()));
}

int no_such_job(const std::string& wanted, const std::vector<std::string>& jobs) {
  const std::vector<std::string_view> names(jobs.begin(), jobs.end());
  return fail("no job " + escaped(wanted) + " runs on this host" + near_names_text(wanted, names));
}

using Jobs = std::map<uint64_t, std::vector<RankReply>>;

// One line each, or an object each.
int list(const Jobs& jobs, const std::string& wanted, bool as_json) {
  auto columns = headed("lrrl", {"job", "ranks", "here", "program"});
  nlohmann::ordered_json json{{"jobs", nlohmann::ordered_json::array()}};
  for (const auto& [job, replies] : jobs) {
    const JobView view = view_of(replies);
    const auto here = std::ranges::count(replies, false, &RankReply::elsewhere);
    json["jobs"].push_back({{"job", view.job},
                            {"ranks", view.ranks.size()},
                            {"here", here},
                            {"program", view.program}});
    add_row(columns,
            {view.job,
             std::to_string(view.ranks.size()),
             std::to_string(here),
             view.program.empty() ? "does not answer" : view.program});
  }
  const std::string text =
      as_json ? json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
              : aligned(columns);
  std::fputs(text.c_str(), stdout);
  return fail(wanted.empty()
                  ? "several jobs run on this host: name one, or the beginning of its name"
                  : "several jobs begin with " + escaped(wanted) + ": name one");
}

int say_where_records_are(const std::vector<RankReply>& replies) {
  bool all = true;
  for (const RankReply& rank : replies) {
    const auto answer = nlohmann::json::parse(rank.answer, nullptr, false);
    const bool written = answer.is_object() && answer.contains("file");
    const std::string what = written              ? answer.value("file", "")
                             : answer.is_object() ? answer.value("error", "")
                                                  : "";
    all = all && written;
    std::printf("rank %u: %s\n",
                rank.name.rank,
                escaped(what.empty() ? "does not answer" : what, PATH_MAX).c_str());
  }
  return all ? 0 : 1;
}

Jobs ask_jobs(const std::vector<std::string>& folders,
              const std::string& wanted,
              std::vector<std::string>* looked = nullptr,
              AskElsewhere elsewhere = AskElsewhere::kAny) {
  RankReplies replies = ask_ranks(folders, wanted, kAskStatus, kAnswerTime, elsewhere);
  Jobs jobs;
  for (RankReply& rank : replies.ranks) {
    jobs[rank.name.job].push_back(std::move(rank));
  }
  if (looked != nullptr) {
    *looked = std::move(replies.looked);
  }
  return jobs;
}

int print_metrics(const Jobs& jobs) {
  std::vector<JobView> views;
  for (const auto& [job, replies] : jobs) {
    views.push_back(view_of(replies));
  }
  std::fputs(metrics_text(views).c_str(), stdout);
  return 0;
}

// One job, until it has ended.
int watch_job(const std::vector<std::string>& folders, const std::string& job, double seconds) {
  std::optional<JobView> before;
  const auto every = std::chrono::duration<double>(seconds);
  watch(std::chrono::duration_cast<std::chrono::milliseconds>(every),
        [&]() -> std::optional<std::string> {
          const Jobs jobs = ask_jobs(folders, job);
          if (jobs.empty()) {
            std::fprintf(stderr, "horing status: job %s has ended on this host\n", job.c_str());
            return std::nullopt;
          }
          JobView view = view_of(jobs.begin()->second);
          std::string text = job_table(view, before ? &*before : nullptr);
          before = std::move(view);
          return text;
        });
  return 0;
}

struct Options {
  std::string wanted;
  bool json = false;
  bool record = false;
  bool prometheus = false;
  double watch_s = 0;  // 0: no
};

// Where the value is there the program ends with it.
std::optional<int> read_options(int argc, const char* const* argv, Options& options) {
  CLI::App app(
      "What each rank of a running job does now: in which call it is, for whom it waits and since "
      "when.\n"
      "It works while the job hangs. Ranks of this host and of this user are asked, and one of "
      "them "
      "asks those\nof other hosts; who does not answer is named.",
      "horing status");
  app.add_option("JOB", options.wanted, "Which job, or the beginning of its name [the only one]");
  auto* const json =
      app.add_flag("--json", options.json, "Print JSON: what each rank has answered");
  auto* const record = app.add_flag("--record",
                                    options.record,
                                    "Have each rank write its last operations into "
                                    "HORING_RECORD_DIR");
  auto* const metrics = app.add_flag(
      "--prometheus", options.prometheus, "Print metrics of all jobs in Prometheus' text format");
  app.add_option("--watch",
                 options.watch_s,
                 "Look again every so many seconds, with rates of rails, until Ctrl-C [1]")
      ->expected(0, 1)
      ->default_str("1")
      ->check(CLI::Range(0.1, 86400.0))
      ->excludes(json)
      ->excludes(record)
      ->excludes(metrics);
  metrics->excludes(json)->excludes(record);
  record->excludes(json);
  return exit_unless_parsed(app, argc, argv, [] { return Status(); });
}

}  // namespace

int status_command(int argc, const char* const* argv) {
  Options options;
  if (const auto status = read_options(argc, argv, options)) {
    return *status;
  }
  const std::vector<std::string> folders = status_folders();
  std::vector<std::string> looked;
  // Every host's collector asks for metrics: the host of rank 0 has those of the other ones' ranks.
  const Jobs jobs = ask_jobs(folders,
                             options.wanted,
                             &looked,
                             options.prometheus ? AskElsewhere::kRank0 : AskElsewhere::kAny);
  if (options.prometheus) {
    return print_metrics(jobs);
  }
  if (jobs.empty()) {
    const std::vector<std::string> others = jobs_in(folders);
    return others.empty() ? no_job(folders, looked) : no_such_job(options.wanted, others);
  }
  if (jobs.size() > 1) {
    return list(jobs, options.wanted, options.json);
  }
  const std::string job = job_name(jobs.begin()->first);
  if (options.record) {
    return say_where_records_are(ask_ranks(folders, job, kAskRecord, kRecordTime).ranks);
  }
  if (options.watch_s > 0) {
    return watch_job(folders, job, options.watch_s);
  }
  const JobView view = view_of(jobs.begin()->second);
  std::fputs((options.json ? job_json(view) : job_table(view)).c_str(), stdout);
  return 0;
}

}  // namespace ho
