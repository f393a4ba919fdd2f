#include "planner/figures.hpp"

#include <algorithm>
#include <vector>

#include "planner/parallelism.hpp"
#include "step/buckets.hpp"
#include "step/critical_path.hpp"
#include "step/step_plan.hpp"

namespace paro {
namespace {

using Link = ActionCost::Link;

// More would take long to run in virtual time. kMaxLayers layers have at least eight micro-batches
// in it, with as many units that share another's parameters three.
constexpr uint64_t kMaxActions = uint64_t{1} << 16U;
constexpr uint64_t kActionsPerUnit = 7;  // at most, in a micro-batch; fewer than that in the end

// The request's model as units: one that others share, where there is one, the layers, and those
// that share it; or its own units.
class Units {
 public:
  explicit Units(const PlannerRequest& request)
      : sizes_(request.units),
        sharing_(request.sharing_units),
        first_layer_(sizes_.size() > 1 || sharing_ > 0 ? 1 : 0) {
    if (!sizes_.empty()) {
      return;
    }
    const ModelSize& model = request.model;
    UnitSize shared;
    if (sharing_ > 0) {
      shared = {
          model.shared / sharing_, model.shared_trainable / sharing_, model.shared / sharing_};
      sizes_.push_back(shared);
    }
    const double parameters = std::max(model.parameters - shared.parameters, 0.0) / request.layers;
    const double trainable = std::max(model.trainable - shared.trainable, 0.0) / request.layers;
    // A unit computes for as long as it has parameters.
    sizes_.insert(sizes_.end(), request.layers, {parameters, trainable, parameters});
    sizes_.insert(sizes_.end(), sharing_, shared);
  }

  [[nodiscard]] const UnitSize& layer() const { return sizes_[first_layer_]; }
  [[nodiscard]] const UnitSize& operator[](uint32_t unit) const { return sizes_[unit]; }
  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(sizes_.size()); }
  [[nodiscard]] bool shares(uint32_t unit) const { return unit + sharing_ >= count(); }

  // The most trained parameters of a unit.
  [[nodiscard]] double largest_trainable() const {
    double most = 0;
    for (const UnitSize& size : sizes_) {
      most = std::max(most, size.trainable);
    }
    return most;
  }
  // The most parameters of so many neighbours.
  [[nodiscard]] double largest_together(uint32_t neighbours) const {
    double most = 0;
    double sum = 0;
    for (uint32_t unit = 0; unit < count(); ++unit) {
      sum += sizes_[unit].parameters;
      sum -= unit >= neighbours ? sizes_[unit - neighbours].parameters : 0;
      most = std::max(most, sum);
    }
    return most;
  }
  [[nodiscard]] double largest() const { return largest_together(1); }

 private:
  std::vector<UnitSize> sizes_;
  uint32_t sharing_;  // the last ones
  size_t first_layer_;
};

// Of a rank's own part.
double update_s(const Strategy& strategy, const PlannerRequest& request) {
  return request.update_s / sharers(strategy.optimizer, request.world);
}

// Of a rank's processor.
double busy_s(const Strategy& strategy, const PlannerRequest& request) {
  return request.compute_s + update_s(strategy, request);
}

// Seconds of each action of a plan of these units.
class ActionCosts {
 public:
  // Collectives on links of the kind `free` take no time.
  ActionCosts(const Strategy& strategy, const PlannerRequest& request, Link free)
      : request_(request),
        seconds_(request.world, request.links),
        world_link_(seconds_.world_waits_inside() ? Link::kIntra : Link::kInter),
        free_(free),
        units_(request),
        parameter_s_(request.compute_s / request.micro_batches /
                     (request.model.parameters + request.model.shared)),
        trained_s_(update_s(strategy, request) / request.model.trainable) {}

