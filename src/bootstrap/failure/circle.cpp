// Ranks that wait for each other in a circle.
//
// An operation waits for the ranks that have not entered it. Such a rank never will where all of
// its threads that call are held in operations that never end. A rank of which one is not held (it
// computes, or has only begun a request) may enter it any time, and so may one that waits for a
// message, of which is not known who sends it. So a circle is proved by leaving out what goes on:
// first all held ranks count as stuck; one that is held in an operation which no stuck rank keeps
// open is not, and this is repeated until nothing changes. What is left waits for nobody else.
#include <algorithm>
#include <map>
#include <utility>

#include "bootstrap/failure/failure_aggregator.hpp"
#include "bootstrap/failure/waits.hpp"

namespace ho {
namespace {

// A rank that is held in an operation, by its number.
struct Wait {
  Member member;
  uint32_t number = 0;

  [[nodiscard]] ChannelKey channel() const { return channel_of(*member.state); }
  [[nodiscard]] bool same_operation(const Wait& other) const {
    return channel() == other.channel() && number == other.number;
  }
};
using StuckRanks = std::map<const RankAnswer*, std::vector<Wait>>;

// Those that do nothing until operations end for which certain ranks must come.
StuckRanks held_ranks(const Channels& channels) {
  StuckRanks held;
  std::vector<const RankAnswer*> unknown;
  for (const auto& [channel, members] : channels) {
    for (const Member& member : members) {
      const uint32_t number = std::min(member.state->held, member.state->entered);
      if (number <= member.state->completed) {
        continue;
      }
      held[member.answer].push_back({member, number});
      if (!counts_as_others(*member.state)) {
        unknown.push_back(member.answer);
      }
    }
  }
  for (const RankAnswer* answer : unknown) {
    held.erase(answer);
  }
  return held;
}

// How far the rank that is furthest behind has come in each channel, of the stuck ones.
std::map<ChannelKey, uint32_t> least_entered(const StuckRanks& stuck) {
  std::map<ChannelKey, uint32_t> least;
  for (const auto& [answer, waits] : stuck) {
    for (const RankState& state : answer->states) {
      const auto [entry, is_new] = least.try_emplace(channel_of(state), state.entered);
      entry->second = std::min(entry->second, state.entered);
    }
  }
  return least;
}

StuckRanks stuck_ranks(const Channels& channels) {
  // Each pass takes out the ranks before those of the last one. Chains of waits that are longer are
  // left as no circle, lest thousands of ranks keep the coordinator busy.
  constexpr int kMaxPasses = 256;
  StuckRanks stuck = held_ranks(channels);
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    const auto least = least_entered(stuck);
    const size_t removed = std::erase_if(stuck, [&least](const auto& rank) {
      return std::ranges::any_of(rank.second, [&least](const Wait& wait) {
        return least.at(wait.channel()) >= wait.number;
      });
    });
    if (removed == 0) {
      return stuck;
    }
  }
  return {};
}

// The stuck rank that has not entered what the wait is in, with what it waits in itself; a wait
// that the chain has already, where there is one. Nothing: no such rank.
const Wait* next_wait(const std::vector<Wait>& chain,
                      const Channels& channels,
                      const StuckRanks& stuck) {
  const Wait& last = chain.back();
  for (const Member& behind : channels.at(last.channel())) {
    const auto held = stuck.find(behind.answer);
    if (behind.state->entered >= last.number || held == stuck.end()) {
      continue;
    }
    const auto& waits = held->second;
    const auto closing = std::ranges::find_if(waits, [&chain](const Wait& wait) {
      return std::ranges::any_of(chain,
                                 [&wait](const Wait& each) { return each.same_operation(wait); });
    });
    return closing == waits.end() ? &waits.front() : &*closing;
  }
  return nullptr;
}

std::string circle_text(const std::vector<Wait>& chain) {
  constexpr size_t kMaxWaits = 8;
  std::string text = "ranks wait for each other in a circle: ";
  for (size_t i = 0; i < std::min(chain.size(), kMaxWaits); ++i) {
    const Wait& awaited = chain[(i + 1) % chain.size()];
    text += (i == 0 ? "rank " : "; rank ") + std::to_string(chain[i].member.rank()) + " is in " +
            operation_name_at(*chain[i].member.state, chain[i].number) + ", which rank " +
            std::to_string(awaited.member.rank()) + " has not entered";
  }
  if (chain.size() > kMaxWaits) {
    text += "; and " + std::to_string(chain.size() - kMaxWaits) + " more waits";
  }
  return text +
         "; all ranks must call what waits for others in the same order, over all communicators";
}

Circle circle_of(const std::vector<Wait>& chain) {
  Circle circle{.text = circle_text(chain), .communicators = {}};
  for (const Wait& wait : chain) {
    if (wait.member.state->communicator_id != 0) {
      circle.communicators.push_back(wait.member.state->communicator_id);
    }
  }
  return circle;
}

}  // namespace

std::optional<Circle> find_circle(std::span<const RankAnswer> answers, const FailureReport& first) {
  const std::optional<ChannelKey> channel = stalled_channel(answers, first);
  if (!channel.has_value() || channel->communicator_id != first.communicator) {
    return std::nullopt;
  }
  const Channels channels = all_channels(answers);
  const RankState& late = furthest(channels.at(*channel));
  if (!counts_as_others(late) || root_of(*channel, channels, false).has_value()) {
    return std::nullopt;
  }
  const std::vector<Member>& members = channels.at(*channel);
  const Member start = *std::ranges::max_element(members, [](const Member& a, const Member& b) {
    return std::pair(inside(*a.state), a.state->entered) <
           std::pair(inside(*b.state), b.state->entered);
  });
  const StuckRanks stuck = stuck_ranks(channels);
  std::vector<Wait> chain{{start, start.state->entered}};
  while (const Wait* next = next_wait(chain, channels, stuck)) {
    const auto repeated = std::ranges::find_if(
        chain, [next](const Wait& wait) { return wait.same_operation(*next); });
    if (repeated != chain.end()) {
      *repeated = *next;  // who waits there as well, and closes the circle
      chain.erase(chain.begin(), repeated);
      return circle_of(chain);
    }
    chain.push_back(*next);
  }
  return std::nullopt;
}

}  // namespace ho
