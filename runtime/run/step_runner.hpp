// Carries out a step plan on sharded states, driven by the hooks of a framework.
//
// A framework computes unit by unit; the runner has each unit's parameters there when the unit's
// computation begins and takes its gradients when it ends:
//
//   for each micro-batch:  before_forward(u) .. after_forward(u)    u = 0 .. U-1
//                          before_backward(u) .. after_backward(u)  u = U-1 .. 0
//   step()
//
// Collectives start at the first hook at which what they wait for has ended, in the plan's order on
// each channel; the library moves them while the framework computes. A hook blocks only for what
// its own unit needs. Gradients are summed, never averaged on the way: the optimizer divides once,
// by ranks, micro-batches and loss scale together.
//
// Errors: the first one breaks the runner. It names unit, state, operation, rank and step; every
// call after it returns it again. Until step() has told that the ranks agree, masters and optimizer
// state are as they were before the step; rejoin() goes on from there with a new communicator.
//
// Threads: one at a time, always the same order of calls on all ranks. abort() from any thread.
#pragma once

#include <horing.h>

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "optim/loss_scale.hpp"
#include "optim/optimizer.hpp"
#include "run/domains.hpp"
#include "run/routes.hpp"
#include "run/step_ends.hpp"
#include "run/step_sums.hpp"
#include "run/transfer.hpp"
#include "state/snapshot.hpp"
#include "state/unit_state.hpp"
#include "step/buckets.hpp"
#include "step/step_plan.hpp"

namespace paro {

// Classic mistakes of sharded training, for the tests that must notice each of them.
enum class Mistake : uint8_t {
  kNone,
  kAverageTwice,           // once more by the group's ranks
  kNormOverGroup,          // the squared norm summed inside the group only
  kSkipGroupsOfOne,        // no sync-g between groups where groups have one rank
  kFlagInGroup,            // the overflow flag shared inside the group only
  kOverwriteAccumulation,  // each micro-batch's gradients replace those before
  kForgetUnitOfBucket,     // a bucket's last unit is not in its messages
};

// Elements of a unit's trained array that are updated otherwise than the others.
struct ParameterGroup {
  uint32_t unit = 0;
  Range range;
  double rate_factor = 1;   // of the learning rate
  double weight_decay = 0;  // instead of the rule's
};

// What a framework's own optimizer gets: pieces of this rank's shard, unit by unit, without the
// padding.
struct ShardUpdate {
  uint32_t unit = 0;
  uint64_t first_element = 0;  // place in the unit's trained buffer
  uint64_t step = 0;           // from 1: steps applied since its state was zeros, with this one
  double learning_rate = 0;
  std::span<float> master;
  std::span<const float> gradient;  // averaged, unscaled, clipped
  double weight_decay = 0;          // of the piece's group, 0 in none; the rate is with its factor
  std::span<float* const> states;   // as RunnerConfig::optimizer_states, each as many as masters
};
// An error breaks the runner: some of the masters have changed then, and it cannot rejoin().
using ShardOptimizer = std::function<ho::Status(const ShardUpdate&)>;

// When an action of the step plan was carried out: computations between their hooks, collectives
// until the runner saw that they had ended.
struct ActionSpan {
  uint64_t step = 0;  // from 0
  ActionId action = 0;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

struct RunnerConfig {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;
  std::vector<UnitShape> units;
  uint32_t micro_batches = 1;
  uint32_t prefetch = 1;
  // Gradients of neighbouring units that have at most so many together are reduced together; 0: no
  // unit's are.
  uint64_t bucket_bytes = kDefaultBucketBytes;
  uint64_t alignment = 16;                          // elements
  ho::DType parameter_dtype = ho::DType::kFloat32;  // or kBfloat16, kFloat16
  ho::DType gradient_dtype = ho::DType::kFloat32;
  // Sums over micro-batches of 16-bit gradients stay 16-bit: 2 bytes per element less, and small
  // gradients are lost in large sums.
  bool narrow_sums = false;
  Rule rule = AdamW{};
  ShardOptimizer optimizer;  // replaces the rule where set
  // What it keeps beside each master: names of arrays, zeros at first.
  std::vector<std::string> optimizer_states;
  std::vector<ParameterGroup> groups;  // none overlap
  bool unchecked_loads = false;        // what load() gets is not compared between the ranks
  LossScaleSettings loss_scale;
  double max_norm = 0;  // 0: no clipping
  ho_algorithm algorithm = HO_ALGORITHM_HO_RING;
  uint64_t timeout_ms = 0;                       // 0: the communicator's
  uint64_t budget_bytes = 0;                     // 0: none
  uint32_t drift_interval = 0;                   // steps between drift checks; 0: none
  std::function<void(const ActionSpan&)> watch;  // of this rank alone; in the order of their ends
  Mistake mistake = Mistake::kNone;
};

// What gradients are summed in.
[[nodiscard]] ho::DType sum_dtype(const RunnerConfig& config);

// Whole parameters of a unit, padding not counted; nullptr for none. Valid until the hook's
// counterpart. Read only.
struct UnitView {
  const void* trained = nullptr;
  const void* frozen = nullptr;
  // Backward only: add the micro-batch's gradients of the loss times loss_scale() here.
  void* gradients = nullptr;
};

struct StepReport {
  uint64_t step = 0;  // of this runner's life, from 1
  uint32_t micro_batches = 0;
  bool applied = false;    // false: something was not finite, and every rank left the step out
  double norm = 0;         // of the averaged, unscaled gradient, before clipping; inf, nan if it is
  double loss_scale = 1;   // that the step was run with
  bool signalled = false;  // by a rank or more (StepRunner::signal())
  // Since the last step() ended:
  uint64_t hooks = 0;
  uint64_t hook_ns = 0;  // in hooks and step(), without waiting and without the optimizer
  uint64_t wait_ns = 0;  // blocked for communication
  uint64_t update_ns = 0;
  uint64_t step_ns = 0;        // all of it
  uint64_t compute_ns = 0;     // between a before_ hook and its after_ hook, in the framework
  uint64_t collective_ns = 0;  // of all collectives that ended, one after the other
  SentBytes sent;              // by them
};

class StepRunner {
 public:
  // Collective over `comm`, which is borrowed for the call; `groups` over its ranks. All ranks pass
  // the same config (checked). All ranks get a runner, or an error, be it another rank's. Masters
  // and parameters are zero until load(). `timeout_ms`, here and below: how long ranks wait for
  // the last one that comes; 0: the communicator's timeout.
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> create(ho_comm* comm,
                                                                      const ho::GroupMap& groups,
                                                                      RunnerConfig config,
                                                                      Memory& memory,
                                                                      uint64_t timeout_ms = 0);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // The unit's values, the same on all ranks, of which this rank takes its shards. Between steps.
  // The next step() compares what the ranks were given, before it updates anything.
  [[nodiscard]] ho::Status load(uint32_t unit,
                                std::span<const float> trained,
                                std::span<const float> frozen);

