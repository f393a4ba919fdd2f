// What one rank has of a job: its shards of all states, the communicators and routes that they move
// on, and the error that ended it all. A struct: whatever reads, moves or changes states takes it
// as an argument.
//
// Owner: StepRunner, on its thread, like everything that takes it; domains->abort() from any.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/domains.hpp"
#include "run/routes.hpp"
#include "run/runner_config.hpp"
#include "run/transfer.hpp"
#include "state/unit_state.hpp"
#include "step/buckets.hpp"
#include "step/participants.hpp"

namespace paro {

struct Shards {
  Shards(RunnerConfig from, Memory& memory) : config(std::move(from)), ledger(memory) {}

  RunnerConfig config;
  Ledger ledger;
  std::vector<UnitLayout> layouts;
  BucketOffsets bucket_offsets;
  std::unique_ptr<Domains> domains;
  std::vector<Routes> trained_routes;
  std::vector<Routes> frozen_routes;
  std::map<uint32_t, Routes> merged_routes;  // by a bucket's first unit
  std::vector<UnitState> units;
  ControlMemory control;  // of the present step
  ho::Status broken;      // the first error that ended the runner, or ok

  [[nodiscard]] ho::GlobalRank self() const { return domains->self(); }
  // The ranks of domains->world(), by their number there.
  [[nodiscard]] std::vector<ho::GlobalRank> ranks() const { return world_order(domains->groups()); }
  [[nodiscard]] CollectiveOptions transfer_options() const {
    return {config.algorithm, config.timeout_ms};
  }
  // Of a track of the step plan, each on its stream where there are streams. What is not of a step
  // is done on that of computation.
  [[nodiscard]] const Operations& operations(Track track) const {
    return ledger.operations(static_cast<size_t>(track));
  }
  // After `domains` have changed; `plan` has the buckets.
  void make_routes(const StepPlan& plan);
  // How long this rank waits for its device once something has failed: an abort lets streams go on,
  // unless something else holds them.
  [[nodiscard]] uint64_t wait_after_failure_ms() const;
  // `what` was being done: `status` is ok, or breaks the runner, and ends the others' waits.
  [[nodiscard]] ho::Status break_unless_ok(const ho::Status& status, const std::string& what);
  // Collective: a number of every rank, in the order of ranks(). Breaks the runner where it fails.
  [[nodiscard]] ho::Result<std::vector<uint64_t>> gather(uint64_t mine, const std::string& what);
  // Breaks it for a reason that all ranks find out, so that nobody needs to be told by an abort:
  // that could reach some of them before they have.
  [[nodiscard]] ho::Status break_on_all(const std::string& why);
};

}  // namespace paro
