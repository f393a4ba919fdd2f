// What the runner tells of its states, and how it goes on after an error.
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/hash.hpp"
#include "optim/gradients.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"
#include "step/participants.hpp"

namespace paro {
namespace {

// Hashes of what a set of ranks must have in common, and what each is of.
struct Common {
  std::vector<uint64_t> hashes;
  std::vector<std::string> names;
};

Domain domain_of(Scope from) {
  return from == Scope::kGroup ? Domain::kIntra : Domain::kWorld;
}

// The copies of a storage: the whole on all ranks, or each segment on its owners.
class Copies {
 public:
  Copies(const Domains& domains, uint64_t timeout_ms)
      : domains_(domains), timeout_ms_(timeout_ms) {}

  void add(const Storage& storage,
           Scope scope,
           const Partition& partition,
           const std::string& name) {
    if (scope == Scope::kWorld || partition.padded_count() == 0) {
      return;
    }
    if (scope == Scope::kReplicated) {
      append(world_, storage, partition, {0, partition.padded_count()}, name);
      return;
    }
    const auto group = domains_.groups().group_of(domains_.self());
    for (const Segment& segment : partition.segments()) {
      if (segment.owners[group.at()] == domains_.self()) {
        append(owners_[segment.owners], storage, partition, segment.range, name);
      }
    }
  }

  // "" or what differs, and whose.
  [[nodiscard]] ho::Result<std::string> compare() const {
    HORING_ASSIGN(std::string difference, compare(domains_.world(), world_, nullptr));
    for (const auto& [owners, common] : owners_) {
      HORING_ASSIGN(const std::string one, compare(domains_.inter(owners), common, &owners));
      difference += difference.empty() ? one : "";
    }
    return difference;
  }

 private:
  static void append(Common& common,
                     const Storage& storage,
                     const Partition& partition,
                     const Range& range,
                     const std::string& name) {
    const std::span elements(static_cast<const std::byte*>(storage.at(range.begin)),
                             range.count() * ho::size_bytes(storage.dtype()));
    common.hashes.push_back(ho::Hash().add(elements).value());
    // Whoever reads it knows of no padding.
    const uint64_t end = std::min(range.end, partition.element_count());
    common.names.push_back(name + ", elements " + std::to_string(range.begin) + " to " +
                           std::to_string(end - 1));
  }

  // `owners`: global ranks by rank of the communicator; the world's order where null.
  [[nodiscard]] ho::Result<std::string> compare(ho_comm* comm,
                                                const Common& common,
                                                const std::vector<ho::GlobalRank>* owners) const {
    if (comm == nullptr || common.hashes.empty()) {
      return std::string();
    }
    const std::vector<ho::GlobalRank> ranks =
        owners != nullptr ? *owners : world_order(domains_.groups());
    HORING_ASSIGN(const auto all, all_gather_values(comm, common.hashes, timeout_ms_));
    for (size_t i = 0; i < common.hashes.size(); ++i) {
      for (size_t rank = 1; rank < ranks.size(); ++rank) {
        if (all[rank * common.hashes.size() + i] != all[i]) {
          return "rank " + std::to_string(ranks[rank].value()) + " differs from rank " +
                 std::to_string(ranks[0].value()) + " in " + common.names[i];
        }
      }
    }
    return std::string();
  }

