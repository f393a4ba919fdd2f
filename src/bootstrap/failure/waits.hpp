// Which ranks are inside which operations, from what they have answered: what stall reports follow
// from one communicator to the next. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/failure/failure_aggregator.hpp"

namespace ho {

// Communicators that were split from siblings choose their short numbers apart and may have the
// same one: the communicator id tells them apart.
struct ChannelKey {
  uint64_t communicator_id = 0;
  uint16_t communicator = 0;
  uint8_t channel = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
  friend auto operator<=>(const ChannelKey&, const ChannelKey&) = default;
};

struct Member {
  const RankAnswer* answer = nullptr;  // of the rank, with where else it is
  const RankState* state = nullptr;    // in this channel

  [[nodiscard]] uint32_t rank() const { return answer->rank; }
};

// Who is in each channel. Made once, so that following the waits of thousands of ranks takes one
// look at each state.
using Channels = std::map<ChannelKey, std::vector<Member>>;
[[nodiscard]] Channels all_channels(std::span<const RankAnswer> answers);

[[nodiscard]] ChannelKey channel_of(const RankState& state);
[[nodiscard]] bool same_communicator(const RankState& a, const RankState& b);
[[nodiscard]] bool inside(const RankState& state);
// Whose members count the same, so that some can be behind: not messages between two, nor splits.
[[nodiscard]] bool counts_as_others(const RankState& state);
// "all_gather #1", and with " of communicator 3".
[[nodiscard]] std::string operation_name(const RankState& state, uint32_t number);
[[nodiscard]] std::string operation_name(const RankState& state);
[[nodiscard]] std::string operation_name_at(const RankState& state, uint32_t number);
[[nodiscard]] std::string operation_name_at(const RankState& state);

// The channel that the first report is most likely about.
[[nodiscard]] std::optional<ChannelKey> stalled_channel(std::span<const RankAnswer> answers,
                                                        const FailureReport& first);
// Who has entered most there.
[[nodiscard]] const RankState& furthest(const std::vector<Member>& members);
// Where else the rank is inside an operation, each channel having its own numbers. First in this
// communicator.
[[nodiscard]] std::vector<const RankState*> waits_elsewhere(const Member& member);
// The channel to look at: the first, from this one on along the waits of the ranks that are behind,
// in which a rank is behind that waits nowhere (or, loosely, where nobody can be followed). Nothing
// where there is none: ranks that wait for each other in a circle, or for data that does not come.
[[nodiscard]] std::optional<ChannelKey> root_of(ChannelKey channel,
                                                const Channels& channels,
                                                bool loosely);

}  // namespace ho
