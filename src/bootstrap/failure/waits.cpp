#include "bootstrap/failure/waits.hpp"

#include <algorithm>
#include <tuple>

namespace ho {

ChannelKey channel_of(const RankState& state) {
  return {state.communicator_id, state.communicator, state.channel};
}

bool same_communicator(const RankState& a, const RankState& b) {
  return a.communicator_id == b.communicator_id && a.communicator == b.communicator;
}

bool inside(const RankState& state) {
  return state.entered > state.completed;
}

bool counts_as_others(const RankState& state) {
  return state.channel != kCallChannel && state.operation != "send/recv";
}

std::string operation_name(const RankState& state, uint32_t number) {
  return (state.operation.empty() ? std::string("operation") : state.operation) + " #" +
         std::to_string(number);
}

std::string operation_name(const RankState& state) {
  return operation_name(state, state.entered);
}

std::string operation_name_at(const RankState& state, uint32_t number) {
  if (!state.other_job.empty()) {
    return operation_name(state, number) + " of " + state.other_job;
  }
  return operation_name(state, number) +
         (state.communicator == 0 ? "" : " of communicator " + std::to_string(state.communicator));
}

std::string operation_name_at(const RankState& state) {
  return operation_name_at(state, state.entered);
}

namespace {

// How near to the first report, nearest first: what it talks about, else the reporter's, else
// anybody's; each of the communicator that the report is of, where that is known.
int distance(const RankAnswer& answer, const RankState& state, const FailureReport& first) {
  const bool own = answer.rank == first.reporter.value();
  const bool named = first.text.find(operation_name(state)) != std::string::npos;
  return (state.communicator_id == first.communicator ? 0 : 3) + (own && named ? 0 : own ? 1 : 2);
}

}  // namespace

std::optional<ChannelKey> stalled_channel(std::span<const RankAnswer> answers,
                                          const FailureReport& first) {
  std::optional<std::tuple<int, ChannelKey>> best;
  for (const RankAnswer& answer : answers) {
    for (const RankState& state : answer.states) {
      if (!inside(state) || state.channel == kCallChannel || !state.other_job.empty()) {
        continue;
      }
      const int away = distance(answer, state, first);
      if (!best.has_value() || away < std::get<0>(*best)) {
        best = {away, channel_of(state)};
      }
    }
  }
  return best.has_value() ? std::optional(std::get<1>(*best)) : std::nullopt;
}

Channels all_channels(std::span<const RankAnswer> answers) {
  Channels channels;
  for (const RankAnswer& answer : answers) {
    for (const RankState& state : answer.states) {
      std::vector<Member>& members = channels[channel_of(state)];
      if (members.empty() || members.back().answer != &answer) {
        members.push_back({&answer, &state});
      }
    }
  }
  return channels;
}

const RankState& furthest(const std::vector<Member>& members) {
  const auto ahead = std::ranges::max_element(members, [](const Member& a, const Member& b) {
    // Of equals, one that still knows the operation's name.
    return std::pair(a.state->entered, !a.state->operation.empty()) <
           std::pair(b.state->entered, !b.state->operation.empty());
  });
  return *ahead->state;
}

std::vector<const RankState*> waits_elsewhere(const Member& member) {
  std::vector<const RankState*> waits;
  for (const RankState& state : member.answer->states) {
    if (channel_of(state) != channel_of(*member.state) && inside(state)) {
      waits.push_back(&state);
    }
  }
  std::stable_partition(waits.begin(), waits.end(), [&](const RankState* state) {
    return same_communicator(*state, *member.state);
  });
  return waits;
}

namespace {

std::optional<ChannelKey> follow_to_root(ChannelKey channel,
                                         const Channels& channels,
                                         bool loosely,
                                         std::set<ChannelKey>& seen) {
  if (!seen.insert(channel).second) {
    return std::nullopt;
  }
  const std::vector<Member>& members = channels.at(channel);
  const uint32_t top = furthest(members).entered;
  std::vector<ChannelKey> onward;
  for (const Member& member : members) {
    if (member.state->entered >= top || inside(*member.state)) {
      continue;
    }
    const auto waits = waits_elsewhere(member);
    const auto followed = onward.size();
    for (const RankState* state : waits) {
      if (counts_as_others(*state)) {
        onward.push_back(channel_of(*state));
      }
    }
    if (waits.empty() || (loosely && onward.size() == followed)) {
      return channel;
    }
  }
  for (const ChannelKey& next : onward) {
    if (const auto root = follow_to_root(next, channels, loosely, seen)) {
      return root;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ChannelKey> root_of(ChannelKey channel, const Channels& channels, bool loosely) {
  std::set<ChannelKey> seen;
  return follow_to_root(channel, channels, loosely, seen);
}

}  // namespace ho