  [[nodiscard]] ho::Result<UnitView> before_forward(uint32_t unit);
  [[nodiscard]] ho::Status after_forward(uint32_t unit);
  [[nodiscard]] ho::Result<UnitView> before_backward(uint32_t unit);
  [[nodiscard]] ho::Status after_backward(uint32_t unit);
  // Starts what may start by now; never blocks. For long computations of which the calling thread
  // is free: without it collectives that follow one another wait for the next hook.
  [[nodiscard]] ho::Status poll() { return pump(); }
  // Collective: agrees, updates, starts sync-p.
  [[nodiscard]] ho::Result<StepReport> step();
  // Collective, after fewer micro-batches than there are: the step is of those, as if there were no
  // more. All ranks after as many.
  [[nodiscard]] ho::Result<StepReport> step_early();
  // Collective, after any number of micro-batches: their gradients are dropped, and the step begins
  // anew with its first. All ranks after as many. After none it does nothing.
  [[nodiscard]] ho::Status discard();
  // Collective, between steps: steps have so many micro-batches, at most the config's.
  [[nodiscard]] ho::Status set_micro_batches(uint32_t count);
  // Ends what step() started. Collective in effect: the others must have called step() too.
  [[nodiscard]] ho::Status synchronize();

  [[nodiscard]] double loss_scale() const { return scale_.value(); }
  // Whether this rank has something to tell the others, which all learn from the next step().
  void signal(bool has) { signals_ = has; }
  // From the next step() on, which fails on all ranks where the ranks' rates differ.
  void set_learning_rate(double rate);

