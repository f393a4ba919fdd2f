#include "cli/status/rails_view.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/subcommands/table.hpp"

namespace ho {
namespace {

using Json = nlohmann::json;

// "" where it was not counted before, or counts began again.
std::string rate_text(std::optional<uint64_t> now, std::optional<uint64_t> before, double seconds) {
  return now && before && *now >= *before && seconds > 0
             ? bytes_text(static_cast<double>(*now - *before) / seconds) + "/s"
             : "";
}

// A job whose links reach no peer waits, and no rank is to blame.
std::string lost_text(const std::vector<RailView>& rails) {
  std::string text;
  for (const RailView& rail : rails) {
    if (rail.lost > 0) {
      text += fmt::format(
          "{} at {} ({}): {} of {} links have lost their connections and try all paths\n",
          rail.interface,
          rail.address,
          rail.host,
          rail.lost,
          rail.links + rail.lost);
    }
  }
  return text.empty() ? text : "\n" + text;
}

void add_rail(const RankView& rank, const Json& json, RailView& rail) {
  rail.mbit = json.at("mbit").get<uint64_t>();
  rail.trouble = escaped(json.value("trouble", ""));
  if (json.contains("sent_bytes")) {
    rail.sent_bytes = json.at("sent_bytes").get<uint64_t>();
    rail.received_bytes = json.at("received_bytes").get<uint64_t>();
  }
  rail.time_ns = rank.report.at("time_ns").get<int64_t>();
  rail.elsewhere = rail.elsewhere && rank.elsewhere;
  const auto links = json.value("links", uint64_t{0});
  const auto lost = json.value("lost_links", uint64_t{0});
  rail.failovers += json.value("failovers", uint64_t{0});
  rail.links += links;
  rail.away += static_cast<double>(links + lost) * (1 - json.value("own_share", 1.0));
  rail.lost += lost;
}

}  // namespace

// All ranks of a host have the same ones, and links of their own.
std::vector<RailView> rails_of(const JobView& view) {
  std::map<std::tuple<std::string, std::string, std::string>, RailView> rails;
  for (const RankView& rank : view.ranks) {
    for (const Json& communicator : communicators_of(rank)) {
      for (const Json& each : communicator.at("rails")) {
        const auto address = escaped(each.at("address").get<std::string>());
        const auto interface = escaped(each.at("interface").get<std::string>());
        const auto [found, is_new] = rails.try_emplace({rank.host, address, interface},
                                                       RailView{rank.host, address, interface});
        found->second.elsewhere = is_new || found->second.elsewhere;
        add_rail(rank, each, found->second);
      }
    }
  }
  std::vector<RailView> all;
  for (auto& [key, rail] : rails) {
    all.push_back(std::move(rail));
  }
  return all;
}

std::string rails_table(const JobView& view, const JobView* before) {
  const std::vector<RailView> rails = rails_of(view);
  if (rails.empty()) {
    return "";
  }
  std::vector<std::string> titles{"host", "rail at", "interface", "Mbit/s"};
  if (before != nullptr) {
    titles.insert(titles.end(), {"sent", "received"});
  }
  const bool fails_over = std::ranges::any_of(
      rails, [](const RailView& rail) { return rail.links + rail.lost + rail.failovers > 0; });
  if (fails_over) {
    titles.insert(titles.end(), {"failovers", "carries"});
  }
  auto columns = headed("lll" + std::string(titles.size() - 3, 'r'), titles);
  const std::vector<RailView> earlier =
      before == nullptr ? std::vector<RailView>() : rails_of(*before);
  const auto key = [](const RailView& rail) {
    return std::tie(rail.host, rail.address, rail.interface);
  };
  for (const RailView& rail : rails) {
    const std::string speed = rail.mbit == 0 ? "?" : std::to_string(rail.mbit);
    std::vector<std::string> cells{
        rail.host, rail.address, rail.interface, rail.trouble.empty() ? speed : rail.trouble};
    if (before != nullptr) {
      const auto same = std::ranges::find(earlier, key(rail), key);
      const RailView was = same == earlier.end() ? RailView() : *same;
      const double seconds = seconds_between(was.time_ns, rail.time_ns);
      cells.push_back(rate_text(rail.sent_bytes, was.sent_bytes, seconds));
      cells.push_back(rate_text(rail.received_bytes, was.received_bytes, seconds));
    }
    if (fails_over) {
      cells.push_back(std::to_string(rail.failovers));
      cells.push_back(
          rail.links + rail.lost == 0 ? "" : fmt::format("{:.0f} %", 100 * rail.own_share()));
    }
    add_row(columns, cells);
  }
  return "\n" + aligned(columns) + lost_text(rails);
}

}  // namespace ho
