#include "exec/call_history.hpp"

namespace ho {

void CallHistory::add(const MadeCall& call) {
  std::deque<MadeCall>& calls = calls_.at(call.channel);
  calls.push_back(call);
  if (calls.size() > kKept) {
    calls.pop_front();
  }
}

Status CallHistory::compare(const MadeCall& peer) const {
  if (peer.channel >= calls_.size()) {
    return {};
  }
  for (const std::deque<MadeCall>& calls : calls_) {
    for (const MadeCall& call : calls) {
      const bool same_position =
          call.channel == peer.channel && call.frame.sequence == peer.frame.sequence;
      const bool same_label = peer.labelled != 0 && call.labelled == peer.labelled;
      if (same_position || same_label) {
        HORING_TRY(check_same_call(call.frame, peer.frame));
      }
    }
  }
  return {};
}

std::vector<MadeCall> CallHistory::until(uint8_t channel, uint32_t number, size_t most) const {
  std::vector<MadeCall> found;
  for (const MadeCall& call : calls_.at(channel)) {
    if (call.frame.sequence <= number && number - call.frame.sequence < most) {
      found.push_back(call);
    }
  }
  return found;
}

}  // namespace ho
