// A stall has one cause and many victims: all ranks wait, and each knows only whom it waits for.
// But operations of a channel are numbered alike on all ranks, so the ranks with the lowest number
// are where to look: they have not entered what the others wait in. A rank that does not even
// answer is suspected before those.
#include <algorithm>
#include <map>
#include <tuple>

#include "bootstrap/rank_names.hpp"
#include "bootstrap/verdict.hpp"

namespace ho {
namespace {

using Lane = std::pair<uint16_t, uint8_t>;  // communicator, channel

Lane lane_of(const RankState& state) {
  return {state.communicator, state.channel};
}

bool inside(const RankState& state) {
  return state.entered > state.completed;
}

std::string operation_name(const RankState& state) {
  return (state.operation.empty() ? std::string("operation") : state.operation) + " #" +
         std::to_string(state.entered);
}

// The stalled lane: the one the first report talks about, else the reporter's, else anybody's.
std::optional<Lane> stalled_lane(std::span<const RankAnswer> answers, const FailureReport& first) {
  std::optional<std::tuple<int, Lane>> best;
  for (const RankAnswer& answer : answers) {
    for (const RankState& state : answer.states) {
      if (!inside(state)) {
        continue;
      }
      const bool own = answer.rank == first.reporter.value();
      const bool named = first.text.find(operation_name(state)) != std::string::npos;
      const int priority = own && named ? 0 : own ? 1 : 2;
      if (!best.has_value() || priority < std::get<0>(*best)) {
        best = {priority, lane_of(state)};
      }
    }
  }
  return best.has_value() ? std::optional(std::get<1>(*best)) : std::nullopt;
}

struct Member {
  uint32_t rank = 0;
  const RankState* state = nullptr;
};

std::vector<Member> members_of(Lane lane, std::span<const RankAnswer> answers) {
  std::vector<Member> members;
  for (const RankAnswer& answer : answers) {
    for (const RankState& state : answer.states) {
      if (lane_of(state) == lane) {
        members.push_back({answer.rank, &state});
        break;
      }
    }
  }
  return members;
}

std::string plural(const std::vector<uint32_t>& ranks, const char* one, const char* many) {
  return ranks.size() == 1 ? one : many;
}

// "rank 5 has not entered all_reduce #12 (its last is #11)", one part per number that ranks are at.
void add_behind(std::vector<std::string>& parts,
                const std::vector<Member>& members,
                uint32_t top,
                const std::string& operation) {
  std::map<uint32_t, std::vector<uint32_t>> behind;
  for (const Member& member : members) {
    if (member.state->entered < top) {
      behind[member.state->entered].push_back(member.rank);
    }
  }
  for (const auto& [entered, ranks] : behind) {
    const auto first =
        std::find_if(members.begin(), members.end(), [rank = ranks.front()](const Member& member) {
          return member.rank == rank;
        });
    std::string text =
        rank_list(ranks) + plural(ranks, " has", " have") + " not entered " + operation;
    if (entered == 0) {
      text += plural(ranks, " (it has entered none so far)", " (they have entered none so far)");
    } else if (inside(*first->state)) {
      text += plural(ranks, " (it is still in ", " (they are still in ") +
              operation_name(*first->state) +
              (first->state->waiting.empty() ? ")" : ": " + first->state->waiting + ")");
    } else {
      text += plural(ranks, " (its last is #", " (their last is #") + std::to_string(entered) + ")";
    }
    parts.push_back(std::move(text));
  }
}

// "recv inter step 2 of rail 1 (ranks 1, 4), ..."
std::string places_text(const std::map<std::string, std::vector<uint32_t>>& waits) {
  constexpr size_t kMostPlaces = 6;
  std::string text;
  size_t shown = 0;
  for (const auto& [where, ranks] : waits) {
    if (shown == kMostPlaces) {
      return text + ", and " + std::to_string(waits.size() - shown) + " more places";
    }
    text += (shown++ == 0 ? "" : ", ") + where + " (" + rank_list(ranks, 4) + ")";
  }
  return text;
}

// "15 ranks wait in it: recv inter step 2 of rail 1 (ranks 1, 4), ..."
void add_waiting(std::vector<std::string>& parts,
                 const std::vector<Member>& members,
                 uint32_t top,
                 const std::string& operation) {
  std::map<std::string, std::vector<uint32_t>> waits;
  size_t waiting_count = 0;
  size_t completed_count = 0;
  for (const Member& member : members) {
    if (member.state->entered == top && inside(*member.state)) {
      const std::string& where = member.state->waiting;
      waits[where.empty() ? "busy, waiting for no peer" : where].push_back(member.rank);
      ++waiting_count;
    }
    completed_count += member.state->completed >= top ? 1 : 0;
  }
  if (completed_count > 0) {
    parts.push_back(std::to_string(completed_count) +
                    (completed_count == 1 ? " rank has" : " ranks have") + " completed it");
  }
  if (waiting_count == 0) {
    return;
  }
  const bool all = waiting_count == members.size();
  std::string text = all ? "all " + std::to_string(waiting_count) + " ranks have entered " +
                               operation + " and wait: "
                         : std::to_string(waiting_count) +
                               (waiting_count == 1 ? " rank waits in it: " : " ranks wait in it: ");
  text += places_text(waits);
  parts.push_back(std::move(text));
}

void add_silent(std::vector<std::string>& parts,
                std::span<const RankAnswer> answers,
                std::span<const std::string> rank_names) {
  constexpr size_t kMostNames = 8;
  std::string names;
  size_t silent = 0;
  for (const RankAnswer& answer : answers) {
    if (answer.answered) {
      continue;
    }
    if (silent < kMostNames) {
      names += (silent == 0 ? "" : ", ") + rank_names[answer.rank];
    }
    ++silent;
  }
  if (silent > kMostNames) {
    names += " and " + std::to_string(silent - kMostNames) + " more ranks";
  }
  if (silent > 0) {
    parts.push_back(names + (silent == 1 ? " does not answer: stopped, or its host is gone"
                                         : " do not answer: stopped, or their hosts are gone"));
  }
}

}  // namespace

std::string describe_stall(std::span<const RankAnswer> answers,
                           std::span<const std::string> rank_names,
                           const FailureReport& first) {
  std::vector<std::string> parts;
  add_silent(parts, answers, rank_names);
  if (const std::optional<Lane> lane = stalled_lane(answers, first)) {
    const std::vector<Member> members = members_of(*lane, answers);
    const auto ahead =
        std::max_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
          // Of equals, one that still knows the operation's name.
          return std::pair(a.state->entered, !a.state->operation.empty()) <
                 std::pair(b.state->entered, !b.state->operation.empty());
        });
    const uint32_t top = ahead->state->entered;
    std::string operation = operation_name(*ahead->state);
    if (lane->first != 0) {
      operation += " of communicator " + std::to_string(lane->first);
    }
    add_behind(parts, members, top, operation);
    add_waiting(parts, members, top, operation);
  } else {
    parts.emplace_back("no rank that answers is inside an operation any more");
  }
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

}  // namespace ho
