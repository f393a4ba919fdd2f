#include "exec/call_history.hpp"

#include <algorithm>

namespace ho {

void CallHistory::add(uint8_t channel, const Frame& call) {
  std::deque<Frame>& calls = calls_.at(channel);
  calls.push_back(call);
  if (calls.size() > kKept) {
    calls.pop_front();
  }
}

Status CallHistory::compare(uint8_t channel, const Frame& peer) const {
  if (channel >= calls_.size()) {
    return {};
  }
  const std::deque<Frame>& calls = calls_.at(channel);
  const auto own = std::find_if(calls.begin(), calls.end(), [&](const Frame& call) {
    return call.sequence == peer.sequence;
  });
  return own == calls.end() ? Status() : check_same_call(*own, peer);
}

std::vector<Frame> CallHistory::until(uint8_t channel, uint32_t number, size_t most) const {
  std::vector<Frame> found;
  for (const Frame& call : calls_.at(channel)) {
    if (call.sequence <= number && number - call.sequence < most) {
      found.push_back(call);
    }
  }
  return found;
}

}  // namespace ho
