#include "topo/rail_choice.hpp"

#include <algorithm>
#include <map>

namespace ho {
namespace {

// More rails must bring at least this much.
constexpr double kWorthwhile = 1.01;

// slowest[r - 1]: what the slowest of the group's first r rails carries, in Mbit/s, or what it was
// before where that is less. One more rail can only make the NIC slower that it takes.
void lower_to_group(const std::vector<RailNic>& nics, std::vector<double>& slowest) {
  std::map<size_t, uint32_t> sharers;
  double least = static_cast<double>(kRailMbit);
  for (size_t k = 0; k < slowest.size(); ++k) {
    const uint64_t speed = nics[k].speed_mbit == 0 ? kRailMbit : nics[k].speed_mbit;
    least = std::min(least, static_cast<double>(speed) / ++sharers[nics[k].nic]);
    slowest[k] = std::min(slowest[k], least);
  }
}

}  // namespace

std::vector<size_t> deal_nics(const std::vector<RailNic>& nics) {
  std::map<size_t, uint32_t> dealt;
  std::vector<uint32_t> round;
  std::vector<size_t> order;
  for (size_t k = 0; k < nics.size(); ++k) {
    round.push_back(dealt[nics[k].nic]++);
    order.push_back(k);
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return round[a] < round[b]; });
  return order;
}

uint32_t choose_rail_count(const std::vector<std::vector<RailNic>>& groups, uint32_t wanted) {
  const auto smallest = std::ranges::min_element(
      groups, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const auto most = static_cast<uint32_t>(smallest->size());
  if (wanted > 0 || groups.size() == 1) {
    return wanted == 0 ? most : std::min(wanted, most);
  }
  std::vector<double> slowest(most, static_cast<double>(kRailMbit));
  for (const auto& nics : groups) {
    lower_to_group(nics, slowest);
  }
  uint32_t best = 1;
  double best_rate = 0;
  for (uint32_t rails = 1; rails <= most; ++rails) {
    const double rate = slowest[rails - 1] * rails;
    if (rate > best_rate * kWorthwhile) {
      best = rails;
      best_rate = rate;
    }
  }
  return best;
}

}  // namespace ho
