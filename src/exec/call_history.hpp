// The calls that this rank has made last, by channel and number, to be compared with that of a rank
// that waits. A rank whose own part is over is in none any more, so what it has ended counts too.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.hpp"
#include "transport/frame.hpp"
#include "transport/transport.hpp"

namespace ho {

class CallHistory {
 public:
  static constexpr size_t kKept = 32;  // of a channel

  void add(uint8_t channel, const Frame& call);
  // Not ok: this rank has made another call in the place of the peer's.
  [[nodiscard]] Status compare(uint8_t channel, const Frame& peer) const;
  // This one and those before it, the last `most` of them.
  [[nodiscard]] std::vector<Frame> until(uint8_t channel, uint32_t number, size_t most) const;

 private:
  std::array<std::deque<Frame>, kChannelCount> calls_;
};

}  // namespace ho
