// Over which of a link's connections each message goes. Both ends know the weights of all
// connections before the first message, so no message says it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ho::tcp {

inline constexpr size_t kMaxLinkConnections = 64;
inline constexpr uint8_t kMaxWeight = 16;

class Striping {
 public:
  // Of at least one connection, each weight 0 to kMaxWeight, not all 0: of as many messages as the
  // sum of the weights, each connection takes its weight, spread over them. Equal weights: in turn.
  explicit Striping(std::span<const uint8_t> weights);

  [[nodiscard]] size_t connection_of(uint64_t message) const {
    return order_[message % order_.size()];
  }

 private:
  std::vector<uint8_t> order_;
};

}  // namespace ho::tcp