  // Collective, between steps: whole masters of a unit.
  [[nodiscard]] ho::Status read_masters(uint32_t unit, std::span<float> trained);
  // Collective, between steps: whole frozen parameters of a unit, as load() rounded them.
  [[nodiscard]] ho::Status read_frozen(uint32_t unit, std::span<float> frozen);
  // Collective, between steps: ok if all copies of all states are the same bits.
  [[nodiscard]] ho::Status check_drift();
  // Collective: goes on after an error, over a communicator of the same ranks in the same order.
  // Gradients of the step that failed are dropped. Fails if the ranks have applied different
  // numbers of steps.
  [[nodiscard]] ho::Status rejoin(ho_comm* comm);
  // Between steps, not collective: this rank's share of all states.
  [[nodiscard]] ho::Result<Snapshot> snapshot() const;
  // The same without the units; and these where they lie, for as long as nothing is called that
  // changes states.
  [[nodiscard]] ho::Result<Snapshot> progress() const;
  [[nodiscard]] std::vector<StatePart> parts() const;
  // Collective, between steps: all states as they were when the ranks took these snapshots, of a
  // runner with the same units, groups, alignment, rule and parameter type, whatever its strategy.
  // Fails on all ranks, before anything has changed, where a rank has an error instead of a
  // snapshot, or one that does not fit.
  [[nodiscard]] ho::Status restore(const ho::Result<Snapshot>& given, uint64_t timeout_ms = 0);
  // Collective: another communicator of all ranks, numbered as they are.
  // `what` it is for, as the caller knows it.
  [[nodiscard]] ho::Result<OwnedComm> new_communicator(const char* what, uint64_t timeout_ms = 0);
  // Any thread.
  void abort(const char* reason);

  [[nodiscard]] const RunnerConfig& config() const { return config_; }
  [[nodiscard]] const StepPlan& plan() const { return plan_; }
  [[nodiscard]] const std::vector<UnitLayout>& layouts() const { return layouts_; }
  [[nodiscard]] ho::GlobalRank self() const { return domains_->self(); }
  [[nodiscard]] const ho::GroupMap& groups() const { return domains_->groups(); }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }
  [[nodiscard]] MemoryUse predicted() const;
  // States of the fullest rank, were they split so.
  [[nodiscard]] ho::Result<uint64_t> most_bytes(const Strategy& strategy,
                                                Scope frozen,
                                                const ho::GroupMap& groups) const;
  // Of the communicators.
  [[nodiscard]] uint64_t library_bytes() const { return domains_->memory_bytes(); }
  // Payload that this rank has sent for a phase, since creation.
  [[nodiscard]] const SentBytes& sent(Phase phase) const {
    return sent_[static_cast<size_t>(phase)];
  }
  [[nodiscard]] const std::array<SentBytes, 5>& sent() const { return sent_; }
  // What a runner before this one had sent counts as this one's, and what was loaded into it is to
  // be compared yet.
  struct History {
    std::array<SentBytes, 5> sent{};
    bool loaded = false;
    std::vector<uint64_t> loads;
    uint32_t micro_batches = 1;
  };
  [[nodiscard]] History history() const {
    return {sent_, loaded_, loads_, plan_.shape.micro_batches};
  }
  [[nodiscard]] ho::Status carry_over(const History& history);
  // Plans that were proved right since creation: those of one number of micro-batches once.
  [[nodiscard]] uint64_t proofs() const { return proofs_; }
  // Steps that have changed masters.
  [[nodiscard]] uint64_t applied_steps() const { return applied_; }
  // The error that broke the runner, or ok.
  [[nodiscard]] const ho::Status& broken() const { return broken_; }

 private:
  // An action of one step, being carried out.
  struct Running {
    uint64_t node = 0;  // step number * actions + action
    std::unique_ptr<Transfer> transfer;
    std::chrono::steady_clock::time_point since;
  };

  StepRunner(RunnerConfig config, StepPlan plan, Memory& memory);
  // This rank's own part, without the others.
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> prepare(const ho::GroupMap& groups,
                                                                       RunnerConfig config,
                                                                       Memory& memory);
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> prepare_or_say(
      const ho::GroupMap& groups, RunnerConfig config, Memory& memory);
  [[nodiscard]] ho::Status set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms);
  // What follows from the plan's actions.
  void queue_actions();
  // The config's plan of some number of micro-batches, unless that was proved before.
  [[nodiscard]] ho::Status prove(const StepPlan& plan, const ho::GroupMap& groups);
  void make_routes();

  // budget.cpp
  [[nodiscard]] StateShape state_shape() const;
  [[nodiscard]] ho::Status enforce_budget(ho_comm* comm,
                                          const ho::GroupMap& groups,
                                          uint64_t timeout_ms);

