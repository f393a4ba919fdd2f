// A stall has one cause and many victims: all ranks wait, and each knows only whom it waits for.
// But operations of a channel have the same numbers on all ranks, so the ranks with the lowest
// number are where to look: they have not entered what the others wait in. A rank that does not
// even answer is suspected before those.
//
// A rank may be behind because it waits itself, in another communicator or another channel, for a
// rank that has not entered that. So the waits are followed until there is a rank behind that waits
// in nothing: the others are its victims.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "bootstrap/failure/failure_aggregator.hpp"
#include "bootstrap/failure/waits.hpp"
#include "bootstrap/messages/rank_names.hpp"

namespace ho {
namespace {

// "all_gather #1", or "".
std::string elsewhere(const Member& member) {
  const auto waits = waits_elsewhere(member);
  if (waits.empty()) {
    return {};
  }
  const bool here = same_communicator(*waits.front(), *member.state);
  return here ? operation_name(*waits.front()) : operation_name_at(*waits.front());
}

ChannelKey likely_root(const ChannelKey& channel, const Channels& channels) {
  const auto strictly = root_of(channel, channels, false);
  return strictly ? *strictly : root_of(channel, channels, true).value_or(channel);
}

// "it has entered none so far", of the ranks that `one` stands for.
std::string last_of(const Member& one, bool single, const std::string& other) {
  const RankState& state = *one.state;
  if (inside(state)) {
    return (single ? "it is still in " : "they are still in ") + operation_name(state) +
           (state.waiting.empty() ? "" : ": " + state.waiting);
  }
  std::string text;
  if (state.entered == 0) {
    text = single ? "it has entered none so far" : "they have entered none so far";
  } else {
    text = (single ? "its last is #" : "their last is #") + std::to_string(state.entered);
  }
  return other.empty() ? text : text + (single ? "; it is in " : "; they are in ") + other;
}

// "rank 5 has not entered all_reduce #12 (its last is #11)", one part per place that ranks are at.
void add_behind(std::vector<std::string>& parts,
                const std::vector<Member>& members,
                uint32_t top,
                const std::string& operation) {
  // Those that wait in something else come last: they may be victims.
  std::map<std::tuple<bool, uint32_t, std::string>, std::vector<const Member*>> behind;
  for (const Member& member : members) {
    if (member.state->entered < top) {
      std::string other = elsewhere(member);
      const bool waits = !other.empty();
      behind[{waits, member.state->entered, std::move(other)}].push_back(&member);
    }
  }
  for (const auto& [position, at_it] : behind) {
    std::vector<uint32_t> ranks;
    for (const Member* member : at_it) {
      ranks.push_back(member->rank());
    }
    const bool single = ranks.size() == 1;
    parts.push_back(rank_list(ranks) + (single ? " has" : " have") + " not entered " + operation +
                    " (" + last_of(*at_it.front(), single, std::get<2>(position)) + ")");
  }
}

// "recv inter step 2 of rail 1 (ranks 1, 4), ..."
std::string waits_text(const std::map<std::string, std::vector<uint32_t>>& waits) {
  constexpr size_t kMaxWaits = 6;
  std::string text;
  size_t listed = 0;
  for (const auto& [where, ranks] : waits) {
    if (listed == kMaxWaits) {
      return text + ", and " + std::to_string(waits.size() - listed) + " more places";
    }
    text += (listed++ == 0 ? "" : ", ") + where + " (" + rank_list(ranks, 4) + ")";
  }
  return text;
}

// "all 16 ranks have entered all_reduce #7 and wait: "
std::string all_wait_text(const std::vector<Member>& members,
                          const std::string& operation,
                          bool all_answered) {
  if (members.size() > 1) {
    return "all " + std::to_string(members.size()) + " ranks have entered " + operation +
           " and wait: ";
  }
  // A message between two has one who waits alone, while the other has not begun it.
  return (all_answered ? "only rank " + std::to_string(members.front().rank()) + " has entered "
                       : "the one rank that answers has entered ") +
         operation + " and waits: ";
}

// "15 ranks wait in it: recv inter step 2 of rail 1 (ranks 1, 4), ..."
void add_waiting(std::vector<std::string>& parts,
                 const std::vector<Member>& members,
                 uint32_t top,
                 const std::string& operation,
                 bool all_answered) {
  std::map<std::string, std::vector<uint32_t>> waits;
  size_t waiting_count = 0;
  size_t completed_count = 0;
  for (const Member& member : members) {
    if (member.state->entered == top && inside(*member.state)) {
      const std::string& where = member.state->waiting;
      waits[where.empty() ? "busy, waiting for no peer" : where].push_back(member.rank());
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
  std::string text = waiting_count == members.size()
                         ? all_wait_text(members, operation, all_answered)
                         : std::to_string(waiting_count) +
                               (waiting_count == 1 ? " rank waits in it: " : " ranks wait in it: ");
  text += waits_text(waits);
  parts.push_back(std::move(text));
}

void add_silent(std::vector<std::string>& parts,
                std::span<const RankAnswer> answers,
                std::span<const std::string> rank_names) {
  constexpr size_t kMaxNames = 8;
  std::string names;
  size_t silent = 0;
  for (const RankAnswer& answer : answers) {
    if (answer.answered) {
      continue;
    }
    if (silent < kMaxNames) {
      names += (silent == 0 ? "" : ", ") + rank_names[answer.rank];
    }
    ++silent;
  }
  if (silent > kMaxNames) {
    names += " and " + std::to_string(silent - kMaxNames) + " more ranks";
  }
  if (silent > 0) {
    parts.push_back(names + (silent == 1 ? " does not answer: stopped, or its host is gone"
                                         : " do not answer: stopped, or their hosts are gone"));
  }
}

void add_channel(std::vector<std::string>& parts,
                 const std::vector<Member>& members,
                 bool all_answered) {
  const RankState& top = furthest(members);
  add_behind(parts, members, top.entered, operation_name_at(top));
  add_waiting(parts, members, top.entered, operation_name_at(top), all_answered);
}

// A program knows its communicators by their ranks, not by their numbers.
void add_ranks_of(std::vector<std::string>& parts,
                  const ChannelKey& channel,
                  const Channels& channels) {
  if (channel.communicator == 0) {
    return;
  }
  std::set<uint32_t> ranks;
  for (const auto& [other, members] : channels) {
    if (other.communicator_id == channel.communicator_id &&
        other.communicator == channel.communicator) {
      for (const Member& member : members) {
        ranks.insert(member.rank());
      }
    }
  }
  parts.push_back("communicator " + std::to_string(channel.communicator) + " is of " +
                  rank_list(std::vector<uint32_t>(ranks.begin(), ranks.end())) + " of the job");
}

}  // namespace

std::string stall_text(std::span<const RankAnswer> answers,
                       std::span<const std::string> rank_names,
                       const FailureReport& first) {
  std::vector<std::string> parts;
  add_silent(parts, answers, rank_names);
  if (const std::optional<ChannelKey> channel = stalled_channel(answers, first)) {
    const Channels channels = all_channels(answers);
    const ChannelKey root = likely_root(*channel, channels);
    const bool all_answered =
        std::ranges::all_of(answers, [](const RankAnswer& answer) { return answer.answered; });
    add_channel(parts, channels.at(root), all_answered);
    if (root != *channel) {
      const std::vector<Member>& members = channels.at(*channel);
      const RankState& top = furthest(members);
      std::vector<std::string> victims;
      add_behind(victims, members, top.entered, operation_name_at(top));
      for (const std::string& victim : victims) {
        parts.push_back("because of that, " + victim);
      }
    }
    add_ranks_of(parts, root, channels);
    if (!(root.communicator_id == channel->communicator_id &&
          root.communicator == channel->communicator)) {
      add_ranks_of(parts, *channel, channels);
    }
  } else {
    parts.emplace_back("no rank that answers is inside an operation any more");
  }
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

// What a rank is in is the one after those that it has completed: where two have completed equally
// many, they must be in the same.
std::optional<std::string> different_calls_text(std::span<const RankAnswer> answers,
                                                const FailureReport& first) {
  const std::optional<ChannelKey> channel = stalled_channel(answers, first);
  if (!channel.has_value()) {
    return std::nullopt;
  }
  std::map<uint32_t, std::map<std::string, std::vector<uint32_t>>> by_number;
  const Channels channels = all_channels(answers);
  for (const Member& member : channels.at(*channel)) {
    if (inside(*member.state) && !member.state->operation.empty()) {
      by_number[member.state->completed + 1][member.state->operation].push_back(member.rank());
    }
  }
  const auto differing =
      std::ranges::find_if(by_number, [](const auto& each) { return each.second.size() > 1; });
  if (differing == by_number.end()) {
    return std::nullopt;
  }
  // The odd ones first.
  std::vector<std::pair<std::vector<uint32_t>, std::string>> calls;
  for (const auto& [operation, ranks] : differing->second) {
    calls.emplace_back(ranks, operation);
  }
  std::ranges::stable_sort(
      calls, [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::string text;
  for (const auto& [ranks, operation] : calls) {
    text += (text.empty() ? "" : ", ") + rank_list(ranks) +
            (!text.empty()       ? " in "
             : ranks.size() == 1 ? " is in "
                                 : " are in ") +
            operation + " #" + std::to_string(differing->first);
  }
  text +=
      channel->communicator == 0 ? "" : " of communicator " + std::to_string(channel->communicator);
  return text + "; all ranks must make the same calls in the same order";
}

}  // namespace ho
