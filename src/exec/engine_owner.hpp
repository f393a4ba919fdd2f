// What an engine tells its owner, a communicator, and asks of it: the only way up from src/exec.
//
// The failure path is a circle through it, and there is no other:
//
//   Engine --on_failure()--> owner (src/comm: EngineUpcalls, JobControl) --report--> coordinator
//   Engine::fail() on every rank <-- JobControl <--one failure decision-- (src/bootstrap)
#pragma once

#include <memory>
#include <optional>

#include "base/index.hpp"
#include "base/status.hpp"
#include "exec/call.hpp"
#include "exec/run.hpp"
#include "exec/schedule.hpp"

namespace ho {

// What an operation goes on with, in its place of the channel, when its run has ended. The same on
// all ranks.
struct NextPart {
  Call call;
  std::shared_ptr<const Schedule> schedule;
};

// What the owner makes that part from. Defined by the owner; the engine only keeps it.
struct PartToCome;

// All are called by the driver, the last two with the engine's lock held, rail_to() also by a
// thread that submits a message. None of them may call the engine's functions that take the lock
// where it is held.
class EngineOwner {
 public:
  EngineOwner() = default;
  EngineOwner(const EngineOwner&) = delete;
  EngineOwner& operator=(const EngineOwner&) = delete;
  // An operation has failed on this rank; once per engine. The owner then calls Engine::fail() with
  // the outcome for all ranks; until that, or at most `Failures::kDecisionTimeout`, the operation
  // waits.
  virtual void on_failure(const RunError& error) = 0;
  // An operation has not moved for long, or a message is of another call: what the other ranks
  // should compare with their own call.
  virtual void on_doubt(const MadeCall& call) = 0;
  // The rail of messages point to point with that peer. Nothing: shared memory.
  [[nodiscard]] virtual std::optional<RailIndex> rail_to(GlobalRank peer) const = 0;
  // An error fails the communicator; kUnsupported, which all ranks must find, ends this
  // operation alone.
  [[nodiscard]] virtual Result<NextPart> make_next_part(const PartToCome& part) = 0;

 protected:
  ~EngineOwner() = default;
};

}  // namespace ho
