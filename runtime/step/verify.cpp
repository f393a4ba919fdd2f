#include "step/verify.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "step/participants.hpp"

namespace paro {
namespace {

using ho::GlobalRank;

constexpr int32_t kAbsent = -1;

// Share q * s + k of a gradient: rank q's in micro-batch k. How often it is in.
using Shares = std::vector<uint8_t>;

// What every rank holds of one flat buffer, atom by atom: elements that no scope separates.
class Symbols {
 public:
  Symbols(const Partition& partition, uint32_t ranks) : ranks_(ranks) {
    for (const Segment& segment : partition.segments()) {
      for (const Range& part : segment.parts) {
        if (part.count() > 0) {
          atoms_.push_back(part);
        }
      }
    }
    for (size_t scope = 0; scope < owns_.size(); ++scope) {
      owns_[scope].resize(ranks_);
      for (uint32_t r = 0; r < ranks_; ++r) {
        const auto& owned = partition.owned(static_cast<Scope>(scope), GlobalRank(r));
        for (const Range& atom : atoms_) {
          owns_[scope][r].push_back(
              std::any_of(owned.begin(), owned.end(), [&](const Range& range) {
                return range.begin <= atom.begin && atom.end <= range.end;
              }));
        }
      }
    }
    gathered.assign(ranks_, std::vector<int32_t>(atoms_.size(), kAbsent));
    stored = gathered;
    sums.assign(ranks_, std::vector<Shares>(atoms_.size()));
    output = sums;
  }

  [[nodiscard]] size_t count() const { return atoms_.size(); }
  [[nodiscard]] uint32_t ranks() const { return ranks_; }
  [[nodiscard]] bool owns(Scope scope, uint32_t rank, size_t atom) const {
    return owns_[static_cast<size_t>(scope)][rank][atom];
  }
  [[nodiscard]] bool inside(size_t atom, const Range& range) const {
    return range.begin <= atoms_[atom].begin && atoms_[atom].end <= range.end;
  }

  // By rank, then atom. Parameters: how many updates the value has seen.
  std::vector<std::vector<int32_t>> stored;
  std::vector<std::vector<int32_t>> gathered;
  // Gradients: what is accumulated, and what the last backward wrote for a reduction.
  std::vector<std::vector<Shares>> sums;
  std::vector<std::vector<Shares>> output;

 private:
  uint32_t ranks_;
  std::vector<Range> atoms_;
  std::array<std::vector<std::vector<bool>>, 3> owns_;
};

void add(Shares& into, const Shares& from) {
  into.resize(std::max(into.size(), from.size()), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    into[i] = static_cast<uint8_t>(std::min(into[i] + from[i], 255));
  }
}

class Run {
 public:
  Run(const StepPlan& plan, const std::vector<UnitLayout>& layouts, const ho::GroupMap& groups)
      : plan_(plan), layouts_(layouts), groups_(groups) {
    for (const UnitLayout& layout : layouts_) {
      trained_.emplace_back(layout.trained, groups.world_size());
      frozen_.emplace_back(layout.frozen, groups.world_size());
      store(trained_.back(), plan_.shape.strategy.parameters);
      store(frozen_.back(), plan_.shape.frozen);
    }
    uses_.assign(layouts_.size(), 0);
    for (uint32_t u = 0; u < layouts_.size(); ++u) {
      ++uses_[home_of(plan_.shape.units, u)];
    }
  }

  [[nodiscard]] ho::Status steps(int32_t count) {
    for (updates_ = 0; updates_ < count; ++updates_) {
      for (const Action& action : plan_.actions) {
        if (ho::Status status = run(action); !status.ok()) {
          return status.with_context("step plan " + letters(plan_.shape.strategy) + " on " +
                                     groups_.to_string() + ": " + to_string(plan_, action));
        }
      }
    }
    return all_updated();
  }

 private:
  static void store(Symbols& symbols, Scope scope) {
    for (uint32_t r = 0; r < symbols.ranks(); ++r) {
      for (size_t a = 0; a < symbols.count(); ++a) {
        symbols.stored[r][a] = symbols.owns(scope, r, a) ? 0 : kAbsent;
      }
    }
  }

  static ho::Status wrong(const std::string& what) { return {ho::StatusCode::kInternal, what}; }
  static std::string at(uint32_t rank, size_t atom) {
    return "rank " + std::to_string(rank) + ", part " + std::to_string(atom);
  }

