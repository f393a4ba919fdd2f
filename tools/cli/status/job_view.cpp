#include "cli/status/job_view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/status/rails_view.hpp"
#include "cli/subcommands/table.hpp"

namespace ho {
namespace {

using Json = nlohmann::json;

// Of two ranks that could be named as the one that is waited for, the one that waits itself is not.
bool waits(const RankView& view) {
  return view.state == "waits";
}

std::string since_text(double seconds) {
  return seconds < 1e-3 ? "now" : seconds_text(seconds);
}

// In which of the report's communicators, and of how many ranks: nothing for the whole job, if it
// has no name.
std::string where(const Json& report, const Json& communicator) {
  const auto name = communicator.at("name").get<std::string>();
  const auto id = communicator.at("id").get<uint32_t>();
  // What older releases and NCCL's communicators do not say is not told.
  const auto size = communicator.value("size", uint64_t{0});
  const bool part = size != 0 && size < report.value("world_size", 1U);
  const std::string ranks = part ? " of " + counted(size, "rank") : "";
  return !name.empty() ? " in " + escaped(name) + ranks
         : id != 0     ? fmt::format(" in communicator {}{}", id, ranks)
         : part ? fmt::format(" in group {}{}", escaped(communicator.value("key", "")), ranks)
                : "";
}

std::string call_text(const Json& report, const Json& communicator, const Json& operation) {
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
                     where(report, communicator));
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
  wait.peer = escaped(found->value("peer", std::string()));
  wait.device = escaped(found->value("device", std::string()));
  wait.step = found->value("step", 0U);
  wait.steps = found->value("steps", 0U);
  wait.since_s = seconds_between(found->at("since_ns").get<int64_t>(), now_ns);
  return wait;
}

// Under NCCL it is not known since when.
std::string idle_text(uint64_t calls, int64_t last_ended, int64_t now_ns) {
  if (last_ended != 0) {
    return "since " + since_text(seconds_between(last_ended, now_ns));
  }
  return calls == 0 ? "no call yet" : "";
}

// Under NCCL, which tells a plugin only some of its collectives: of the requests under way, those
// that have moved nothing for longest.
void read_connections_of(const Json& report, const Json& communicator, RankView& view) {
  const auto now_ns = report.at("time_ns").get<int64_t>();
  if (!communicator.contains("connections")) {
    return;
  }
  for (const Json& connection : communicator.at("connections")) {
    const auto pending = connection.at("pending").get<uint64_t>();
    const auto wait = wait_of(connection, now_ns);
    if (!wait || connection.at("failed").get<bool>() ||
        (view.wait && view.wait->since_s >= wait->since_s)) {
      continue;
    }
    view.state = "waits";
    view.wait = wait;
    view.call = fmt::format("{} of {}{}",
                            counted(pending, wait->what),
                            exact_bytes_text(connection.at("pending_bytes").get<uint64_t>()),
                            where(report, communicator));
  }
}

// Only where no operation is under way.
void read_connections(const Json& report, RankView& view) {
  for (const Json& communicator : report.at("communicators")) {
    read_connections_of(report, communicator, view);
  }
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
        view.call = call_text(report, communicator, operation);
        view.wait = wait_of(operation, now_ns);
        view.state = view.wait ? "waits" : "moves";
      }
    }
  }
  if (view.state.empty()) {
    read_connections(report, view);
  }
  if (view.state.empty()) {
    view.state = !report.at("communicators").empty()       ? "idle"
                 : report.value("ended", uint64_t{0}) == 0 ? "starts"
                                                           : "ended";
    view.call = view.state == "ended" ? "" : idle_text(view.calls, last_ended, now_ns);
  }
  for (const Json& communicator : report.at("communicators")) {
    const std::string cause = communicator.at("cause").get<std::string>();
    if (!cause.empty() && view.state == "idle") {
      view.state = "failed";
      view.call = escaped(cause, 120) + where(report, communicator);
    }
  }
}

// By rank, as those of this host know them: each of those of its groups.
std::map<uint32_t, std::string> hosts_of(const std::vector<RankView>& ranks) {
  std::map<uint32_t, std::string> hosts;
  for (const RankView& each : ranks) {
    const Json known =
        each.report.is_object() && !each.elsewhere ? each.report.at("hosts") : Json::array();
    for (uint32_t rank = 0; rank < known.size(); ++rank) {
      if (known[rank].is_string() && !known[rank].get_ref<const std::string&>().empty()) {
        hosts.try_emplace(rank, escaped(known[rank].get<std::string>()));
      }
    }
  }
  return hosts;
}

