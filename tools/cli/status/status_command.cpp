// `horing status`: where each rank of a running job on this host is, without its help but for one
// thread of its own.
#include "cli/status/status_command.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/escaped.hpp"
#include "base/near_names.hpp"
#include "base/quantity.hpp"
#include "cli/status/ask.hpp"
#include "cli/status/job_view.hpp"
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

int no_job(const std::vector<std::string>& folders, const RankReplies& replies) {
  if (folders.empty()) {
    return fail("HORING_STATUS_DIR=none: jobs make no sockets to be asked at; unset it");
  }
  std::string looked;
  for (const std::string& folder : replies.looked) {
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

// One line each.
int list(const Jobs& jobs, const std::string& wanted) {
  auto columns = headed("lrrl", {"job", "ranks", "here", "program"});
  for (const auto& [job, replies] : jobs) {
    const JobView view = view_of(replies);
    add_row(columns,
            {view.job,
             std::to_string(view.ranks.size()),
             std::to_string(replies.size()),
             view.program.empty() ? "does not answer" : view.program});
  }
  std::fputs(aligned(columns).c_str(), stdout);
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

}  // namespace

int status_command(int argc, const char* const* argv) {
  std::string wanted;
  bool json = false;
  bool record = false;
  CLI::App app(
      "What each rank of a running job does now: in which call it is, for whom it waits and since "
      "when.\n"
      "It works while the job hangs. Ranks of this host and of this user are asked; others are "
      "named.",
      "horing status");
  app.add_option("JOB", wanted, "Which job, or the beginning of its name [the only one]");
  app.add_flag("--json", json, "Print JSON: what each rank has answered");
  app.add_flag(
      "--record", record, "Have each rank write its last operations into HORING_RECORD_DIR");
  if (const auto status = exit_unless_parsed(app, argc, argv, [] { return Status(); })) {
    return *status;
  }
  const std::vector<std::string> folders = status_folders();
  const RankReplies replies = ask_ranks(folders, wanted, kAskStatus, kAnswerTime);
  Jobs jobs;
  for (const RankReply& rank : replies.ranks) {
    jobs[rank.name.job].push_back(rank);
  }
  if (jobs.empty()) {
    const std::vector<std::string> others = jobs_in(folders);
    return others.empty() ? no_job(folders, replies) : no_such_job(wanted, others);
  }
  if (jobs.size() > 1) {
    return list(jobs, wanted);
  }
  if (record) {
    const std::string job = job_name(jobs.begin()->first);
    return say_where_records_are(ask_ranks(folders, job, kAskRecord, kRecordTime).ranks);
  }
  const JobView view = view_of(jobs.begin()->second);
  std::fputs((json ? job_json(view) : job_table(view)).c_str(), stdout);
  return 0;
}

}  // namespace ho