  [[nodiscard]] ho::Status run(const Action& action) {
    switch (action.act) {
      case Act::kForward:
      case Act::kBackward:
        return compute(action);
      case Act::kGather:
        return gather(action);
      case Act::kReduceScatter:
      case Act::kAllReduce:
        return reduce(action);
      case Act::kAgree:
        return agree();
      case Act::kUpdate:
        break;
    }
    return update(action);
  }

  [[nodiscard]] ho::Status complete(Symbols& symbols, Scope scope, int32_t updates) const {
    auto& read = scope == Scope::kReplicated ? symbols.stored : symbols.gathered;
    for (uint32_t r = 0; r < symbols.ranks(); ++r) {
      for (size_t a = 0; a < symbols.count(); ++a) {
        if (read[r][a] != updates) {
          return wrong(at(r, a) + (read[r][a] == kAbsent
                                       ? " is not there"
                                       : " has seen " + std::to_string(read[r][a]) +
                                             " updates instead of " + std::to_string(updates)));
        }
      }
    }
    if (scope != Scope::kReplicated) {  // released
      symbols.gathered.assign(symbols.ranks(), std::vector<int32_t>(symbols.count(), kAbsent));
    }
    return {};
  }

  [[nodiscard]] ho::Status compute(const Action& action) {
    const Strategy& strategy = plan_.shape.strategy;
    const uint32_t home = home_of(plan_.shape.units, action.unit);
    Symbols& trained = trained_[home];
    HORING_TRY(complete(trained, strategy.parameters, updates_));
    HORING_TRY(complete(frozen_[home], plan_.shape.frozen, 0));
    if (action.act == Act::kForward) {
      return {};
    }
    const uint32_t micro_batches = plan_.shape.micro_batches;
    for (uint32_t r = 0; r < trained.ranks(); ++r) {
      Shares mine(size_t{trained.ranks()} * micro_batches, 0);
      mine[size_t{r} * micro_batches + action.micro_batch] = 1;
      for (size_t a = 0; a < trained.count(); ++a) {
        if (strategy.gradients == Scope::kReplicated) {
          add(trained.sums[r][a], mine);
        } else {
          trained.output[r][a] = mine;
        }
      }
    }
    return {};
  }

  // Runs `body` on each set of an action's for a unit of its, and each atom in it.
  template <typename Body>
  [[nodiscard]] ho::Status for_each_atom(const Action& action,
                                         uint32_t unit,
                                         const Symbols& symbols,
                                         const Body& body) const {
    for (const Participants& set :
         participants(partition_of(layouts_, action, unit), groups_, action.domain)) {
      for (size_t a = 0; a < symbols.count(); ++a) {
        if (symbols.inside(a, set.range)) {
          HORING_TRY(body(set.members, a));
        }
      }
    }
    return {};
  }

  [[nodiscard]] ho::Status gather(const Action& action) {
    Symbols& symbols = (action.content == Content::kFrozen ? frozen_ : trained_)[action.unit];
    auto& into = action.phase == Phase::kSyncP ? symbols.stored : symbols.gathered;
    const auto before = symbols.stored;
    const auto move = [&](const auto& members, size_t a) -> ho::Status {
      const auto source = std::find_if(members.begin(), members.end(), [&](GlobalRank q) {
        return symbols.owns(action.from, q.value(), a);
      });
      if (source == members.end() || before[source->at()][a] == kAbsent) {
        return wrong("no member of the set holds part " + std::to_string(a));
      }
      for (const GlobalRank rank : members) {
        if (symbols.owns(action.to, rank.value(), a)) {
          into[rank.at()][a] = before[source->at()][a];
        }
      }
      return {};
    };
    return for_each_atom(action, action.unit, symbols, move);
  }

  [[nodiscard]] ho::Status reduce(const Action& action) {
    std::vector<uint32_t> units = units_of(action);
    for (const uint32_t unit : units) {
      HORING_TRY(reduce(action, unit));
    }
    std::sort(units.begin(), units.end());
    const auto twice = std::adjacent_find(units.begin(), units.end());
    return twice == units.end() ? ho::Status()
                                : wrong("unit " + std::to_string(*twice) + " is in it twice");
  }