  [[nodiscard]] ActionCost of(const Action& action) const {
    switch (action.act) {
      case Act::kForward:
        return {unit_s(action.unit) * request_.forward_share, Link::kNone};
      case Act::kBackward:
        return {unit_s(action.unit) * (1 - request_.forward_share), Link::kNone};
      case Act::kUpdate:
        return {trained_s_ * units_[action.unit].trainable, Link::kNone};
      case Act::kAgree:  // a few bytes
        return {};
      case Act::kGather:
        return collective(action, ho::Collective::kAllGather);
      case Act::kReduceScatter:
        return collective(action, ho::Collective::kReduceScatter);
      case Act::kAllReduce:
        break;
    }
    return collective(action, ho::Collective::kAllReduce);
  }

 private:
  [[nodiscard]] double unit_s(uint32_t unit) const { return parameter_s_ * units_[unit].work; }

  [[nodiscard]] double bytes_of(const Action& action) const {
    const UnitSize& size = units_[action.unit];
    switch (action.content) {
      case Content::kParameters:
        return request_.bytes.parameter * size.trainable;
      case Content::kFrozen:
        return request_.bytes.parameter * (size.parameters - size.trainable);
      case Content::kGradients:
        return request_.bytes.gradient * trained_of(action);
      case Content::kNorm:
        break;
    }
    return 0;
  }

  // Of all units of a bucket.
  [[nodiscard]] double trained_of(const Action& action) const {
    double trained = units_[action.unit].trainable;
    for (const uint32_t unit : action.merged) {
      trained += units_[unit].trainable;
    }
    return trained;
  }

  [[nodiscard]] ActionCost collective(const Action& action, ho::Collective collective) const {
    const double bytes = bytes_of(action);
    switch (action.domain) {
      case Domain::kIntra:
        return on(Link::kIntra, seconds_.intra(collective, bytes));
      case Domain::kInter:
        return on(Link::kInter, seconds_.inter(collective, bytes / request_.world.group_size));
      case Domain::kWorld:
        break;
    }
    return on(world_link_, seconds_.world(collective, bytes));
  }

  [[nodiscard]] ActionCost on(Link link, double seconds) const {
    return {link == free_ ? 0 : request_.effects.launch_s + seconds, link};
  }

  const PlannerRequest& request_;
  CollectiveSeconds seconds_;
  // That a world collective is slow on. HO-Ring keeps the other one busy too, but not for as long,
  // which this leaves out.
  Link world_link_;
  Link free_;
  Units units_;
  double parameter_s_;  // forward and backward pass of a parameter
  double trained_s_;    // its update
};

// A step with some number of micro-batches.
struct Simulated {
  double step_s = 0;
  LinkTime intra;
  LinkTime inter;
};

// A layer's elements in the step plan's shape. Only whether there are any matters there, and how
// many are a bucket: bytes are counted from the request.
constexpr uint64_t kLayerElements = 1024;

constexpr double kMaxShare = 1e15;  // where layers have next to nothing

// Of what is `share` of a layer.
uint64_t elements(double share) {
  return static_cast<uint64_t>(std::clamp(share, 0.0, kMaxShare) * kLayerElements +
                               (share > 0 ? 1 : 0));
}

UnitShape shape_of(const UnitSize& unit, const UnitSize& layer) {
  UnitShape shape;
  shape.trained = unit.trainable == layer.trainable ? kLayerElements * (layer.trainable > 0 ? 1 : 0)
                                                    : elements(unit.trainable / layer.trainable);
  shape.frozen = unit.parameters > unit.trainable ? 1 : 0;
  return shape;
}

// That a bucket may have.
uint64_t bucket_elements(const PlannerRequest& request) {
  const Units units(request);
  const double layer = request.bytes.gradient * units.layer().trainable;
  if (request.bucket_bytes == 0 || layer == 0) {
    return 0;
  }
  const double together = static_cast<double>(request.bucket_bytes) / layer;
  return static_cast<uint64_t>(std::min(together, kMaxShare) * kLayerElements);
}

StepShape shape_of(const Strategy& strategy,
                   const PlannerRequest& request,
                   uint32_t micro_batches) {
  const Units units(request);
  StepShape shape;
  shape.strategy = strategy;
  shape.frozen = strategy.parameters;
  UnitShape sharing;
  sharing.shares = 0;
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    shape.units.push_back(units.shares(unit) ? sharing : shape_of(units[unit], units.layer()));
  }
  shape.micro_batches = micro_batches;
  shape.prefetch = request.prefetch;
  shape.bucket_elements = bucket_elements(request);
  return shape;
}