// Ranks that others know of and that were not asked, or have no socket here.
void add_missing(JobView& view) {
  const auto here = [](const RankView& each) { return each.report.is_object() && !each.elsewhere; };
  const auto answers = std::ranges::find_if(view.ranks, here);
  if (answers == view.ranks.end()) {
    return;
  }
  view.program = escaped(answers->report.value("program", std::string()));
  std::set<uint32_t> there;
  std::set<std::string> hosts_here;
  for (const RankView& each : view.ranks) {
    there.insert(each.rank);
    if (!each.elsewhere) {
      hosts_here.insert(each.host);
    }
  }
  constexpr uint32_t kMaxRanks = 1U << 16;
  const auto size = std::min(answers->report.value("world_size", 1U), kMaxRanks);
  const std::map<uint32_t, std::string> hosts = hosts_of(view.ranks);
  const auto host_of = [&](uint32_t rank) {
    const auto found = hosts.find(rank);
    return found == hosts.end() ? std::string() : found->second;
  };
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (!there.contains(rank)) {
      const bool on_this_host = hosts_here.contains(host_of(rank));
      view.ranks.push_back(
          {.rank = rank,
           .state = "missing",
           .call = on_this_host ? "no process of it listens here" : "on another host: ask there"});
    }
  }
  for (RankView& each : view.ranks) {
    each.host = each.host.empty() ? host_of(each.rank) : each.host;
  }
  std::ranges::stable_sort(view.ranks,
                           [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
}

// In a job that moves each rank waits for another one now and then: who is at work is the end of a
// wait only where that is a long one.
bool ends_wait(const RankView& rank, double waited_s) {
  constexpr double kLongS = 1;
  const bool at_work = rank.state == "moves" || rank.state == "idle" || rank.state == "starts";
  return !waits(rank) && (!at_work || waited_s >= kLongS);
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
    double waited_s = 0;
    for (size_t hops = 0; hops <= ranks.size() && at != nullptr && waits(*at); ++hops) {
      waited_s = std::max(waited_s, at->wait ? at->wait->since_s : 0);
      const auto next = at->wait && at->wait->rank ? by_rank.find(*at->wait->rank) : by_rank.end();
      at = next == by_rank.end() ? nullptr : next->second;
    }
    if (at != nullptr && at != &start && ends_wait(*at, waited_s)) {
      ends.insert(at->rank);
    }
  }
  return {ends.begin(), ends.end()};
}

std::string wait_text(const RankWait& wait) {
  std::string text = wait.what;
  const std::string peer = wait.rank ? fmt::format("rank {}", *wait.rank) : wait.peer;
  text += peer.empty() ? "" : fmt::format(" {} {}", wait.what == "recv" ? "from" : "to", peer);
  text += wait.device.empty() ? "" : ", " + wait.device;
  text += wait.rail ? fmt::format(", rail {}", *wait.rail) : "";
  text += wait.steps > 0 ? fmt::format(", step {} of {}", wait.step, wait.steps) : "";
  return text + ", for " + seconds_text(wait.since_s);
}

// Under NCCL: who waits where, longest first.
std::string connections_table(const JobView& view) {
  struct Line {
    uint32_t rank = 0;
    RankWait wait;
    uint64_t pending = 0;
    uint64_t bytes = 0;
  };
  std::vector<Line> lines;
  for (const RankView& rank : view.ranks) {
    for (const Json& communicator : communicators_of(rank)) {
      for (const Json& each : communicator.value("connections", Json::array())) {
        if (auto wait = wait_of(each, rank.report.at("time_ns").get<int64_t>())) {
          lines.push_back({rank.rank,
                           *std::move(wait),
                           each.at("pending").get<uint64_t>(),
                           each.at("pending_bytes").get<uint64_t>()});
        }
      }
    }
  }
  if (lines.empty()) {
    return "";
  }
  std::ranges::stable_sort(
      lines, std::ranges::greater(), [](const Line& line) { return line.wait.since_s; });
  auto columns = headed("rlrrll", {"rank", "device", "requests", "bytes", "waits for", "at"});
  constexpr size_t kMaxLines = 32;
  for (const Line& line : std::span(lines).first(std::min(lines.size(), kMaxLines))) {
    RankWait wait = line.wait;
    const std::string device = std::exchange(wait.device, "");
    add_row(columns,
            {std::to_string(line.rank),
             device,
             std::to_string(line.pending),
             exact_bytes_text(line.bytes),
             wait_text(wait),
             wait.peer});
  }
  return "\n" + aligned(columns) +
         (lines.size() > kMaxLines ? fmt::format("and {} more\n", lines.size() - kMaxLines) : "");
}

void set_unanswered(RankAnswer what, RankView& view) {
  view.state = "does not answer";
  switch (what) {
    case RankAnswer::kStopped:
      view.state = "stopped";
      break;
    case RankAnswer::kOtherOwner:
      view.state = "another user's";
      break;
    case RankAnswer::kGone:
      view.state = "missing";
      view.call = "it is not connected to rank 0: it has left, or is gone";
      break;
    case RankAnswer::kLeftOut:
      view.state = "left out";
      view.call = "too many ranks for one answer: ask on its host";
      break;
    case RankAnswer::kAnswered:
    case RankAnswer::kNoAnswer:
      view.call = view.elsewhere ? "on another host: look there" : "";
      break;
  }
}

void read_recent(const Json& report, RankView& view) {
  for (const Json& communicator : report.at("communicators")) {
    const Json calls = communicator.value("recent", Json::array());
    if (calls.empty()) {
      continue;
    }
    RecentCalls& recent = view.recent.emplace_back();
    recent.rank = view.rank;
    recent.key = communicator.at("key").get<std::string>();
    recent.where = where(report, communicator);
    for (const Json& call : calls) {
      recent.ns[{call.at(0).get<uint32_t>(), call.at(1).get<uint64_t>()}] =
          call.at(2).get<int64_t>();
    }
  }
}