  [[nodiscard]] ho::Status reduce(const Action& action, uint32_t unit) {
    Symbols& symbols = trained_[unit];
    auto& read = action.phase == Phase::kBackward ? symbols.output : symbols.sums;
    const auto before = read;
    read.assign(symbols.ranks(), std::vector<Shares>(symbols.count()));
    const auto sum_up = [&](const auto& members, size_t a) -> ho::Status {
      Shares sum;
      for (const GlobalRank rank : members) {
        if (!symbols.owns(action.from, rank.value(), a)) {
          return wrong(at(rank.value(), a) + " takes part without holding it");
        }
        add(sum, before[rank.at()][a]);
      }
      for (const GlobalRank rank : members) {
        if (symbols.owns(action.to, rank.value(), a)) {
          add(symbols.sums[rank.at()][a], sum);
        }
      }
      return {};
    };
    return for_each_atom(action, unit, symbols, sum_up);
  }

  // Each rank adds the squares of its world parts.
  [[nodiscard]] ho::Status agree() const {
    const Scope scope = plan_.shape.strategy.optimizer;
    for (const Symbols& symbols : trained_) {
      for (size_t a = 0; a < symbols.count(); ++a) {
        uint32_t copies = 0;
        for (uint32_t r = 0; r < symbols.ranks(); ++r) {
          const bool counts = symbols.owns(Scope::kWorld, r, a);
          copies += counts && symbols.owns(scope, r, a) ? 1U : 0U;
        }
        if (copies != 1) {
          return wrong("part " + std::to_string(a) + " is " + std::to_string(copies) +
                       " times in the norm");
        }
      }
    }
    return {};
  }

  [[nodiscard]] ho::Status update(const Action& action) {
    const Strategy& strategy = plan_.shape.strategy;
    Symbols& symbols = trained_[action.unit];
    const size_t shares = size_t{symbols.ranks()} * plan_.shape.micro_batches;
    for (uint32_t r = 0; r < symbols.ranks(); ++r) {
      for (size_t a = 0; a < symbols.count(); ++a) {
        if (!symbols.owns(strategy.optimizer, r, a)) {
          continue;
        }
        Shares& sum = symbols.sums[r][a];
        sum.resize(shares, 0);
        const uint32_t uses = uses_[action.unit];
        const auto odd = std::find_if(sum.begin(), sum.end(), [&](uint8_t n) { return n != uses; });
        if (odd != sum.end()) {
          const auto share = static_cast<size_t>(odd - sum.begin());
          return wrong(at(r, a) + ": the gradient of rank " +
                       std::to_string(share / plan_.shape.micro_batches) + " in micro-batch " +
                       std::to_string(share % plan_.shape.micro_batches) + " was counted " +
                       std::to_string(*odd) + " times");
        }
        if (symbols.owns(strategy.parameters, r, a)) {
          symbols.stored[r][a] = updates_ + 1;
        }
      }
    }
    symbols.sums.assign(symbols.ranks(), std::vector<Shares>(symbols.count()));
    return {};
  }

  [[nodiscard]] ho::Status all_updated() const {
    for (size_t u = 0; u < trained_.size(); ++u) {
      const Symbols& symbols = trained_[u];
      for (uint32_t r = 0; r < symbols.ranks(); ++r) {
        for (size_t a = 0; a < symbols.count(); ++a) {
          const bool holds = symbols.owns(plan_.shape.strategy.parameters, r, a);
          if (holds && symbols.stored[r][a] != updates_) {
            return wrong("step plan " + letters(plan_.shape.strategy) + " on " +
                         groups_.to_string() + ": unit " + std::to_string(u) + ", " + at(r, a) +
                         " has seen " + std::to_string(symbols.stored[r][a]) + " of " +
                         std::to_string(updates_) + " updates");
          }
        }
      }
    }
    return {};
  }

  const StepPlan& plan_;
  const std::vector<UnitLayout>& layouts_;
  const ho::GroupMap& groups_;
  std::vector<Symbols> trained_;
  std::vector<Symbols> frozen_;
  std::vector<uint32_t> uses_;  // by unit: units that compute with its parameters
  int32_t updates_ = 0;
};

}  // namespace

ho::Status verify(const StepPlan& plan,
                  const std::vector<UnitLayout>& layouts,
                  const ho::GroupMap& groups) {
  if (layouts.size() != plan.shape.units.size()) {
    return ho::invalid("a plan of " + std::to_string(plan.shape.units.size()) +
                       " units and layouts of " + std::to_string(layouts.size()));
  }
  HORING_TRY(Run(plan, layouts, groups).steps(2));
  HORING_TRY(verify_order(plan));
  return verify_sequences(plan);
}

}  // namespace paro