double path_s(const StepPlan& plan,
              const Strategy& strategy,
              const PlannerRequest& request,
              Link free) {
  const ActionCosts costs(strategy, request, free);
  return critical_path(plan, [&](const Action& action) { return costs.of(action); }).step_s;
}

// Gains take two more simulations.
enum class Gains : uint8_t { kNo, kYes };

ho::Result<Simulated> simulate(const Strategy& strategy,
                               const PlannerRequest& request,
                               uint32_t micro_batches,
                               Gains gains) {
  HORING_ASSIGN(const StepPlan plan, build_step_plan(shape_of(strategy, request, micro_batches)));
  Simulated simulated;
  const ActionCosts costs(strategy, request, Link::kNone);
  for (const Action& action : plan.actions) {
    const ActionCost cost = costs.of(action);
    simulated.intra.busy_s += cost.link == Link::kIntra ? cost.seconds : 0;
    simulated.inter.busy_s += cost.link == Link::kInter ? cost.seconds : 0;
  }
  LinkTime& intra = simulated.intra;
  LinkTime& inter = simulated.inter;
  if (!request.overlap) {
    intra.gain_s = intra.busy_s;
    inter.gain_s = inter.busy_s;
    simulated.step_s = busy_s(strategy, request) + intra.busy_s + inter.busy_s;
    return simulated;
  }
  simulated.step_s = path_s(plan, strategy, request, Link::kNone);
  if (gains == Gains::kNo) {
    return simulated;
  }
  intra.gain_s = simulated.step_s - path_s(plan, strategy, request, Link::kIntra);
  inter.gain_s = simulated.step_s - path_s(plan, strategy, request, Link::kInter);
  return simulated;
}

// What `value` gets to when it goes on, `times` over, as it went from `before` to itself.
double carried_on(double before, double value, double times) {
  return value + (value - before) * times;
}

LinkTime carried_on(const LinkTime& before, const LinkTime& value, double times) {
  return {carried_on(before.busy_s, value.busy_s, times),
          carried_on(before.gain_s, value.gain_s, times)};
}

// A step of very many micro-batches repeats itself in its middle, so that each further one adds
// what the one before it added.
ho::Result<Simulated> simulate_step(const Strategy& strategy,
                                    const PlannerRequest& request,
                                    Gains gains) {
  const uint64_t most_that_fit = kMaxActions / (kActionsPerUnit * unit_count(request)) - 1;
  if (request.micro_batches <= most_that_fit) {
    return simulate(strategy, request, request.micro_batches, gains);
  }
  const auto many = static_cast<uint32_t>(most_that_fit);
  const uint32_t few = many / 2;
  HORING_ASSIGN(const Simulated longer_step, simulate(strategy, request, many, gains));
  HORING_ASSIGN(const Simulated shorter_step, simulate(strategy, request, few, gains));
  const double times = double{1} * (request.micro_batches - many) / (many - few);
  return Simulated{carried_on(shorter_step.step_s, longer_step.step_s, times),
                   carried_on(shorter_step.intra, longer_step.intra, times),
                   carried_on(shorter_step.inter, longer_step.inter, times)};
}

