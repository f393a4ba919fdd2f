#include "run/change.hpp"

#include <array>
#include <exception>
#include <new>
#include <utility>

#include "run/agreement.hpp"

namespace paro {
namespace {

// The letters of the strategy, and that of frozen parameters.
uint64_t number_of(const NewStrategy& wanted) {
  const std::string text = letters(wanted.strategy) + letter(wanted.frozen);
  uint64_t number = 0;
  for (const char one : text) {
    number = number << 8U | static_cast<unsigned char>(one);
  }
  return number;
}

std::string change_text(uint64_t number) {
  std::string text;
  for (const uint64_t shift : {24U, 16U, 8U}) {
    text += static_cast<char>(number >> shift & 0xFFU);
  }
  return text + " (frozen parameters at " + static_cast<char>(number & 0xFFU) + ")";
}

ho::Result<Snapshot> snapshot_of(StepRunner& runner) {
  try {
    return runner.between_steps().snapshot();
  } catch (const std::bad_alloc&) {
    return ho::Status(ho::StatusCode::kOutOfMemory,
                      "no memory to keep this rank's share of states");
  }
}

ho::Status agree_on(ho_comm* comm, const NewStrategy& wanted, uint64_t timeout_ms) {
  const std::array<uint64_t, 1> mine{number_of(wanted)};
  HORING_ASSIGN(const auto all, all_gather_values(comm, mine, timeout_ms));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      return {ho::StatusCode::kMismatch,
              "change_strategy: rank 0 changes to " + change_text(all[0]) + ", rank " +
                  std::to_string(rank) + " to " + change_text(all[rank]) +
                  "; give all ranks the same"};
    }
  }
  return {};
}

struct Parts {
  OwnedComm comm;
  Snapshot snapshot;
};

// Everything that can fail while the old runner is still there.
ho::Result<Parts> take_apart(StepRunner& runner, const ho::Result<NewStrategy>& input) {
  HORING_TRY(runner.synchronize());
  const uint64_t timeout = runner.config().timeout_ms;
  HORING_ASSIGN(OwnedComm comm,
                runner.between_steps().new_communicator("change_strategy", timeout));
  HORING_TRY(all_ok(comm.get(), input.status(), timeout));
  HORING_TRY(agree_on(comm.get(), *input, timeout));
  auto snapshot = snapshot_of(runner);
  HORING_TRY(all_ok(comm.get(), snapshot.status(), timeout));
  HORING_TRY(
      same_loads(comm.get(), snapshot->loads, runner.config().units, "change_strategy", timeout));
  return Parts{std::move(comm), std::move(snapshot).value()};
}

// What is not memory of states may run out too.
template <typename Work>
ho::Status without_exceptions(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return {ho::StatusCode::kOutOfMemory, error.what()};
  }
}

}  // namespace

ho::Status change_strategy(std::unique_ptr<StepRunner>& runner,
                           const ho::Result<NewStrategy>& input) {
  HORING_ASSIGN(const Parts parts, take_apart(*runner, input));
  const RunnerConfig before = runner->config();
  RunnerConfig after = before;
  after.strategy = input->strategy;
  after.frozen = input->frozen;
  after.budget_bytes = input->budget_bytes;
  const ho::GroupMap groups = runner->groups();
  const StepRunner::History history = runner->history();
  Memory& memory = runner->shards().ledger.memory();
  runner.reset();
  const auto make = [&](const RunnerConfig& config) {
    ho::Status status = without_exceptions([&]() -> ho::Status {
      const uint64_t timeout = config.timeout_ms;
      HORING_ASSIGN(runner, StepRunner::create(parts.comm.get(), groups, config, memory, timeout));
      HORING_TRY(runner->between_steps().restore(parts.snapshot, timeout));
      return runner->carry_over(history);
    });
    if (!status.ok()) {
      runner.reset();
    }
    return status;
  };
  const ho::Status changed = make(after);
  if (changed.ok()) {
    return {};
  }
  const ho::Status restored = make(before);
  return restored.ok()
             ? changed.with_context("the job goes on with " + letters(before.strategy))
             : changed.with_context(
                   "this runner is lost: the strategy could not be changed, nor the old one "
                   "restored (" +
                   restored.message() + "); destroy it, make another and load a checkpoint");
}

}  // namespace paro
