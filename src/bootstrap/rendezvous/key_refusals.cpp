#include "bootstrap/rendezvous/key_refusals.hpp"

#include <algorithm>

namespace ho {

// Not by the address: one process may come from each of its host's.
KeyRefusals::Kind KeyRefusals::note(const wire::RankClaim& who, const std::string& text) {
  if (who.rank >= refused_.size()) {
    return Kind::kStranger;
  }
  refused_[who.rank] = true;
  const bool full = kept_.size() >= kMaxRanks && !kept_.contains(who.rank);
  if (full) {
    return Kind::kStranger;
  }
  OfRank& of_rank = kept_[who.rank];
  const bool again = std::ranges::any_of(of_rank.callers, [&](const Caller& caller) {
    return caller.pid == who.pid && caller.host == who.host;
  });
  if (again) {
    return Kind::kAgain;
  }
  const bool crowded = of_rank.callers.size() >= kMaxCallersPerRank;
  if (crowded) {
    // The first and the last are kept: the rank itself may come before strangers, or after them.
    of_rank.callers.erase(of_rank.callers.begin() + kMaxCallersPerRank / 2);
    ++of_rank.left_out;
  }
  of_rank.callers.push_back({who.host, who.pid, text});
  return crowded ? Kind::kStranger : Kind::kNew;
}

bool KeyRefusals::was_refused(uint32_t rank) const {
  return rank < refused_.size() && refused_[rank];
}

std::vector<std::string> KeyRefusals::texts(std::span<const uint32_t> ranks) const {
  std::vector<std::string> texts;
  uint64_t left_out = 0;
  for (size_t nth = 0; nth < kMaxCallersPerRank; ++nth) {
    for (const uint32_t rank : ranks) {
      const auto endpoint = kept_.find(rank);
      if (endpoint == kept_.end()) {
        continue;
      }
      left_out += nth == 0 ? endpoint->second.left_out : 0;
      if (nth >= endpoint->second.callers.size()) {
        continue;
      }
      if (texts.size() < kMaxTexts) {
        texts.push_back(endpoint->second.callers[nth].text);
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) {
    texts.push_back(std::to_string(left_out) + " more came as these ranks and were refused");
  }
  return texts;
}

}  // namespace ho
