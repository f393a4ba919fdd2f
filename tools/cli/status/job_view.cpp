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
#include "cli/subcommands/table.hpp"

namespace ho {
namespace {

using Json = nlohmann::json;

constexpr double kNsPerSecond = 1e9;

// Of two ranks that could be named as the one that is waited for, the one that waits itself is not.
bool waits(const RankView& view) {
  return view.state == "waits";
}

Json communicators_of(const RankView& rank) {
  return rank.report.is_object() ? rank.report.at("communicators") : Json::array();
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
void read_connections_of(const Json& communicator, int64_t now_ns, RankView& view) {
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
                            where(communicator));
  }
}

// Only where no operation is under way.
void read_connections(const Json& report, RankView& view) {
  const auto now_ns = report.at("time_ns").get<int64_t>();
  for (const Json& communicator : report.at("communicators")) {
    read_connections_of(communicator, now_ns, view);
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
        view.call = call_text(communicator, operation);
        view.wait = wait_of(operation, now_ns);
        view.state = view.wait ? "waits" : "moves";
      }
    }
  }
  if (view.state.empty()) {
    read_connections(report, view);
  }
  if (view.state.empty()) {
    view.state = report.at("communicators").empty() ? "starts" : "idle";
    view.call = idle_text(view.calls, last_ended, now_ns);
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

// "" where it was not counted before, or counts began again.
std::string rate_text(std::optional<uint64_t> now, std::optional<uint64_t> before, double seconds) {
  return now && before && *now >= *before && seconds > 0
             ? bytes_text(static_cast<double>(*now - *before) / seconds) + "/s"
             : "";
}

std::string rails_table(const JobView& view, const JobView* before) {
  const std::vector<RailView> rails = rails_of(view);
  if (rails.empty()) {
    return "";
  }
  auto columns =
      before == nullptr
          ? headed("lllr", {"host", "rail at", "interface", "Mbit/s"})
          : headed("lllrrr", {"host", "rail at", "interface", "Mbit/s", "sent", "received"});
  const std::vector<RailView> earlier =
      before == nullptr ? std::vector<RailView>() : rails_of(*before);
  const auto key = [](const RailView& rail) {
    return std::tie(rail.host, rail.address, rail.interface);
  };
  for (const RailView& rail : rails) {
    std::vector<std::string> cells{
        rail.host, rail.address, rail.interface, rail.mbit == 0 ? "?" : std::to_string(rail.mbit)};
    if (before != nullptr) {
      const auto same = std::ranges::find(earlier, key(rail), key);
      const RailView was = same == earlier.end() ? RailView() : *same;
      const double seconds = seconds_between(was.time_ns, rail.time_ns);
      cells.push_back(rate_text(rail.sent_bytes, was.sent_bytes, seconds));
      cells.push_back(rate_text(rail.received_bytes, was.received_bytes, seconds));
    }
    add_row(columns, cells);
  }
  return "\n" + aligned(columns);
}

std::string failovers_text(const JobView& view) {
  std::map<std::string, uint64_t> failovers;
  for (const RankView& rank : view.ranks) {
    for (const Json& communicator : communicators_of(rank)) {
      failovers[rank.host] += communicator.at("failovers").get<uint64_t>();
    }
  }
  std::string text;
  for (const auto& [host, count] : failovers) {
    text +=
        count > 0 ? fmt::format("{}: links went on over another rail {} times\n", host, count) : "";
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

size_t JobView::answered() const {
  return static_cast<size_t>(
      std::ranges::count_if(ranks, [](const RankView& each) { return each.report.is_object(); }));
}

std::vector<RailView> rails_of(const JobView& view) {
  std::vector<RailView> rails;
  for (const RankView& rank : view.ranks) {
    for (const Json& communicator : communicators_of(rank)) {
      for (const Json& each : communicator.at("rails")) {
        RailView rail{rank.host,
                      escaped(each.at("address").get<std::string>()),
                      escaped(each.at("interface").get<std::string>()),
                      each.at("mbit").get<uint64_t>()};
        if (each.contains("sent_bytes")) {
          rail.sent_bytes = each.at("sent_bytes").get<uint64_t>();
          rail.received_bytes = each.at("received_bytes").get<uint64_t>();
        }
        rail.time_ns = rank.report.at("time_ns").get<int64_t>();
        rails.push_back(std::move(rail));
      }
    }
  }
  // All ranks of a host have the same.
  const auto key = [](const RailView& rail) {
    return std::tie(rail.host, rail.address, rail.interface);
  };
  std::ranges::stable_sort(rails, {}, key);
  const auto same = [&](const RailView& one, const RailView& other) {
    return key(one) == key(other);
  };
  rails.erase(std::unique(rails.begin(), rails.end(), same), rails.end());
  return rails;
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
  return text + connections_table(view) + rails_table(view, before) + failovers_text(view);
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
