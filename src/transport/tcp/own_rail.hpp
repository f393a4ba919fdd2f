// What one link is in the counts of its own rail (RailUse): one that has connections, one that is
// waited for and has none, or neither. Pure.
#pragma once

#include <cmath>
#include <optional>

#include "transport/transport.hpp"

namespace ho::tcp {

class OwnRail {
 public:
  // use: outlives this.
  explicit OwnRail(RailUse& use) : use_(use) {}
  ~OwnRail() { on_none(false); }
  OwnRail(const OwnRail&) = delete;
  OwnRail& operator=(const OwnRail&) = delete;

  // It has connections, of which that part of its messages goes over other rails.
  void on_connections(double away) {
    on_none(false);
    counted_away_ = std::round(away * kExact) / kExact;
    ++use_.links;
    use_.away += *counted_away_;
  }
  // It has none.
  void on_none(bool waited_for) {
    if (counted_away_) {
      --use_.links;
      use_.away = use_.links == 0 ? 0 : use_.away - *counted_away_;
      counted_away_.reset();
    }
    if (waited_for != counted_lost_) {
      counted_lost_ = waited_for;
      waited_for ? ++use_.lost : --use_.lost;
    }
  }
  void count_failover() { ++use_.failovers; }

 private:
  // In steps of a power of two, so that what is added and taken away again leaves nothing behind.
  static constexpr double kExact = 0x1p40;

  RailUse& use_;
  std::optional<double> counted_away_;
  bool counted_lost_ = false;
};

}  // namespace ho::tcp
