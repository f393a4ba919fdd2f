#include "cli/status/job_view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/subcommands/table.hpp"

namespace ho {
namespace {

using Json = nlohmann::json;

constexpr double kNsPerSecond = 1e9;

// Of two ranks that could be named as the one that is waited for, the one that waits itself is not.
bool waits(const RankView& view) {
  return view.state == "waits";
}

double seconds_between(int64_t earlier_ns, int64_t later_ns) {
  return std::max(0.0, static_cast<double>(later_ns - earlier_ns) / kNsPerSecond);
}

std::string since_text(double seconds) {
  return seconds < 1e-3 ? "now" : seconds_text(seconds);
}

// In which of its communicators: nothing for the whole job.
std::string where(const Json& communicator) {
  const std::string name = communicator.at("name").get<std::string>();
  const auto id = communicator.at("id").get<uint32_t>();
  return !name.empty() ? " in " + escaped(name)
         : id != 0     ? fmt::format(" in communicator {}", id)
                       : "";
}

std::string call_text(const Json& communicator, const Json& operation) {
  const auto pieces = operation.at("pieces").get<uint64_t>();
  const std::string progress =
      pieces == 0
          ? ""
          : fmt::format(", {} of {} pieces", operation.at("pieces_done").get<uint64_t>(), pieces);
  return fmt::format("{} #{} of {}{}{}",
                     escaped(operation.at("call").get<std::string>()),
                     operation.at("number").get<uint64_t>(),
                     exact_bytes_text(operation.at("bytes").get<uint64_t>()),
                     progress,
                     where(communicator));
}

std::optional<RankWait> wait_of(const Json& operation, int64_t now_ns) {
  const auto found = operation.find("waits_for");
  if (found == operation.end()) {
    return std::nullopt;
  }
  RankWait wait;
  wait.what = escaped(found->at("what").get<std::string>());
  if (found->contains("rank")) {
    wait.rank = found->at("rank").get<uint32_t>();
  }
  if (found->contains("rail")) {
    wait.rail = found->at("rail").get<uint32_t>();
  }
  wait.step = found->value("step", 0U);
  wait.steps = found->value("steps", 0U);
  wait.since_s = seconds_between(found->at("since_ns").get<int64_t>(), now_ns);
  return wait;
}

// What the rank is in: the operation that was entered first of those under way.
void read_operations(const Json& report, RankView& view) {
  const auto now_ns = report.at("time_ns").get<int64_t>();
  int64_t first_entered = INT64_MAX;
  int64_t last_ended = 0;
  for (const Json& communicator : report.at("communicators")) {
    view.calls += communicator.at("completed").get<uint64_t>();
    view.bytes += communicator.at("completed_bytes").get<uint64_t>();
    for (const Json& operation : communicator.at("operations")) {
      last_ended = std::max(last_ended, operation.at("ended_ns").get<int64_t>());
      const auto entered = operation.at("entered_ns").get<int64_t>();
      if (operation.at("ended_ns").get<int64_t>() == 0 && entered < first_entered) {
        first_entered = entered;
        view.call = call_text(communicator, operation);
        view.wait = wait_of(operation, now_ns);
        view.state = view.wait ? "waits" : "moves";
      }
    }
  }
  if (view.state.empty()) {
    view.state = report.at("communicators").empty() ? "starts" : "idle";
    view.call = last_ended == 0 ? std::string("no call yet")
                                : "since " + since_text(seconds_between(last_ended, now_ns));
  }
  for (const Json& communicator : report.at("communicators")) {
    const std::string cause = communicator.at("cause").get<std::string>();
    if (!cause.empty() && view.state == "idle") {
      view.state = "failed";
      view.call = escaped(cause, 120) + where(communicator);
    }
  }
}

std::string_view unanswered_text(RankAnswer what) {
  switch (what) {
    case RankAnswer::kStopped:
      return "stopped";
    case RankAnswer::kOtherOwner:
      return "another user's";
    case RankAnswer::kAnswered:
    case RankAnswer::kNoAnswer:
      break;
  }
  return "does not answer";
}

RankView rank_view(const RankReply& reply) {
  RankView view;
  view.rank = reply.name.rank;
  view.pid = reply.pid;
  if (reply.what != RankAnswer::kAnswered) {
    view.state = unanswered_text(reply.what);
    return view;
  }
  try {
    const Json report = Json::parse(reply.answer);
    view.host = escaped(report.at("host").get<std::string>());
    read_operations(report, view);
    view.report = report;
  } catch (const Json::exception&) {
    view = {.rank = reply.name.rank, .pid = reply.pid, .state = "answers what is no report"};
  }
  return view;
}

// Ranks that others know of and that were not asked, or have no socket here.
void add_missing(JobView& view) {
  const auto knows = std::ranges::find_if(view.ranks, [](const RankView& each) {
    return each.report.is_object() && !each.report.at("hosts").empty();
  });
  const auto answers = std::ranges::find_if(
      view.ranks, [](const RankView& each) { return each.report.is_object(); });
  if (answers == view.ranks.end()) {
    return;
  }
  view.program = escaped(answers->report.value("program", std::string()));
  std::set<uint32_t> there;
  std::set<std::string> hosts_here;
  for (const RankView& each : view.ranks) {
    there.insert(each.rank);
    hosts_here.insert(each.host);
  }
  constexpr uint32_t kMaxRanks = 1U << 20;
  const auto size = std::min(answers->report.value("world_size", 1U), kMaxRanks);
  const Json hosts = knows == view.ranks.end() ? Json::array() : knows->report.at("hosts");
  const auto host_of = [&](uint32_t rank) {
    return rank < hosts.size() && hosts[rank].is_string() ? escaped(hosts[rank].get<std::string>())
                                                          : std::string();
  };
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (!there.contains(rank)) {
      const bool here = hosts_here.contains(host_of(rank));
      view.ranks.push_back(
          {.rank = rank,
           .state = "missing",
           .call = here ? "no process of it listens here" : "on another host: ask there"});
    }
  }
  for (RankView& each : view.ranks) {
    each.host = each.host.empty() ? host_of(each.rank) : each.host;
  }
  std::ranges::stable_sort(view.ranks,
                           [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
}

// Follows each wait to a rank that does not wait.
std::vector<uint32_t> ends_of_waits(const std::vector<RankView>& ranks) {
  std::map<uint32_t, const RankView*> by_rank;
  for (const RankView& each : ranks) {
    by_rank[each.rank] = &each;
  }
  std::set<uint32_t> ends;
  for (const RankView& start : ranks) {
    const RankView* at = &start;
    for (size_t hops = 0; hops <= ranks.size() && at != nullptr && waits(*at); ++hops) {
      const auto next = at->wait && at->wait->rank ? by_rank.find(*at->wait->rank) : by_rank.end();
      at = next == by_rank.end() ? nullptr : next->second;
    }
    if (at != nullptr && at != &start && !waits(*at)) {
      ends.insert(at->rank);
    }
  }
  return {ends.begin(), ends.end()};
}

std::string wait_text(const RankWait& wait) {
  std::string text = wait.what;
  text +=
      wait.rank ? fmt::format(" {} rank {}", wait.what == "recv" ? "from" : "to", *wait.rank) : "";
  text += wait.rail ? fmt::format(", rail {}", *wait.rail) : "";
  text += wait.steps > 0 ? fmt::format(", step {} of {}", wait.step, wait.steps) : "";
  return text + ", for " + seconds_text(wait.since_s);
}

std::string rails_table(const JobView& view) {
  // By host and address: an emulated interface has no name, and all ranks of a host have the same.
  struct Rail {
    std::string interface;
    uint64_t mbit = 0;
  };
  std::map<std::pair<std::string, std::string>, Rail> rails;
  std::map<std::string, uint64_t> failovers;
  for (const RankView& rank : view.ranks) {
    if (!rank.report.is_object()) {
      continue;
    }
    for (const Json& communicator : rank.report.at("communicators")) {
      failovers[rank.host] += communicator.at("failovers").get<uint64_t>();
      for (const Json& rail : communicator.at("rails")) {
        rails[{rank.host, escaped(rail.at("address").get<std::string>())}] = {
            escaped(rail.at("interface").get<std::string>()), rail.at("mbit").get<uint64_t>()};
      }
    }
  }
  if (rails.empty()) {
    return "";
  }
  auto columns = headed("lllr", {"host", "rail at", "interface", "Mbit/s"});
  for (const auto& [key, rail] : rails) {
    add_row(
        columns,
        {key.first, key.second, rail.interface, rail.mbit == 0 ? "?" : std::to_string(rail.mbit)});
  }
  std::string text = "\n" + aligned(columns);
  for (const auto& [host, count] : failovers) {
    text +=
        count > 0 ? fmt::format("{}: links went on over another rail {} times\n", host, count) : "";
  }
  return text;
}

}  // namespace

size_t JobView::answered() const {
  return static_cast<size_t>(
      std::ranges::count_if(ranks, [](const RankView& each) { return each.report.is_object(); }));
}

JobView view_of(const std::vector<RankReply>& replies) {
  JobView view;
  view.job = job_name(replies.front().name.job);
  for (const RankReply& each : replies) {
    view.ranks.push_back(rank_view(each));
  }
  add_missing(view);
  view.waited_for = ends_of_waits(view.ranks);
  return view;
}

std::string job_table(const JobView& view) {
  std::string text = fmt::format("job {}: {} of {} answer{}\n\n",
                                 view.job,
                                 view.answered(),
                                 counted(view.ranks.size(), "rank"),
                                 view.program.empty() ? "" : "; " + view.program);
  auto columns =
      headed("rrlllrrl", {"rank", "pid", "host", "state", "call", "calls", "bytes", "waits for"});
  for (const RankView& rank : view.ranks) {
    const bool known = rank.report.is_object();
    add_row(columns,
            {std::to_string(rank.rank),
             rank.pid == 0 ? "" : std::to_string(rank.pid),
             rank.host,
             rank.state,
             rank.call,
             known ? std::to_string(rank.calls) : "",
             known ? bytes_text(static_cast<double>(rank.bytes)) : "",
             rank.wait ? wait_text(*rank.wait) : ""});
  }
  text += aligned(columns);
  for (const uint32_t end : view.waited_for) {
    const auto rank = std::ranges::find(view.ranks, end, &RankView::rank);
    text += fmt::format("\nRanks wait in the end for rank {}{}: {}{}\n",
                        end,
                        rank->host.empty() ? "" : " (" + rank->host + ")",
                        rank->state,
                        rank->call.empty() ? "" : ", " + rank->call);
  }
  return text + rails_table(view);
}

std::string job_json(const JobView& view) {
  nlohmann::ordered_json json{{"job", view.job},
                              {"program", view.program},
                              {"waited_for", view.waited_for},
                              {"ranks", nlohmann::ordered_json::array()}};
  for (const RankView& rank : view.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"pid", rank.pid},
                             {"host", rank.host},
                             {"state", rank.state},
                             {"report", rank.report}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ho