  // progress.cpp
  [[nodiscard]] const Action& action_of(uint64_t node) const {
    return plan_.actions[node % plan_.actions.size()];
  }
  [[nodiscard]] bool ended(uint64_t node) const;
  [[nodiscard]] bool may_start(uint64_t node) const;
  [[nodiscard]] bool may_pack(uint64_t node) const;
  void mark_ended(uint64_t node, std::chrono::steady_clock::time_point since);
  [[nodiscard]] ho::Status pump();
  // Breaks the runner, on all ranks, where they end the step differently.
  [[nodiscard]] ho::Status look_at_ends();
  // Blocks until it is over, and looks at ends meanwhile.
  [[nodiscard]] ho::Status wait_for(Transfer& transfer);
  [[nodiscard]] ho::Status start_what_can(Channel channel);
  [[nodiscard]] ho::Status complete_what_is_over(Channel channel);
  [[nodiscard]] ho::Status start(uint64_t node);
  [[nodiscard]] ho::Status start_gather(const Action& action, uint64_t node, Transfer& transfer);
  [[nodiscard]] ho::Status start_reduction(const Action& action, uint64_t node, Transfer& transfer);
  [[nodiscard]] ho::Status complete(Running& running);
  [[nodiscard]] ho::Status finish(uint64_t node);
  [[nodiscard]] ho::Status break_with(const ho::Status& status, uint64_t node);
  // `what` was being done; status is ok, or what breaks the runner.
  [[nodiscard]] ho::Status break_unless_ok(const ho::Status& status, const std::string& what);
  [[nodiscard]] Place gathered_place(const Action& action, uint64_t node) const;
  // Where a unit's gradients lie between its backward pass and their reduction.
  [[nodiscard]] Place output_place(uint64_t node, uint32_t unit) const;
  // Room for a merged reduction's messages; nullptr for others.
  [[nodiscard]] std::byte* pack_of(uint64_t node) const;
  // A backward pass adds to this rank's sums itself, not to a buffer of its own.
  [[nodiscard]] bool adds_to_sums() const { return outputs_.empty(); }
  // Gradients of a micro-batch join the sums, which after the last are as they are sent.
  void add_gradients(const Action& action, uint32_t unit, const Place& gradients);

  // hooks.cpp
  [[nodiscard]] ho::Result<UnitView> begin(Act act, uint32_t unit);
  [[nodiscard]] ho::Status end(Act act, uint32_t unit);
  [[nodiscard]] ho::Status expect(Act act, uint32_t unit, bool begins) const;
  [[nodiscard]] UnitView view_of(const Action& action, uint64_t node) const;

  // update.cpp
  [[nodiscard]] ho::Status start_agree(Transfer& transfer);
  [[nodiscard]] ho::Status apply(uint32_t unit, double factor);
  // Of elements of one group.
  [[nodiscard]] ho::Status apply_piece(const Piece& piece,
                                       const ParameterGroup* group,
                                       double factor);
  [[nodiscard]] ho::Status update_all(uint64_t first_slot, bool applies, double factor);
  // Collective, after the step's last micro-batch: ends the agreement, in which all ranks end the
  // step or all discard it.
  [[nodiscard]] ho::Status decide(bool discards);
  [[nodiscard]] ho::Status refuse_rates(const std::string& step);
  [[nodiscard]] double averaging_factor() const;
  [[nodiscard]] double learning_rate() const;
  [[nodiscard]] ho::Status between_steps(const char* what) const;

  // ending.cpp
  // Of the present step, where no micro-batch is under way.
  [[nodiscard]] ho::Result<uint32_t> micro_batches_over(const char* what) const;
  // Ends what the micro-batches so far have set free, the same on every rank.
  [[nodiscard]] ho::Status settle();
  // Collective: that all ranks end the present step so, after as many micro-batches.
  [[nodiscard]] ho::Status agree_on_end(StepEnds::Next end, uint32_t micro_batches);
  // Collective: that all ranks give set_micro_batches the same number.
  [[nodiscard]] ho::Status agree_on_count(uint32_t count);
  [[nodiscard]] ho::Status use_micro_batches(uint32_t count);
  void begin_step_anew();
  // Of a micro-batch that the present step does not have.
  [[nodiscard]] bool is_left_out(uint64_t node) const;

  // not_finite.cpp
  // Before a reduction of what this rank computed, at `places`: one for each of the action's units.
  void look_at_own(const Action& action, std::span<const Place> places);
  // Of a unit's sum from element `begin` on, in which something is not finite.
  void note_not_finite(uint64_t unit, uint64_t begin, std::span<const float> gradient);
  // Collective: a line in rank 0's log; what the norm is, infinite or no number.
  [[nodiscard]] ho::Result<double> tell_left_out();

  // loads.cpp
  void note_load(uint32_t unit, std::span<const float> trained, std::span<const float> frozen);
  void forget_loads();
  // Collective: an error of all ranks where they were given different values.
  [[nodiscard]] ho::Status compare_loads();
  [[nodiscard]] ho::Status agree_on_loads(const std::string& where);
  // Collective: that all ranks read the same, into as much room.
  [[nodiscard]] ho::Status agree_on_read(const char* what, uint32_t unit, uint64_t room);

