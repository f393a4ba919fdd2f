// Rank cards as bytes. Cards come from peers: every length and count is checked before it is used,
// text is printable, and nothing may follow the card.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "topo/rank_card.hpp"

namespace ho {

inline constexpr size_t kMaxCardTextBytes = 255;
inline constexpr size_t kMaxCardNics = 64;  // taken; as many again dropped
inline constexpr size_t kMaxCardAddresses = 8;
inline constexpr size_t kMaxCardSettings = 64;

// An error where the card is over one of the limits; what make_rank_card makes never is.
[[nodiscard]] Result<std::vector<std::byte>> encode_rank_card(const RankCard& card);
// kProtocol errors that name the field and its offset.
[[nodiscard]] Result<RankCard> parse_rank_card(std::span<const std::byte> bytes);

}  // namespace ho
