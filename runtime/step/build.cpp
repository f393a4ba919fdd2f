#include <algorithm>
#include <utility>

#include "step/buckets.hpp"
#include "step/step_plan.hpp"

namespace paro {
namespace {

constexpr uint64_t kMaxActions = uint64_t{1} << 20U;

Domain gather_domain(Scope from, Scope to) {
  if (from == Scope::kGroup) {
    return Domain::kIntra;
  }
  return to == Scope::kGroup ? Domain::kInter : Domain::kWorld;
}

class Builder {
 public:
  explicit Builder(const StepShape& shape)
      : plan_{shape, {}},
        units_(static_cast<uint32_t>(shape.units.size())),
        buckets_(buckets_of(shape.units, shape.bucket_elements)) {
    first_use_.resize(units_);
    gradients_.resize(buckets_.size());
    summed_.resize(units_);
    ready_.resize(units_);
  }

  StepPlan build() && {
    for (uint32_t k = 0; k < shape().micro_batches; ++k) {
      for (uint32_t u = 0; u < units_; ++u) {
        forward(u, k);
      }
      bucket_ = 0;
      for (uint32_t u = units_; u-- > 0;) {
        backward(u, k);
      }
    }
    finish();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] const StepShape& shape() const { return plan_.shape; }
  [[nodiscard]] const Strategy& strategy() const { return plan_.shape.strategy; }

  ActionId add(Action action) {
    plan_.actions.push_back(std::move(action));
    return ActionId(plan_.actions.size() - 1);
  }

  // What the next compute slot needs: gathers of what is split.
  std::vector<ActionId> gather(uint32_t unit, uint32_t micro_batch, Phase phase) {
    const uint32_t home = home_of(shape().units, unit);
    const UnitShape& elements = shape().units[home];
    std::vector<ActionId> gathers;
    const auto one = [&](Content content, Scope from, uint64_t count) {
      if (count == 0 || from == Scope::kReplicated) {
        return;
      }
      Action action{Act::kGather, phase, Track::kGathers, home, micro_batch};
      action.shared = home != unit;
      action.domain = gather_domain(from, Scope::kReplicated);
      action.content = content;
      action.from = from;
      const bool first_in_buffer = slots_.size() <= shape().prefetch;
      if (!first_in_buffer) {
        action.after.push_back(slots_[slots_.size() - 1 - shape().prefetch]);
      }
      gathers.push_back(add(action));
      if (first_in_buffer) {
        first_in_buffer_.push_back(gathers.back());
      }
      if (content == Content::kParameters && micro_batch == 0 && phase == Phase::kForward &&
          home == unit) {
        first_use_[unit].push_back(gathers.back());
      }
    };
    one(Content::kParameters, strategy().parameters, elements.trained);
    one(Content::kFrozen, shape().frozen, elements.frozen);
    return gathers;
  }

  void forward(uint32_t unit, uint32_t micro_batch) {
    Action action{Act::kForward, Phase::kForward, Track::kCompute, unit, micro_batch};
    action.after = gather(unit, micro_batch, Phase::kForward);
    const ActionId id = add(action);
    slots_.push_back(id);
    if (strategy().parameters == Scope::kReplicated && micro_batch == 0 &&
        shape().units[unit].trained > 0) {
      first_use_[unit].push_back(id);
    }
  }

  void backward(uint32_t unit, uint32_t micro_batch) {
    const bool trained = shape().units[home_of(shape().units, unit)].trained > 0;
    const bool splits = trained && strategy().gradients != Scope::kReplicated;
    Action action{Act::kBackward, Phase::kBackward, Track::kCompute, unit, micro_batch};
    action.after = gather(unit, micro_batch, Phase::kBackward);
    if (splits && unit == buckets_[bucket_].front() && reductions_.size() >= kGradientBuffers) {
      action.after.push_back(reductions_[reductions_.size() - kGradientBuffers]);
    }
    const ActionId last = add(action);
    slots_.push_back(last);
    if (trained && unit == buckets_[bucket_].back()) {
      reduce_bucket(micro_batch, last);
      ++bucket_;
    }
  }

  // The current bucket's, whose last backward is `last`.
  void reduce_bucket(uint32_t micro_batch, ActionId last) {
    ActionId& gradients = gradients_[bucket_];
    if (const Scope to = strategy().gradients; to != Scope::kReplicated) {
      const Domain domain = to == Scope::kGroup ? Domain::kIntra : Domain::kWorld;
      last = reduce({Act::kReduceScatter, domain, Scope::kReplicated, to},
                    Phase::kBackward,
                    micro_batch,
                    last);
      // Sums are added to one after the other.
      for (const uint32_t unit : units_of(plan_.actions[last.at()])) {
        if (summed_[unit]) {
          wait_for(plan_.actions[last.at()], *summed_[unit]);
        }
        summed_[unit] = last;
      }
      gradients = last;
      reductions_.push_back(last);
    }
    if (micro_batch + 1 == shape().micro_batches && !is_shared(buckets_[bucket_])) {
      gradients = sync_g(micro_batch, last);
    }
  }

  [[nodiscard]] bool is_shared(const Bucket& bucket) const {
    return shape().units[bucket.front()].shares.has_value();
  }

  static void wait_for(Action& action, ActionId earlier) {
    if (std::find(action.after.begin(), action.after.end(), earlier) == action.after.end()) {
      action.after.push_back(earlier);
    }
  }

  struct Reduction {
    Act act;
    Domain domain;
    Scope from;
    Scope to;
  };

