#include "planner/text/group_text.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "base/quantity.hpp"

namespace paro {
namespace {

using ho::cost::Cluster;

std::string unit_name(const Cluster& levels, size_t at) {
  return at == 0 ? "rank" : levels[at - 1].name;
}

std::string level_text(const Cluster& levels, size_t at) {
  constexpr double kGigabit = 1e9 / 8;
  const ho::cost::Level& level = levels[at];
  std::string text =
      fmt::format("{} of {}", level.name, ho::counted(level.size, unit_name(levels, at)));
  if (std::isfinite(level.rate)) {
    text += fmt::format(" at {:.4g} Gbit/s", level.rate / kGigabit);
  }
  if (level.nics != 1) {
    text += fmt::format(" on {} NICs", level.nics);
  }
  if (level.oversubscription > 1) {
    text += fmt::format(", {}:1", level.oversubscription);
  }
  return text;
}

// "2 of the 32 nodes of a pod", "a whole node"
std::string part_text(const Cluster& levels, const ho::cost::Members& members) {
  size_t at = levels.size();
  while (at-- > 0) {
    if (members.at(at) > 1) {
      return members.at(at) == levels[at].size ? fmt::format("a whole {}", levels[at].name)
                                               : fmt::format("{} of the {} {}s of a {}",
                                                             members.at(at),
                                                             levels[at].size,
                                                             unit_name(levels, at),
                                                             levels[at].name);
    }
  }
  return "one rank each";
}

}  // namespace

ho::Result<GroupSizeList> parse_group_sizes(const PlanTexts::Text& text,
                                            const ho::OptionNames& named) {
  GroupSizeList list;
  list.named = named;
  if (!text || *text == "all") {
    list.all = text.has_value();
    return list;
  }
  const std::string what = named("group-sizes");
  for (size_t begin = 0; begin != std::string::npos;) {
    const size_t comma = text->find(',', begin);
    const std::string_view piece = std::string_view(*text).substr(begin, comma - begin);
    if (piece.empty()) {
      return ho::invalid(fmt::format(
          "{} '{}': takes whole numbers with a comma between each two, as 4,8,16, or all",
          what,
          *text));
    }
    HORING_ASSIGN(const uint32_t size, ho::parse_whole(what, piece, 1U));
    list.sizes.push_back(size);
    begin = comma == std::string::npos ? comma : comma + 1;
  }
  return list;
}

std::string levels_text(const PlannerRequest& request) {
  const Cluster levels = levels_of(request.world, request.links);
  std::string text;
  for (size_t at = 0; at < levels.size(); ++at) {
    text += (at == 0 ? "" : "; ") + level_text(levels, at);
  }
  return text + fmt::format("; {}; world collectives: {}",
                            ho::counted(request.world.ranks(), "rank"),
                            to_string(request.links.world));
}

std::string groups_text(const PlannerRequest& request) {
  const Cluster levels = levels_of(request.world, request.links);
  const uint32_t size = request.world.group_size;
  const auto members = inside_groups(levels, size);
  if (!members.ok()) {
    return {};
  }
  if (size == 1) {
    return fmt::format("{} of 1 rank", request.world.group_count);
  }
  std::string text = fmt::format("{} of {} ranks, 0-{}", request.world.group_count, size, size - 1);
  if (request.world.group_count > 1) {
    text += fmt::format(", {}-{}", size, 2 * uint64_t{size} - 1);
  }
  return fmt::format(
      "{}{}: {}", text, request.world.group_count > 2 ? ", .." : "", part_text(levels, *members));
}

std::string sizes_text(const Report& report) {
  const auto& plans = report.sizes.plans;
  if (plans.empty()) {
    return {};
  }
  const Cluster levels = levels_of(plans.front().request.world, plans.front().request.links);
  const size_t outermost = outermost_level(levels);
  std::string text = fmt::format(
      "\nGroups, each size with its best strategy, in one order with all others (half: the step on "
      "links between nodes half as good); over {}: what each {} sends to others in a step.\n",
      levels[outermost].name,
      unit_name(levels, outermost));
  for (size_t at = 0; at < plans.size(); ++at) {
    const SizedPlan& plan = plans[at];
    const StrategyFigures* const best = plan.recommendation.recommended();
    text += fmt::format("{}  ", at == report.sizes.chosen ? "*" : " ");
    text += best == nullptr ? std::string("nothing fits")
                            : fmt::format("{}  step {:>8} (half {:>8})  need {:>8}  over {} {:>8}",
                                          letters(best->strategy),
                                          ho::seconds_text(best->time.step_s),
                                          ho::seconds_text(best->time.half_links_s),
                                          ho::bytes_text(best->memory.total()),
                                          levels[outermost].name,
                                          ho::bytes_text(spine_bytes(*best, plan.request)));
    text += "  " + groups_text(plan.request) + "\n";
  }
  return text;
}

}  // namespace paro