// Everything that is read of it later: what is no report is found here, and nowhere else.
void check_report(const RankView& view) {
  const Json& report = view.report;
  (void)report.at("hosts").get_ref<const Json::array_t&>();
  (void)report.value("world_size", 1U);
  (void)report.value("program", std::string());
  for (const Json& communicator : report.at("communicators")) {
    (void)communicator.at("failovers").get<uint64_t>();
    (void)where(report, communicator);
    for (const Json& each : communicator.value("connections", Json::array())) {
      (void)each.at("device").get<std::string>();
      (void)each.at("sends").get<bool>();
      (void)each.at("pending").get<uint64_t>();
    }
  }
  JobView alone;
  alone.ranks.push_back(view);
  (void)rails_of(alone);
  (void)connections_table(alone);
}

// Of a report nothing else is kept: copies of what is deep would need as much stack.
bool is_shallow(int depth, Json::parse_event_t /*event*/, Json& /*parsed*/) {
  constexpr int kDeepest = 16;
  return depth < kDeepest;
}

RankView rank_view(const RankReply& reply) {
  RankView view{.rank = reply.name.rank, .pid = reply.pid, .elsewhere = reply.elsewhere};
  view.listens_here = !reply.elsewhere;
  const RankView unknown = view;
  if (reply.what != RankAnswer::kAnswered) {
    set_unanswered(reply.what, view);
    return view;
  }
  try {
    const Json report = Json::parse(reply.answer, is_shallow);
    view.host = escaped(report.at("host").get<std::string>());
    view.pid = reply.elsewhere ? report.at("pid").get<pid_t>() : reply.pid;
    read_operations(report, view);
    read_recent(report, view);
    view.report = report;
    check_report(view);
  } catch (const Json::exception&) {
    view = unknown;
    view.state = "answers what is no report";
  }
  return view;
}

std::string late_text(const JobView& view) {
  std::string text;
  for (const Lateness& late : view.late) {
    if (late.tells()) {
      const auto rank = std::ranges::find(view.ranks, late.last, &RankView::rank);
      text += fmt::format(
          "\nRank {}{} enters its calls{} last: {} after the middle one, of calls of {} "
          "(medians of {})\n",
          late.last,
          rank->host.empty() ? "" : " (" + rank->host + ")",
          late.where,
          seconds_text(late.late_s.at(late.last)),
          seconds_text(late.call_s),
          late.calls);
    }
  }
  return text;
}

// Of one that does not answer under NCCL, what those that wait for it know.
std::string host_text(const JobView& view, const RankView& rank) {
  const auto waits = std::ranges::find_if(view.ranks, [&](const RankView& each) {
    return each.wait && each.wait->rank == rank.rank && !each.wait->peer.empty();
  });
  return rank.host.empty() && waits != view.ranks.end() ? waits->wait->peer : rank.host;
}

}  // namespace

Json communicators_of(const RankView& rank) {
  return rank.report.is_object() ? rank.report.at("communicators") : Json::array();
}

double seconds_between(int64_t earlier_ns, int64_t later_ns) {
  constexpr double kNsPerSecond = 1e9;
  return std::max(0.0,
                  (static_cast<double>(later_ns) - static_cast<double>(earlier_ns)) / kNsPerSecond);
}

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
  std::vector<RecentCalls> recent;
  for (const RankView& each : view.ranks) {
    recent.insert(recent.end(), each.recent.begin(), each.recent.end());
  }
  view.late = lateness_of(recent);
  return view;
}

std::string job_table(const JobView& view, const JobView* before) {
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
    const std::string host = host_text(view, *rank);
    text += fmt::format("\nRanks wait in the end for rank {}{}: {}{}\n",
                        end,
                        host.empty() ? "" : " (" + host + ")",
                        rank->state,
                        rank->call.empty() ? "" : ", " + rank->call);
  }
  return text + late_text(view) + connections_table(view) + rails_table(view, before);
}

std::string job_json(const JobView& view) {
  nlohmann::ordered_json json{{"job", view.job},
                              {"program", view.program},
                              {"waited_for", view.waited_for},
                              {"late", nlohmann::ordered_json::array()},
                              {"ranks", nlohmann::ordered_json::array()}};
  for (const Lateness& late : view.late) {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const auto& [rank, late_s] : late.late_s) {
      ranks.push_back({{"rank", rank}, {"late_s", late_s}});
    }
    json["late"].push_back({{"key", late.key},
                            {"last", late.last},
                            {"tells", late.tells()},
                            {"calls", late.calls},
                            {"call_s", late.call_s},
                            {"ranks", std::move(ranks)}});
  }
  for (const RankView& rank : view.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"pid", rank.pid},
                             {"host", rank.host},
                             {"elsewhere", rank.elsewhere},
                             {"state", rank.state},
                             {"report", rank.report}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ho
