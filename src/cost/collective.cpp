#include "cost/collective.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/names.hpp"

namespace ho::cost {
namespace {

// ceil(log2 n), n at least 1.
double doublings(uint64_t n) {
  return static_cast<double>(std::bit_width(n - 1));
}

// The letters of docs/design/cost.md: M ranks in G groups of n, V bytes, in one pass (all-gather,
// reduce-scatter) or two (all-reduce).
class Forms {
 public:
  Forms(const Cluster& cluster, const Members& members, const Call& call)
      : cluster_(cluster),
        members_(members),
        call_(call),
        groups_at_(std::min(call.group_levels, cluster.size())),
        ranks_(static_cast<double>(member_count(members))),
        group_(static_cast<double>(below(groups_at_))),
        passes_(call.collective == Collective::kAllReduce ? 2 : 1) {
    work_.streams = call.message_bytes > 0;
  }

  [[nodiscard]] Work done() {
    const bool reduces_all = call_.collective == Collective::kAllReduce;
    const bool one_root = call_.collective == Collective::kBroadcast;
    switch (call_.algorithm) {
      case Algorithm::kTree:
        tree();
        work_.possible = reduces_all;
        break;
      case Algorithm::kPairs:
        pairs();
        work_.possible = call_.collective == Collective::kAllToAll;
        break;
      case Algorithm::kDirect:
        direct();
        break;
      case Algorithm::kRing:
      case Algorithm::kMultiRing:
        one_root ? rail_broadcast() : flat_rings();
        break;
      case Algorithm::kHierarchical:
      case Algorithm::kHoRing:
        one_root ? rail_broadcast() : two_level();
        break;
    }
    for (LevelWork& level : work_.levels) {
      level.message = work_.streams ? std::min(level.block, call_.message_bytes) : level.block;
    }
    return work_;
  }

 private:
  // Members in each unit that the level joins; units that it and the levels above it join.
  [[nodiscard]] uint64_t below(size_t level) const {
    uint64_t ranks = 1;
    for (size_t at = 0; at < level; ++at) {
      ranks *= members_[at];
    }
    return ranks;
  }
  [[nodiscard]] uint64_t joined(size_t level) const {
    return member_count(members_) / below(level);
  }
  // Of V, what all parts but one are where there are so many.
  [[nodiscard]] double all_but_one(double parts) const { return call_.bytes * (parts - 1) / parts; }

  // A circle from `first` on passes every boundary of a unit once.
  void add_ring_steps(size_t first) {
    size_t inner = kMaxLevels;  // the innermost level that the circle has links of
    size_t next = kMaxLevels;
    for (size_t at = first; at < cluster_.size(); ++at) {
      const auto crossings = [this](size_t level) {
        const uint64_t units = level < cluster_.size() ? joined(level) : 1;
        return units > 1 ? static_cast<double>(units) : 0;
      };
      work_.levels[at].steps = passes_ * (crossings(at) - crossings(at + 1));
      if (members_[at] > 1) {
        (inner == kMaxLevels ? inner : next) = std::min(inner == kMaxLevels ? inner : next, at);
      }
    }
    if (inner == kMaxLevels) {
      return;
    }
    // A block passes all links but one, in two passes all but two beside one another: those that
    // are left out are the cheapest at worst.
    work_.levels[inner].steps -= 1;
    if (passes_ > 1) {
      work_.levels[members_[inner] > 2 || next == kMaxLevels ? inner : next].steps -= 1;
    }
  }

  [[nodiscard]] double rings() const {
    double rings = call_.algorithm == Algorithm::kMultiRing ? ranks_ : 1;
    for (size_t at = 1; at < cluster_.size(); ++at) {
      if (joined(at) > 1) {
        rings = std::min(rings, std::clamp(cluster_[at].nics, 1.0, static_cast<double>(below(at))));
      }
    }
    return rings;
  }

  void flat_rings() {
    add_ring_steps(0);
    for (size_t at = 0; at < cluster_.size(); ++at) {
      LevelWork& level = work_.levels[at];
      level.bytes = level.steps > 0 ? passes_ * all_but_one(ranks_) : 0;
      level.flows = at == 0 ? 1 : rings();
      level.block = call_.bytes / ranks_ / level.flows;
    }
    // Each ring leaves a group from another rank: where all ranks have one, none sends all rings'
    // bytes inside.
    if (ranks_ > group_ && group_ > 1 && rings() == group_) {
      work_.levels[0].bytes *= (group_ - 1) / group_;
    }
  }

