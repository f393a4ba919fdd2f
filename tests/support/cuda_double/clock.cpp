#include "clock.hpp"

#include <algorithm>
#include <cstring>

namespace ho::cuda_double {

uint64_t Clock::at(uint64_t component) const {
  const auto found =
      std::ranges::lower_bound(steps_, component, {}, [](const auto& step) { return step.first; });
  return found != steps_.end() && found->first == component ? found->second : 0;
}

void Clock::set(uint64_t component, uint64_t step) {
  const auto found =
      std::ranges::lower_bound(steps_, component, {}, [](const auto& each) { return each.first; });
  if (found != steps_.end() && found->first == component) {
    found->second = step;
  } else {
    steps_.insert(found, {component, step});
  }
}

void Clock::join(const Clock& other) {
  std::vector<std::pair<uint64_t, uint64_t>> joined;
  joined.reserve(steps_.size() + other.steps_.size());
  auto mine = steps_.begin();
  auto theirs = other.steps_.begin();
  while (mine != steps_.end() || theirs != other.steps_.end()) {
    if (theirs == other.steps_.end() || (mine != steps_.end() && mine->first < theirs->first)) {
      joined.push_back(*mine++);
    } else if (mine == steps_.end() || theirs->first < mine->first) {
      joined.push_back(*theirs++);
    } else {
      joined.emplace_back(mine->first, std::max(mine->second, theirs->second));
      ++mine;
      ++theirs;
    }
  }
  steps_ = std::move(joined);
}

std::vector<std::byte> Clock::packed() const {
  std::vector<std::byte> bytes(steps_.size() * 16);
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::memcpy(&bytes[i * 16], &steps_[i].first, 8);
    std::memcpy(&bytes[i * 16 + 8], &steps_[i].second, 8);
  }
  return bytes;
}

std::optional<Clock> Clock::unpacked(std::span<const std::byte> bytes) {
  if (bytes.size() % 16 != 0) {
    return std::nullopt;
  }
  Clock clock;
  for (size_t i = 0; i < bytes.size(); i += 16) {
    uint64_t component = 0;
    uint64_t step = 0;
    std::memcpy(&component, &bytes[i], 8);
    std::memcpy(&step, &bytes[i + 8], 8);
    clock.set(component, step);
  }
  return clock;
}

std::optional<std::string> AccessHistory::add(const Step& step,
                                              size_t begin,
                                              size_t end,
                                              bool writes) {
  for (const Access& access : accesses_) {
    const bool overlaps = access.begin < end && begin < access.end;
    const bool conflicts = writes || access.writes;
    if (overlaps && conflicts && step.clock.at(access.component) < access.number) {
      return *access.what + (access.writes ? ", which writes it" : ", which reads it");
    }
  }
  replace(step, begin, end, writes);
  return std::nullopt;
}

std::optional<std::string> AccessHistory::unknown_to(const Clock& clock) const {
  for (const Access& access : accesses_) {
    if (clock.at(access.component) < access.number) {
      return *access.what;
    }
  }
  return std::nullopt;
}

// Whatever comes after a write comes after all that the write comes after, and so for two reads by
// one component: what is covered need not be kept.
void AccessHistory::replace(const Step& step, size_t begin, size_t end, bool writes) {
  std::vector<Access> kept;
  kept.reserve(accesses_.size() + 2);
  for (const Access& access : accesses_) {
    const bool overlaps = access.begin < end && begin < access.end;
    const bool covered = writes || (!access.writes && access.component == step.component);
    if (!overlaps || !covered) {
      kept.push_back(access);
      continue;
    }
    if (access.begin < begin) {
      kept.push_back(access);
      kept.back().end = begin;
    }
    if (access.end > end) {
      kept.push_back(access);
      kept.back().begin = end;
    }
  }
  kept.push_back({begin, end, step.component, step.number, writes, step.what});
  accesses_ = std::move(kept);
}

}  // namespace ho::cuda_double
