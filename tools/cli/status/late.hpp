// Which rank enters its collectives last. Pure.
//
// Of each call that all ranks have completed, a rank knows for how long it was in it. No rank
// leaves before all have entered, and all leave at about the same time: so who has been in it for
// the shortest time has entered last. With d(k, r) that time of rank r in call k, and m(k) the
// middle one of all ranks (the upper one of two), rank r is late by the median over all k of
// m(k) - d(k, r). Clocks are not compared: those of hosts differ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ho {

// The last calls of one rank in one communicator.
struct RecentCalls {
  uint32_t rank = 0;       // of the job
  std::string key = {};    // of the communicator: all its members have it
  std::string where = {};  // " in ..", or "": the whole job
  std::map<std::pair<uint32_t, uint64_t>, int64_t> ns = {};  // by channel and number
};

struct Lateness {
  std::string key;
  std::string where;
  size_t calls = 0;                        // that all have completed
  double call_s = 0;                       // the median of m(k)
  std::map<uint32_t, double> late_s = {};  // by rank; below 0: it comes earlier
  uint32_t last = 0;                       // the latest
  // It is more than how calls differ anyway.
  [[nodiscard]] bool tells() const { return late_s.at(last) >= kMinPart * call_s; }

  static constexpr double kMinPart = 0.1;
  static constexpr size_t kMinCalls = 8;
};

// By communicator, of those in which at least two ranks have so many calls in common.
[[nodiscard]] std::vector<Lateness> lateness_of(const std::vector<RecentCalls>& all);

}  // namespace ho