  // Of the current bucket.
  ActionId reduce(const Reduction& reduction, Phase phase, uint32_t micro_batch, ActionId after) {
    const Bucket& bucket = buckets_[bucket_];
    const uint32_t home = home_of(shape().units, bucket.front());
    Action action{reduction.act, phase, Track::kReductions, home, micro_batch};
    action.shared = is_shared(bucket);
    action.merged.assign(bucket.begin() + 1, bucket.end());
    action.domain = reduction.domain;
    action.content = Content::kGradients;
    action.from = reduction.from;
    action.to = reduction.to;
    action.after = {after};
    if (!is_merged(action)) {
      return add(action);
    }
    if (packs_.size() >= kPackBuffers) {
      wait_for(action, packs_[packs_.size() - kPackBuffers]);
    }
    packs_.push_back(add(action));
    return packs_.back();
  }

  // The last action that the current bucket's gradients wait for.
  ActionId sync_g(uint32_t micro_batch, ActionId last) {
    const Scope from = strategy().gradients;
    const Scope to = strategy().optimizer;
    const auto sync = [&](Act act, Domain domain, Scope source, Scope target) {
      last = reduce({act, domain, source, target}, Phase::kSyncG, micro_batch, last);
    };
    if (from == Scope::kReplicated && to == Scope::kReplicated) {
      sync(Act::kAllReduce, Domain::kWorld, from, to);
    } else if (from == Scope::kReplicated && to == Scope::kWorld) {
      sync(Act::kReduceScatter, Domain::kWorld, from, to);
    } else if (to == Scope::kGroup) {
      if (from == Scope::kReplicated) {
        sync(Act::kReduceScatter, Domain::kIntra, from, to);
      }
      sync(Act::kAllReduce, Domain::kInter, to, to);
    } else if (from == Scope::kGroup) {
      sync(Act::kReduceScatter, Domain::kInter, from, to);
    }
    return last;
  }

  void finish() {
    const uint32_t last_micro_batch = shape().micro_batches - 1;
    Action agree{Act::kAgree, Phase::kSyncG, Track::kReductions, 0, last_micro_batch};
    agree.content = Content::kNorm;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (!is_shared(buckets_[bucket])) {
        agree.after.push_back(gradients_[bucket]);
      }
    }
    const ActionId agreed = add(agree);
    for (uint32_t u = 0; u < units_; ++u) {
      if (shape().units[u].trained > 0) {
        update(u, agreed);
      }
    }
    for (const ActionId use : first_in_buffer_) {
      plan_.actions[use.at()].after_previous = {slots_.back()};
    }
    for (uint32_t u = 0; u < units_; ++u) {
      for (const ActionId use : first_use_[u]) {
        // An update comes after every backward, so no other dependency is lost.
        plan_.actions[use.at()].after_previous = {ready_[u]};
      }
    }
    for (const Domain domain : {Domain::kIntra, Domain::kInter, Domain::kWorld}) {
      gather_after_syncs(domain);
    }
  }

  // A communicator's all-gathers are one sequence, also for the library: so the next step's run
  // after sync-p's. Its track starts in order, so the first one's waiting is enough.
  void gather_after_syncs(Domain domain) {
    const auto among = [domain](Track track) {
      return [=](const Action& action) { return action.track == track && action.domain == domain; };
    };
    auto& actions = plan_.actions;
    const auto gather = std::find_if(actions.begin(), actions.end(), among(Track::kGathers));
    const auto sync = std::find_if(actions.rbegin(), actions.rend(), among(Track::kSyncs));
    if (gather != actions.end() && sync != actions.rend()) {
      gather->after_previous.push_back(ActionId(static_cast<size_t>(actions.rend() - sync - 1)));
    }
  }

  void update(uint32_t unit, ActionId agreed) {
    const uint32_t last_micro_batch = shape().micro_batches - 1;
    Action update{Act::kUpdate, Phase::kUpdate, Track::kCompute, unit, last_micro_batch};
    update.after = {agreed};
    ready_[unit] = add(update);
    if (strategy().optimizer == strategy().parameters) {
      return;
    }
    Action sync{Act::kGather, Phase::kSyncP, Track::kSyncs, unit, last_micro_batch};
    sync.domain = gather_domain(strategy().optimizer, strategy().parameters);
    sync.from = strategy().optimizer;
    sync.to = strategy().parameters;
    sync.after = {ready_[unit]};
    ready_[unit] = add(sync);
  }

  StepPlan plan_;
  uint32_t units_;
  std::vector<Bucket> buckets_;
  size_t bucket_ = 0;  // that the next backward of a trained unit belongs to
  std::vector<ActionId> slots_;
  std::vector<ActionId> reductions_;              // of micro-batches, in order
  std::vector<ActionId> packs_;                   // merged reductions, in order
  std::vector<std::vector<ActionId>> first_use_;  // of parameters, by unit
  std::vector<ActionId> first_in_buffer_;         // gathers that the previous step's end frees
  std::vector<ActionId> gradients_;               // by bucket: what ends its sync-g
  std::vector<std::optional<ActionId>> summed_;   // by unit: the last reduction into its sums
  std::vector<ActionId> ready_;                   // by unit: what ends its update
};

}  // namespace

ho::Result<StepPlan> build_step_plan(const StepShape& shape) {
  HORING_TRY(check(shape.strategy));
  // Per unit and micro-batch: two computations, four gathers, one reduction; per unit: four more.
  const uint64_t most = shape.units.size() * (uint64_t{7} * shape.micro_batches + 4) + 1;
  if (shape.units.empty() || shape.micro_batches == 0 || shape.units.size() > kMaxActions ||
      most > kMaxActions) {
    return ho::invalid("a step of " + std::to_string(shape.units.size()) + " units and " +
                       std::to_string(shape.micro_batches) +
                       " micro-batches: takes at least one of each, and at most 2^20 actions");
  }
  return Builder(shape).build();
}

}  // namespace paro
