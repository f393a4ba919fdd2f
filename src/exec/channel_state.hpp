// Where a channel of this rank is; the communicator makes the stall report's RankState from it.
#pragma once

#include <cstdint>
#include <string>

namespace ho {

struct ChannelState {
  uint8_t channel = 0;
  uint32_t entered = 0;
  uint32_t completed = 0;
  std::string operation;
  std::string waiting;
  uint32_t held = 0;  // the first operation that a thread waits for without a limit; 0: none
};

}  // namespace ho