  // All members of a group exchange `bytes` of each with each.
  void exchange_inside(double bytes, double LevelWork::*field) {
    for (size_t at = 0; at < groups_at_; ++at) {
      const auto unit = static_cast<double>(below(at));
      work_.levels[at].*field += unit * (static_cast<double>(below(at + 1)) - unit) * bytes;
    }
  }
  void set_steps_inside(double steps, double block) {
    for (size_t at = groups_at_; at-- > 0;) {
      if (members_[at] > 1) {
        work_.levels[at].steps = steps;
        work_.levels[at].block = block;
        return;  // a message inside a group passes one link, at worst of the outermost level
      }
    }
  }

  // HO-Ring, and hierarchical.
  void two_level() {
    work_.turns = call_.algorithm == Algorithm::kHierarchical ? passes_ : 0;
    const double groups = ranks_ / group_;
    const double block = call_.bytes / ranks_;
    add_ring_steps(groups_at_);
    for (size_t at = groups_at_; at < cluster_.size(); ++at) {
      LevelWork& level = work_.levels[at];
      level.bytes = level.steps > 0 ? passes_ * all_but_one(groups) : 0;
      level.flows = group_;
      level.block = block;
    }
    set_steps_inside(passes_, block);
    exchange_inside(passes_ * call_.bytes / group_, &LevelWork::bytes);
    if (groups > 1 && work_.turns == 0) {
      // The first sum of a group is a chain of its members' contributions. Those to the next group
      // are there by then, and one of them is added between any two links of the chain.
      const bool sums_wait = work_.streams && call_.collective != Collective::kAllGather;
      const double last = work_.streams ? std::min(block, call_.message_bytes) : block;
      exchange_inside((passes_ + (sums_wait ? 1 : 0)) * last, &LevelWork::tail);
    }
  }

  // A chain over the groups for every rail, each with its part; the groups' members from them.
  void rail_broadcast() {
    const double block = call_.bytes / group_;
    passes_ = 1;
    add_ring_steps(groups_at_);
    for (size_t at = groups_at_; at < cluster_.size(); ++at) {
      LevelWork& level = work_.levels[at];
      level.bytes = level.steps > 0 ? call_.bytes : 0;
      level.flows = group_;
      level.block = block;
    }
    set_steps_inside(ranks_ > 2 ? 2 : 1, block);
    exchange_inside(2 * block, &LevelWork::bytes);
  }

  // One member leads each group. It gathers from its members, the leaders exchange in rounds in
  // which what they know doubles, and it spreads the result.
  void direct() {
    work_.turns = 1;
    work_.streams = false;
    for (size_t at = groups_at_; at < cluster_.size(); ++at) {
      add_rounds(at);
    }
    double leader = call_.bytes;  // to or from each of its members
    leader += call_.collective == Collective::kReduceScatter ? call_.bytes / ranks_ : 0;
    leader += call_.collective == Collective::kAllReduce ? call_.bytes : 0;
    const bool one_root = call_.collective == Collective::kBroadcast;
    set_steps_inside(one_root ? 1 : 2, call_.bytes);
    for (size_t at = 0; at < groups_at_; ++at) {
      work_.levels[at].bytes = members_[at] > 1 ? (group_ - 1) * leader : 0;
    }
  }

  void add_rounds(size_t at) {
    LevelWork& level = work_.levels[at];
    const auto leaders = static_cast<double>(below(at)) / group_;  // of a unit
    const double outer = at + 1 < cluster_.size() ? doublings(joined(at + 1)) : 0;
    level.steps = doublings(joined(at)) - outer;
    level.flows = leaders;
    if (call_.collective == Collective::kAllReduce) {
      // Leaders beyond a power of two give their sums away and get the result back.
      const bool folds = !std::has_single_bit(joined(groups_at_)) && members_[at] > 1 &&
                         joined(at) == members_[at];
      level.bytes = leaders * level.steps * call_.bytes;
      level.steps += folds ? 1 : 0;
    } else if (call_.collective == Collective::kBroadcast) {
      level.bytes = leaders * level.steps * call_.bytes;
    } else {
      level.bytes = leaders * static_cast<double>(below(at + 1) - below(at)) / ranks_ * call_.bytes;
    }
    level.block = level.steps > 0 ? level.bytes / level.steps / leaders : 0;
  }

