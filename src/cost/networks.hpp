// What the links of a network are like where nobody has measured them, each figure with its source.
// Pure.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "cost/cluster.hpp"

namespace ho::cost {

struct Network {
  std::string_view name;  // "nvlink"
  double latency_s;       // of a step of a collective
  double start_s;         // of a collective
  // Of the rate that is printed on a link, by the bytes of a message.
  std::array<LinearTable::Point, 2> shares;
  std::string_view source;
};

// NVLink, PCIe, InfiniBand, RoCE, EFA and TCP. docs/design/cost.md prints them.
[[nodiscard]] std::span<const Network> known_networks();
// Null for a name that is none of them.
[[nodiscard]] const Network* find_network(std::string_view name);

// The level, its times and shares as the network's, and the name of that.
[[nodiscard]] Level with_defaults(Level level, const Network& network);

}  // namespace ho::cost
