#include "topo/rail_choice.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace ho {
namespace {

// More rails must bring at least this much.
constexpr double kWorthwhile = 1.01;

// What the slowest of a group's first `rails` rails carries, in Mbit/s.
double slowest_rail(const std::vector<RailSeat>& seats, uint32_t rails) {
  std::map<size_t, uint32_t> sharers;
  for (uint32_t k = 0; k < rails; ++k) {
    ++sharers[seats[k].nic];
  }
  double slowest = std::numeric_limits<double>::max();
  for (uint32_t k = 0; k < rails; ++k) {
    const uint64_t speed = seats[k].speed_mbit == 0 ? kRailMbit : seats[k].speed_mbit;
    const double share = static_cast<double>(speed) / sharers[seats[k].nic];
    slowest = std::min({slowest, share, static_cast<double>(kRailMbit)});
  }
  return slowest;
}

}  // namespace

std::vector<size_t> deal_nics(const std::vector<RailSeat>& seats) {
  std::map<size_t, uint32_t> dealt;
  std::vector<uint32_t> round;
  std::vector<size_t> order;
  for (size_t k = 0; k < seats.size(); ++k) {
    round.push_back(dealt[seats[k].nic]++);
    order.push_back(k);
  }
  std::stable_sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return round[a] < round[b]; });
  return order;
}

uint32_t choose_rail_count(const std::vector<std::vector<RailSeat>>& groups, uint32_t wanted) {
  const auto smallest =
      std::min_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
        return a.size() < b.size();
      });
  const auto most = static_cast<uint32_t>(smallest->size());
  if (wanted > 0 || groups.size() == 1) {
    return wanted == 0 ? most : std::min(wanted, most);
  }
  uint32_t best = 1;
  double best_rate = 0;
  for (uint32_t rails = 1; rails <= most; ++rails) {
    double slowest = std::numeric_limits<double>::max();
    for (const auto& seats : groups) {
      slowest = std::min(slowest, slowest_rail(seats, rails));
    }
    if (slowest * rails > best_rate * kWorthwhile) {
      best = rails;
      best_rate = slowest * rails;
    }
  }
  return best;
}

}  // namespace ho