  // Of two trees over the groups, each with half of the data, a group is a leaf in one and inside
  // the other: 1/2 V and 3/2 V out. In a group a chain passes sums on, and the result back.
  void tree() {
    for (size_t at = 0; at < cluster_.size(); ++at) {
      LevelWork& level = work_.levels[at];
      const double units = members_[at];
      level.block = call_.bytes / 2;
      if (at < groups_at_) {
        level.steps = 2 * (units - 1);
        level.bytes = units > 2 ? 2 * call_.bytes : (units - 1) * call_.bytes;
      } else {
        level.steps = 2 * doublings(members_[at]);
        level.bytes = units > 1 ? std::min(units / 2, 2.0) * call_.bytes : 0;
        level.flows = std::max(cluster_[at].nics, 1.0);
      }
    }
  }

  // A block for each rank, straight to it. None waits for another, so the outermost link's latency
  // counts alone.
  void pairs() {
    const double block = call_.bytes / ranks_;
    LevelWork* outermost = nullptr;
    for (size_t at = 0; at < cluster_.size(); ++at) {
      if (members_[at] > 1) {
        const auto unit = static_cast<double>(below(at));
        outermost = &work_.levels[at];
        outermost->bytes = unit * (static_cast<double>(below(at + 1)) - unit) * block;
        outermost->flows = unit;
        outermost->block = block;
      }
    }
    if (outermost != nullptr) {
      outermost->steps = 1;
    }
  }

  const Cluster& cluster_;
  const Members& members_;
  const Call& call_;
  size_t groups_at_;  // the first level that joins groups
  double ranks_;
  double group_;
  double passes_;
  Work work_;
};

}  // namespace

std::string_view to_string(Algorithm algorithm) {
  constexpr Names<7> kNames{
      "ring", "multi_ring", "tree", "pairs", "hierarchical", "ho_ring", "direct"};
  return name_in(kNames, algorithm);
}

Algorithm algorithm_of(ho::Algorithm algorithm) {
  switch (algorithm) {
    case ho::Algorithm::kRing:
      return Algorithm::kRing;
    case ho::Algorithm::kMultiRing:
      return Algorithm::kMultiRing;
    case ho::Algorithm::kHierarchical:
      return Algorithm::kHierarchical;
    case ho::Algorithm::kHoRing:
      return Algorithm::kHoRing;
    case ho::Algorithm::kDirect:
      break;
  }
  return Algorithm::kDirect;
}

Work work_of(const Cluster& cluster, const Members& members, const Call& call) {
  return Forms(cluster, members, call).done();
}

double rate_of(const Cluster& cluster,
               const Members& members,
               size_t level,
               const LevelWork& work) {
  const Level& links = cluster[level];
  double sharers = 1;
  double units = 1;
  for (size_t at = 0; at < cluster.size(); ++at) {
    if (at < level) {
      sharers *= double{1} * cluster[at].size / members[at];
    } else {
      units *= members[at];
    }
  }
  const double nics = std::min(work.flows, links.nics / (links.oversubscription * sharers));
  return nics * links.rate * links.share_of_bytes.at(work.message) * links.share_of_units.at(units);
}

double seconds_of(const Cluster& cluster, const Members& members, const Work& work) {
  if (!work.possible) {
    return std::numeric_limits<double>::infinity();
  }
  double start = 0;
  double moving = 0;   // what the busiest links must carry
  double once = 0;     // one message's latency on each level
  double passing = 0;  // what one block must pass, from the first rank to the last
  double rest = 0;     // of that block, once its first message is there
  double tail = 0;
  for (size_t at = 0; at < cluster.size(); ++at) {
    const LevelWork& level = work.levels[at];
    if (members[at] > 1) {
      start = cluster[at].start_s;
    }
    if (level.bytes == 0 && level.steps == 0) {
      continue;
    }
    const double rate = rate_of(cluster, members, at, level);
    const double carried = level.bytes / rate;
    const double latency = level.steps * cluster[at].latency_s;
    tail = std::max(tail, level.tail / rate);
    if (!work.streams) {
      moving = work.turns > 0 ? moving + carried : std::max(moving, carried);
      passing += latency;
      continue;
    }
    const double message = level.message * level.flows / rate;
    const double block_rest = (level.block - level.message) * level.flows / rate;
    const double passed = latency + (level.tail > 0 ? 0 : level.steps * message);
    if (work.turns > 0) {
      moving += std::max(carried + work.turns * cluster[at].latency_s, passed + block_rest);
    } else {
      moving = std::max(moving, carried);
      once += cluster[at].latency_s;
      passing += passed;
      rest = std::max(rest, block_rest);
    }
  }
  if (!work.streams) {
    return start + moving + passing + tail;
  }
  return start + std::max(moving + once, passing + rest) + tail;
}

double seconds_of(const Cluster& cluster, const Members& members, const Call& call) {
  return seconds_of(cluster, members, work_of(cluster, members, call));
}

}  // namespace ho::cost
