#include "transport/tcp/striping.hpp"

#include <algorithm>
#include <numeric>

namespace ho::tcp {

// Each connection earns its weight per message; the one that has most pays for all.
Striping::Striping(std::span<const uint8_t> weights) {
  const uint32_t divisor =
      std::accumulate(weights.begin(), weights.end(), 0U, std::gcd<uint32_t, uint32_t>);
  std::vector<int32_t> share(weights.size());
  std::ranges::transform(weights, share.begin(), [&](uint8_t weight) {
    return static_cast<int32_t>(weight / divisor);
  });
  const int32_t sum = std::accumulate(share.begin(), share.end(), 0);
  std::vector<int32_t> earned(weights.size());
  for (int32_t message = 0; message < sum; ++message) {
    for (size_t i = 0; i < earned.size(); ++i) {
      earned[i] += share[i];
    }
    const auto most = std::ranges::max_element(earned);
    *most -= sum;
    order_.push_back(static_cast<uint8_t>(most - earned.begin()));
  }
}

}  // namespace ho::tcp
