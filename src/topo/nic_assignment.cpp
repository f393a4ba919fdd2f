// A minimum-cost flow from ranks to NICs. The k-th rank on a NIC costs k times a constant that is
// larger than any sum of distances on a path, so the sum grows fastest where NICs are crowded and
// the least sum is the even one; distances decide what is left.
//
// Ranks enter one after the other, each along the cheapest path: straight to a NIC, or to a NIC
// whose rank moves on to another NIC, and so on. Such paths keep the whole assignment optimal,
// which taking the nearest free NIC does not: a rank that is near to all NICs would take the only
// near NIC of a later rank.
#include "topo/nic_assignment.hpp"

#include <cstddef>
#include <limits>

namespace ho {
namespace {

constexpr int64_t kCrowding = int64_t{1} << 32U;
constexpr int64_t kUnreached = std::numeric_limits<int64_t>::max() / 4;
constexpr size_t kNobody = std::numeric_limits<size_t>::max();

struct Visit {
  int64_t cost = kUnreached;
  size_t from_nic = kNobody;  // the rank `mover` leaves this NIC for the visited one
  size_t mover = kNobody;
};

class NicAssignment {
 public:
  explicit NicAssignment(const std::vector<std::vector<int64_t>>& costs)
      : costs_(costs), assigned_(costs.front().size()), nic_of_(costs.size(), kNobody) {}

  void enter(size_t rank) {
    const std::vector<Visit> visits = cheapest_paths(rank);
    size_t best = 0;
    int64_t best_cost = kUnreached;
    for (size_t nic = 0; nic < visits.size(); ++nic) {
      const int64_t cost =
          visits[nic].cost + kCrowding * static_cast<int64_t>(assigned_[nic].size());
      if (cost < best_cost) {
        best_cost = cost;
        best = nic;
      }
    }
    size_t nic = best;
    while (visits[nic].from_nic != kNobody) {
      move(visits[nic].mover, nic);
      nic = visits[nic].from_nic;
    }
    move(rank, nic);
  }

  [[nodiscard]] const std::vector<size_t>& nic_of() const { return nic_of_; }

 private:
  // Bellman-Ford: moving a rank to a nearer NIC has a negative cost.
  [[nodiscard]] std::vector<Visit> cheapest_paths(size_t rank) const {
    std::vector<Visit> visits(assigned_.size());
    for (size_t nic = 0; nic < visits.size(); ++nic) {
      visits[nic].cost = costs_[rank][nic];
    }
    bool changed = true;
    for (size_t round = 0; changed && round < visits.size(); ++round) {
      changed = false;
      for (size_t from = 0; from < visits.size(); ++from) {
        changed = relax_from(from, visits) || changed;
      }
    }
    return visits;
  }

  bool relax_from(size_t from, std::vector<Visit>& visits) const {
    bool changed = false;
    for (const size_t mover : assigned_[from]) {
      for (size_t to = 0; to < visits.size(); ++to) {
        const int64_t cost = visits[from].cost + costs_[mover][to] - costs_[mover][from];
        if (to != from && cost < visits[to].cost) {
          visits[to] = {cost, from, mover};
          changed = true;
        }
      }
    }
    return changed;
  }

  void move(size_t rank, size_t nic) {
    if (nic_of_[rank] != kNobody) {
      std::erase(assigned_[nic_of_[rank]], rank);
    }
    assigned_[nic].push_back(rank);
    nic_of_[rank] = nic;
  }

  const std::vector<std::vector<int64_t>>& costs_;
  std::vector<std::vector<size_t>> assigned_;
  std::vector<size_t> nic_of_;
};

}  // namespace

std::vector<size_t> assign_evenly(const std::vector<std::vector<int64_t>>& costs) {
  if (costs.empty()) {
    return {};
  }
  NicAssignment assignments(costs);
  for (size_t rank = 0; rank < costs.size(); ++rank) {
    assignments.enter(rank);
  }
  return assignments.nic_of();
}

}  // namespace ho