  const Domains& domains_;
  uint64_t timeout_ms_;
  Common world_;
  std::map<std::vector<ho::GlobalRank>, Common> owners_;
};

}  // namespace

// What differs, "" for nothing. Every rank that this one shares a copy with says the same.
ho::Result<std::string> StepRunner::drift() const {
  Copies copies(*domains_, config_.timeout_ms);
  for (size_t u = 0; u < units_.size(); ++u) {
    const std::string unit = "unit " + std::to_string(u) + " (" + config_.units[u].name + "), ";
    const UnitState& state = units_[u];
    copies.add(
        state.parameters, config_.strategy.parameters, layouts_[u].trained, unit + "parameters");
    copies.add(state.frozen, config_.frozen, layouts_[u].frozen, unit + "frozen parameters");
    for (const Storage& array : state.optimizer) {
      copies.add(array, config_.strategy.optimizer, layouts_[u].trained, unit + "optimizer state");
    }
  }
  HORING_ASSIGN(std::string difference, copies.compare());
  if (domains_->world() != nullptr) {
    const uint64_t drifted = difference.empty() ? 0 : 1;
    HORING_ASSIGN(const auto all,
                  all_gather_values(domains_->world(), {&drifted, 1}, config_.timeout_ms));
    if (drifted == 0 && *std::max_element(all.begin(), all.end()) != 0) {
      difference = "other ranks know in what";
    }
  }
  return difference;
}

ho::Status StepRunner::check_drift() {
  HORING_TRY(between_steps("check_drift"));
  HORING_TRY(synchronize());
  const std::string after = "after step " + std::to_string(steps_);
  const auto difference = drift();
  HORING_TRY(break_unless_ok(difference.status(), "comparing copies of states " + after));
  if (difference->empty()) {
    return {};
  }
  // Every rank finds out, so nobody needs to be told by an abort.
  broken_ = {ho::StatusCode::kMismatch,
             after + " copies of the same state differ: " + *difference +
                 "; load a checkpoint, and look for a computation that ranks did not do alike"};
  return broken_;
}

ho::Status StepRunner::read_masters(uint32_t unit, std::span<float> trained) {
  HORING_TRY(may_read("read_masters", unit, trained.size(), &UnitShape::trained));
  return read_whole("read_masters",
                    unit,
                    {units_[unit].master(),
                     config_.strategy.optimizer,
                     layouts_[unit].trained,
                     trained_routes_[unit]},
                    trained);
}

ho::Status StepRunner::read_frozen(uint32_t unit, std::span<float> frozen) {
  HORING_TRY(may_read("read_frozen", unit, frozen.size(), &UnitShape::frozen));
  return read_whole(
      "read_frozen",
      unit,
      {units_[unit].frozen, config_.frozen, layouts_[unit].frozen, frozen_routes_[unit]},
      frozen);
}

ho::Status StepRunner::may_read(const char* what,
                                uint32_t unit,
                                uint64_t room,
                                uint64_t UnitShape::*count) {
  HORING_TRY(between_steps(what));
  HORING_TRY(synchronize());
  // Before this rank's own arguments are looked at: the others may have given right ones.
  HORING_TRY(agree_on_read(what, unit, room));
  if (unit < units_.size() && room == config_.units[unit].*count) {
    return {};
  }
  if (unit < units_.size() && config_.units[unit].shares) {
    return shares_another(what, unit);
  }
  const std::string asked = std::string(what) + ": ";
  if (unit >= units_.size()) {
    return {ho::StatusCode::kInvalidArgument,
            asked + "there is no unit " + std::to_string(unit) + ", the last is " +
                std::to_string(units_.size() - 1)};
  }
  return {ho::StatusCode::kInvalidArgument,
          asked + "room for " + std::to_string(room) + " elements of unit " + std::to_string(unit) +
              " (" + config_.units[unit].name + "), which has " +
              std::to_string(config_.units[unit].*count)};
}

ho::Status StepRunner::read_whole(const char* what,
                                  uint32_t unit,
                                  const WholeOf& of,
                                  std::span<float> values) {
  const ho::DType dtype = of.storage.dtype();
  const uint64_t bytes = of.partition.padded_count() * ho::size_bytes(dtype);
  if (bytes == 0) {
    return {};
  }
  if (of.scope == Scope::kReplicated) {
    unscale(dtype, of.storage.at(0), 1, values);
    return {};
  }
  HORING_ASSIGN(const Buffer whole, ledger_.allocate(Purpose::kScratch, bytes));
  Transfer transfer(ledger_, {config_.algorithm, config_.timeout_ms});
  ho::Status status =
      transfer.gather(of.routes.of(domain_of(of.scope)), of.storage, Place(whole.get(), dtype));
  if (status.ok()) {
    status = transfer.finish();
  }
  HORING_TRY(break_unless_ok(status,
                             std::string(what) + " of unit " + std::to_string(unit) + " (" +
                                 config_.units[unit].name + ") after step " +
                                 std::to_string(steps_)));
  unscale(dtype, whole.get(), 1, values);
  return {};
}

ho::Status StepRunner::agree_on_progress(ho_comm* comm) const {
  const LossScaleState scale = scale_.state();
  const std::array<uint64_t, 5> mine{applied_,
                                     std::bit_cast<uint64_t>(scale.value),
                                     scale.good_steps,
                                     domains_->self().value(),
                                     torn_ ? uint64_t{1} : 0};
  HORING_ASSIGN(const auto all, all_gather_values(comm, mine));
  const auto refused = [](size_t rank, const std::string& why) {
    return ho::Status(ho::StatusCode::kMismatch, "rejoin: rank " + std::to_string(rank) + why);
  };
  for (size_t rank = 0; rank * mine.size() < all.size(); ++rank) {
    const uint64_t* const theirs = &all[rank * mine.size()];
    if (theirs[3] != rank) {
      return refused(rank,
                     " of the new communicator was rank " + std::to_string(theirs[3]) +
                         "; shards go by rank, so every rank must keep its number");
    }
    if (theirs[4] != 0) {
      return refused(rank, "'s optimizer failed in the middle of an update; load a checkpoint");
    }
    if (theirs[0] != all[0]) {
      return refused(rank,
                     " has applied " + std::to_string(theirs[0]) + " steps, rank 0 " +
                         std::to_string(all[0]) +
                         ": the step that failed reached only some of them; load a checkpoint");
    }
    if (theirs[1] != all[1] || theirs[2] != all[2]) {
      return refused(rank,
                     " has another loss scale than rank 0: the step that failed overflowed, and "
                     "only some of them know; load a checkpoint");
    }
  }
  return {};
}

// As after that step.
void StepRunner::go_on_from(uint64_t step) {
  steps_ = step;
  times_ended_.assign(times_ended_.size(), steps_);
  for (size_t c = 0; c < kChannelCount; ++c) {
    next_[c] = steps_ * queues_[c].size();
  }
  in_step_ = false;
  step_micro_batches_ = plan_.shape.micro_batches;
  computing_ = false;
  own_not_finite_ = {};
  counted_ = {};
  step_since_ = std::chrono::steady_clock::now();
}

ho::Status StepRunner::rejoin(ho_comm* comm) {
  for (auto& channel : running_) {
    channel.clear();
  }
  ends_.reset();  // before its communicator
  // Until it ends well: what was under way is gone.
  if (broken_.ok()) {
    broken_ = {ho::StatusCode::kAborted, "this runner's rejoin() failed"};
  }
  const ho::GroupMap groups = domains_->groups();
  HORING_TRY(agree_on_progress(comm));
  HORING_ASSIGN(Domains domains, Domains::make(comm, groups));
  domains_ = std::make_unique<Domains>(std::move(domains));
  ends_ = std::make_unique<StepEnds>(domains_->parent(), config_.timeout_ms);
  make_routes();
  go_on_from(applied_);
  broken_ = {};
  return break_unless_ok(restore_parameters(),
                         "restoring parameters after step " + std::to_string(steps_));
}

// Parameters from masters, as an update leaves them.
ho::Status StepRunner::restore_parameters() {
  for (size_t u = 0; u < units_.size(); ++u) {
    UnitState& unit = units_[u];
    unit.sums.zero();
    for (const Range& range : unit.master().ranges()) {
      round_to(config_.parameter_dtype,
               {reinterpret_cast<const float*>(unit.master().at(range.begin)), range.count()},
               unit.parameters.at(range.begin));
    }
  }
  for (ActionId id = 0; id < plan_.actions.size(); ++id) {
    if (plan_.actions[id].phase == Phase::kSyncP) {
      Transfer transfer(ledger_, {config_.algorithm, config_.timeout_ms});
      const ho::Status status = start_gather(plan_.actions[id], id, transfer);
      const ho::Status finished = transfer.finish();
      const ho::Status& first = status.ok() ? finished : status;
      if (!first.ok()) {
        return first.with_context(describe(plan_, plan_.actions[id]));
      }
    }
  }
  return {};
}

}  // namespace paro
