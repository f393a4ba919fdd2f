// Rank info as bytes. Infos arrive from peers: every length and count is checked before it is used,
// text is printable, and nothing may follow the info.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "topo/rank_info.hpp"

namespace ho {

inline constexpr size_t kMaxRankTextBytes = 255;
inline constexpr size_t kMaxRankNics = 64;  // taken; as many again dropped
inline constexpr size_t kMaxRankAddresses = 8;
inline constexpr size_t kMaxRankSettings = 64;

// An error where the info is over one of the limits; what make_rank_info makes never is.
[[nodiscard]] Result<std::vector<std::byte>> encode_rank_info(const RankInfo& info);
// kProtocol errors that name the field and its offset.
[[nodiscard]] Result<RankInfo> parse_rank_info(std::span<const std::byte> bytes);

}  // namespace ho
