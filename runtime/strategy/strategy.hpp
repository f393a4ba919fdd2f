// A strategy: how widely each of the three model states is sharded. Pure.
//
// n ranks form g groups of m. A state's scope is how many ranks share one copy of it: none (every
// rank holds all of it), the ranks of a group (one copy per group), or all ranks (one copy in the
// world). The optimizer state must be split at least as finely as the parameters and as the
// gradients: the rank that updates a parameter needs its gradient and writes its value. Of 27
// triples 14 remain.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace paro {

// Ordered from wide to fine.
enum class Scope : uint8_t {
  kReplicated = 0,  // N: every rank holds all
  kGroup = 1,       // I: split over the ranks of a group
  kWorld = 2,       // G: split over all ranks
};

[[nodiscard]] char letter(Scope scope);
// "every rank", "split inside the group", "split over all ranks"
[[nodiscard]] std::string_view to_string(Scope scope);

struct Strategy {
  Scope parameters = Scope::kReplicated;
  Scope gradients = Scope::kReplicated;
  Scope optimizer = Scope::kReplicated;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// "NIG"
[[nodiscard]] std::string letters(const Strategy& strategy);

// Ok, or the rule that the triple breaks.
[[nodiscard]] ho::Status check(const Strategy& strategy);

// By letters ("NIG", any case), or by the name of a system that users know ("zero2", "hsdp"; case,
// hyphens and underscores do not matter). An unknown name lists those there are.
[[nodiscard]] ho::Result<Strategy> parse_strategy(std::string_view text);

inline constexpr size_t kStrategyCount = 14;
// Those that check() accepts: parameters from wide to fine, then gradients, then optimizer state.
[[nodiscard]] const std::array<Strategy, kStrategyCount>& all_strategies();

// The systems that do this, or something close: "DDP"; empty where none is known.
[[nodiscard]] std::vector<std::string_view> known_as(const Strategy& strategy);

}  // namespace paro
