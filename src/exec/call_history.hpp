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

// Of one rank, as others compare it with theirs.
struct MadeCall {
  uint8_t channel = 0;
  uint32_t labelled = 0;  // its number among those with a label, from 1; 0: it has none
  Frame frame;
};

class CallHistory {
 public:
  static constexpr size_t kKept = 32;  // of a channel

  void add(const MadeCall& call);
  // Not ok: this rank has made another call in the place of the peer's, in its channel or among
  // those with a label.
  [[nodiscard]] Status compare(const MadeCall& peer) const;
  // This one and those before it, the last `most` of them.
  [[nodiscard]] std::vector<MadeCall> until(uint8_t channel, uint32_t number, size_t most) const;

 private:
  std::array<std::deque<MadeCall>, kChannelCount> calls_;
};

}  // namespace ho
