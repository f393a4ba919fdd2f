// The collectives of a communicator on this rank: a queue for each channel, whose first operation
// moves while the others wait behind it, and how far each channel has come.
//
// Knows no thread: guarded by the engine's mutex, and moved by the driver.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exec/channel_state.hpp"
#include "exec/collective_operation.hpp"
#include "exec/leave_notices.hpp"

namespace ho {

class CollectiveQueues {
 public:
  explicit CollectiveQueues(const CollectiveContext& context) : context_(context) {}
  CollectiveQueues(const CollectiveQueues&) = delete;
  CollectiveQueues& operator=(const CollectiveQueues&) = delete;
  ~CollectiveQueues() = default;

  // At the end of its channel. It is refused, and gets no number, where everything has ended
  // (`cause`), or where it could not complete without a rank that has left.
  [[nodiscard]] Result<std::shared_ptr<Operation>> submit(Submission&& submission,
                                                          const std::optional<Status>& cause,
                                                          const LeaveNotices& notices);
  // Moves the first of each channel. true: something moved or ended.
  [[nodiscard]] bool step(std::optional<RunError>& error);
  // Since the last call: an operation has ended or can be joined, which some thread may wait for.
  [[nodiscard]] bool take_woken() { return std::exchange(woken_, false); }
  void end_all(const Status& cause);
  // Ends what cannot complete without a rank that has left.
  [[nodiscard]] EndedByLeave end_of_left(const LeaveNotices& notices);

  [[nodiscard]] bool active() const { return !queues_.empty(); }
  [[nodiscard]] bool any_background() const;
  // Whether some wait for what the caller's stream had before them, which wakes nobody.
  [[nodiscard]] bool any_awaits_entry() const;
  // Of the first operations: about how much the largest moves.
  [[nodiscard]] uint64_t largest_bytes() const;
  // Adds what the first operations wait for, and the earliest deadline of all.
  void add_waits(RunWait* wait, Deadline* earliest) const;
  // Of the first operations: a driver has slept so long.
  void add_wait_ns(int64_t ns);
  // For the recorder: nothing of them can move now.
  void note_waits();
  // The error of an operation whose deadline has passed.
  [[nodiscard]] std::optional<RunError> late() const;

  // Those of the first operations that the other ranks are to be asked about now. *next: when to
  // look again.
  [[nodiscard]] std::vector<MadeCall> take_due_questions(Deadline now, Deadline* next);
  // The first operations, and some calls before each.
  [[nodiscard]] std::vector<MadeCall> calls_up_to_first() const;
  // Not ok: a peer waits in a call, and this rank has made another one in its place.
  [[nodiscard]] Status compare(const MadeCall& peer) const {
    return context_.recorder->compare(peer);
  }

  // Of the channels of collectives, idle ones too, so that a rank that has not called yet is named.
  [[nodiscard]] std::vector<ChannelState> states() const;
  [[nodiscard]] std::array<ChannelProgress, kChannelCount> progress() const;
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  using Queue = std::deque<std::shared_ptr<CollectiveOperation>>;
  struct Counters {
    uint32_t entered = 0;
    uint32_t completed = 0;
    std::optional<Collective> last{};  // entered
  };
  [[nodiscard]] bool step_first(Queue& queue, std::optional<RunError>& error);
  void end(CollectiveOperation& operation, const Status& status);

  const CollectiveContext context_;
  std::map<uint32_t, Queue> queues_;  // by channel; none is empty
  std::array<Counters, kChannelCount> counters_;
  uint32_t labelled_ = 0;  // entered, with a label
  bool woken_ = false;
};

}  // namespace ho