  // inspect.cpp
  // A state of which this rank holds some.
  struct WholeOf {
    const Storage& storage;
    Scope scope;
    const Partition& partition;
    const Routes& routes;
  };
  [[nodiscard]] ho::Status shares_another(const char* what, uint32_t unit) const;
  // Collective: an error of all ranks where one cannot read.
  [[nodiscard]] ho::Status may_read(const char* what,
                                    uint32_t unit,
                                    uint64_t room,
                                    uint64_t UnitShape::*count);
  [[nodiscard]] ho::Status read_whole(const char* what,
                                      uint32_t unit,
                                      const WholeOf& of,
                                      std::span<float> values);
  [[nodiscard]] ho::Result<std::string> drift() const;
  [[nodiscard]] ho::Status agree_on_progress(ho_comm* comm) const;
  [[nodiscard]] ho::Status restore_parameters();
  void go_on_from(uint64_t step);

  // snapshot.cpp
  [[nodiscard]] ho::Status check_snapshot(const Snapshot& snapshot) const;
  [[nodiscard]] ho::Status agree_on_snapshot(const ho::Result<Snapshot>& given,
                                             uint64_t timeout_ms) const;
  [[nodiscard]] ho::Status spread_unit(size_t unit, const UnitSnapshot& from);
  [[nodiscard]] ho::Status spread(const PartValues& values,
                                  const Storage& storage,
                                  Scope scope,
                                  const Partition& partition,
                                  const Routes& routes);

  RunnerConfig config_;
  StepPlan plan_;
  Ledger ledger_;
  std::vector<UnitLayout> layouts_;
  std::set<uint32_t> proved_;  // numbers of micro-batches
  uint64_t proofs_ = 0;
  BucketPlaces bucket_places_;
  std::unique_ptr<Domains> domains_;
  std::unique_ptr<StepEnds> ends_;
  std::vector<Routes> trained_routes_;
  std::vector<Routes> frozen_routes_;
  std::map<uint32_t, Routes> merged_routes_;  // by a bucket's first unit
  std::vector<UnitState> units_;
  std::vector<Buffer> gathered_trained_;
  std::vector<Buffer> gathered_frozen_;
  std::vector<Buffer> outputs_;
  std::vector<Buffer> packs_;
  std::vector<uint32_t> slot_;    // by action: compute slot that it serves
  std::vector<uint32_t> output_;  // by action: reduction that it writes or reads
  std::vector<uint32_t> pack_;    // by action: merged reductions before it
  LossScale scale_;

  std::array<std::vector<ActionId>, kChannelCount> queues_;
  std::array<uint64_t, kChannelCount> next_{};  // place in the queue, over all steps
  std::array<std::deque<Running>, kChannelCount> running_;
  std::vector<uint64_t> times_ended_;  // by action
  uint64_t steps_ = 0;                 // called
  uint64_t applied_ = 0;
  uint64_t optimizer_steps_ = 0;  // applied since the rule's state was zeros
  bool in_step_ = false;          // since the first hook of a step
  uint32_t step_micro_batches_;   // of the present step
  bool signals_ = false;
  bool loaded_ = false;          // since loads were last compared
  std::vector<uint64_t> loads_;  // by unit: a hash of what load() was last given; 0: nothing
  bool discards_ = false;        // in decide()
  bool deciding_ = false;        // in decide(): until then the framework may set the rate
  bool computing_ = false;       // between a before_ and its after_
  std::chrono::steady_clock::time_point computing_since_;
  std::chrono::steady_clock::time_point step_since_ = std::chrono::steady_clock::now();
  bool reorders_ = false;  // groups are unequal
  bool torn_ = false;      // an optimizer failed when some masters had changed
  struct NotFiniteAt {
    uint64_t unit = UINT64_MAX;
    uint64_t element = 0;
    bool nan = false;
    uint64_t micro_batch = 0;
  };
  NotFiniteAt own_not_finite_;  // the first in time of what this rank computed
  NotFiniteAt not_finite_;      // the first of the sums that it holds; nan: any is
  StepSums agreed_;
  std::array<SentBytes, 5> sent_{};
  StepReport counted_;
  std::vector<std::vector<ParameterGroup>> groups_;  // by unit, ascending
  std::vector<float> block_;
  std::vector<float*> states_of_block_;  // for the framework's own optimizer
  ho::Status broken_;
};

}  // namespace paro