StepPath path_of(const Simulated& simulated,
                 const Strategy& strategy,
                 const PlannerRequest& request) {
  const double compute_s = busy_s(strategy, request);
  return {std::max(simulated.step_s, compute_s),  // but for rounding it is no less
          compute_s,
          simulated.intra.busy_s + simulated.inter.busy_s};
}

// Routed experts are split among the ranks that hold the same ones.
StateBytes states_of(const Strategy& strategy, const PlannerRequest& request) {
  const auto part = [&](double share, const WorldShape& world) {
    const ModelSize model{request.model.parameters * share, request.model.trainable * share};
    return state_bytes(strategy, model, request.bytes, world);
  };
  const StateBytes dense = part(1 - request.routed_share, request.world);
  const StateBytes routed =
      part(request.routed_share, expert_world(request.world, request.expert_ranks));
  return {dense.parameters + routed.parameters,
          dense.gradients + routed.gradients,
          dense.optimizer + routed.optimizer};
}

}  // namespace

MemoryNeed memory_of(const Strategy& strategy, const PlannerRequest& request) {
  const Units units(request);
  MemoryNeed need;
  need.states = states_of(strategy, request);
  if (strategy.parameters != Scope::kReplicated) {
    const uint32_t together = 1 + request.prefetch;
    need.gathered =
        request.bytes.parameter *
        (request.units.empty() ? units.largest() * together : units.largest_together(together));
  }
  double largest = 0;  // of units and buckets
  double packed = 0;   // of buckets of several units
  const StepShape shape = shape_of(strategy, request, 1);
  for (const Bucket& bucket : buckets_of(shape.units, shape.bucket_elements)) {
    double bytes = 0;
    for (const uint32_t unit : bucket) {
      bytes += request.bytes.gradient * units[unit].trainable;
    }
    largest = std::max(largest, bytes);
    packed = std::max(packed, bucket.size() > 1 ? bytes : 0);
  }
  if (strategy.gradients != Scope::kReplicated) {
    need.gradient_buffers = largest * kGradientBuffers;
  } else if (request.bytes.gradient_sum > request.bytes.gradient) {
    // A micro-batch's gradients of one unit, before they are added to the wider sums.
    need.gradient_buffers = request.bytes.gradient * units.largest_trainable();
  }
  need.gradient_buffers += packed * kPackBuffers;
  need.activations = request.activation_bytes;
  need.reserve = request.reserve_bytes;
  return need;
}

ho::Result<StrategyFigures> figures_of(const Strategy& strategy, const PlannerRequest& request) {
  StrategyFigures figures;
  figures.strategy = strategy;
  figures.memory = memory_of(strategy, request);
  figures.micro_batches = request.micro_batches;
  if (request.memory_bytes > 0) {
    figures.missing_bytes = std::max(figures.memory.total() - request.memory_bytes, 0.0);
  }
  StepTime& time = figures.time;
  time.terms = step_seconds(strategy,
                            request.model,
                            request.bytes,
                            request.world,
                            request.links,
                            double{1} * unit_count(request));
  time.communication_s = time.terms.communication(request.micro_batches);
  time.paper_step_s = paper_step_seconds(time.communication_s, request.compute_s);
  time.indicator = throughput_indicator(time.paper_step_s);
  HORING_ASSIGN(const Simulated simulated, simulate_step(strategy, request, Gains::kYes));
  const StepPath path = path_of(simulated, strategy, request);
  time.exposed_s = path.path_s - path.compute_s;
  time.busy_s = path.busy_s;
  time.range =
      step_range(path.path_s, path.compute_s, path.busy_s, request.effects, request.world.ranks());
  time.step_s = time.range.expected_s;
  time.intra = simulated.intra;
  time.inter = simulated.inter;
  return figures;
}

ho::Result<StepPath> step_path(const Strategy& strategy, const PlannerRequest& request) {
  HORING_ASSIGN(const Simulated simulated, simulate_step(strategy, request, Gains::kNo));
  return path_of(simulated, strategy, request);
}

}  // namespace paro
