// What links that fail over have come to, by the rail that is each one's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace ho {

struct RailUse {
  uint64_t failovers = 0;  // how often they have left it, or come back to it
  uint32_t links = 0;      // that have connections
  double away = 0;         // of them, by the part of their messages that goes over other rails
  uint32_t lost = 0;       // that have none, are waited for, and try for some
  // The part of the messages of all that it carries; nothing: there are none to speak of.
  [[nodiscard]] std::optional<double> own_share() const {
    const uint32_t all = links + lost;
    return all == 0 ? std::nullopt : std::optional((links - away) / all);
  }
  RailUse& operator+=(const RailUse& other) {
    failovers += other.failovers;
    links += other.links;
    away += other.away;
    lost += other.lost;
    return *this;
  }
};

// One thread at a time sets it; any thread reads at any time, without a lock.
class SeenRailUse {
 public:
  void set(const RailUse& use) {
    failovers_.store(use.failovers, std::memory_order_relaxed);
    links_.store(use.links, std::memory_order_relaxed);
    away_.store(use.away, std::memory_order_relaxed);
    lost_.store(use.lost, std::memory_order_relaxed);
  }
  [[nodiscard]] RailUse get() const {
    return {failovers_.load(std::memory_order_relaxed),
            links_.load(std::memory_order_relaxed),
            away_.load(std::memory_order_relaxed),
            lost_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> failovers_ = 0;
  std::atomic<uint32_t> links_ = 0;
  std::atomic<double> away_ = 0;
  std::atomic<uint32_t> lost_ = 0;
};

}  // namespace ho
