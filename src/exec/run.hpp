// One operation in flight on one rank: the state of its queues, and make_progress(), which moves
// what PieceProgress says can move. A run blocks nowhere and knows no thread; the engine drives it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "exec/binding.hpp"
#include "exec/call.hpp"
#include "exec/op_report.hpp"
#include "exec/piece_progress.hpp"
#include "exec/recorder.hpp"
#include "exec/schedule.hpp"
#include "exec/trace.hpp"
#include "transport/transport.hpp"

namespace ho {

// A failure inside a run: the error, and whom it blames where it is a link.
struct RunError {
  Status status;
  std::optional<GlobalRank> peer;
  bool other_call = false;  // the peer's message is of another call than the run's
};

// What a run that cannot move now waits for.
struct RunWait {
  bool network = false;         // some message between groups can only move when a socket is ready
  uint32_t intra_arrivals = 0;  // messages inside the group before it is worth waking up; 0: none
  bool intra_releases = false;
  bool network_releases = false;  // some piece, or the end, waits for sends to be released alone
};

class Run {
 public:
  Run(Call call,
      std::shared_ptr<const Schedule> schedule,
      const BindingLimits& limits,
      TraceBuffer* trace);

  [[nodiscard]] const Call& call() const { return call_; }
  [[nodiscard]] uint64_t scratch_bytes() const { return binding_.scratch_bytes(); }
  [[nodiscard]] uint64_t device_scratch_bytes() const {
    return binding_.device_scratch_bytes() + scaled_input_bytes();
  }
  // Before the first make_progress(): links' counters are read, the clock starts.
  void start(std::byte* scratch, std::byte* device_scratch);
  // Moves what can be moved, some pieces at most; *moved says whether anything was.
  [[nodiscard]] std::optional<RunError> make_progress(bool* moved);
  [[nodiscard]] bool finished() const { return pieces_.done() == pieces_.total(); }
  [[nodiscard]] RunWait wait_state() const;
  // "inter step 2 of rail 1: recv from rank 5 (phase reduce_scatter)", at most three of them.
  [[nodiscard]] std::string waiting_text() const;
  // The one of them that has waited longest.
  [[nodiscard]] OperationWait longest_wait() const;
  // The same in numbers as far as pieces go, without what it waits for.
  void note_pieces(OperationProgress& progress) const {
    progress.first_piece_ns =
        progress.first_piece_ns == 0 ? first_piece_ns_ : progress.first_piece_ns;
    progress.last_piece_ns = last_piece_ns_;
    progress.done_pieces = pieces_.done();
    progress.pieces = pieces_.total();
  }
  // About how many bytes all ops of this rank move, copies counted.
  [[nodiscard]] uint64_t moved_bytes() const {
    return pieces_.total() * binding_.largest_piece_bytes();
  }
  [[nodiscard]] uint64_t done_pieces() const { return pieces_.done(); }
  // Times and bytes so far.
  [[nodiscard]] OpReport report() const;
  // Whether all that the device has to do was started.
  [[nodiscard]] bool enqueued() const;
  // Once it has ended.
  void free_scaled_input() {
    call_.scaled.reset();
    call_.scaled_bytes = 0;
  }
  void add_wait_ns(int64_t ns) { report_.wait_ns += static_cast<uint64_t>(ns); }

 private:
  // Begun on the device, and through when the ticket has completed.
  struct Started {
    uint32_t op;
    device::Ticket ticket;
    bool views;  // a message of the link, which is released then
  };
  struct Queue {
    const QueueLayout* layout = nullptr;
    size_t position = 0;  // in layout->ops
    uint32_t piece = 0;   // of that op
    uint32_t turn = 0;    // over the ops, one pass of each
    bool ended = false;
    // Messages of more parts than a link takes, as one part each; kept until the run ends.
    std::vector<std::vector<std::byte>> packed;
    bool packing = false;   // the last of them is the head's
    bool narrowed = false;  // the head's fp32 sums were rounded for the wire already
    uint32_t messages = 0;  // begun on this link and direction, for Frame::op_index
    int64_t head_since_ns = 0;
    uint64_t released_base = 0;
    uint64_t released = 0;
    std::deque<uint32_t> unreleased;  // ops of accepted sends
    std::vector<Started> started;     // receives and copies that the device is at; few
    [[nodiscard]] uint32_t op() const { return layout->ops[position]; }
  };

  void settle(Queue& queue);   // moves the cursor to the next piece there is
  void advance(Queue& queue);  // past the head
  [[nodiscard]] Frame frame_for(const Queue& queue, const PlanOp& op) const;
  // At most one piece of each queue from `first` on, before `end`.
  [[nodiscard]] std::optional<RunError> move_one_of_each(size_t first, size_t end, bool* moved);
  // At most one piece of all queues inside the group.
  [[nodiscard]] std::optional<RunError> move_one_inside(bool* moved);
  // At most one piece of the queue; an error names operation and piece, and blames the peer.
  [[nodiscard]] std::optional<RunError> move_one(Queue& queue, bool* moved);
  // Its head, if that is ready, with the bookkeeping of what has moved or was released.
  [[nodiscard]] Result<bool> move_head(Queue& queue);
  // The head's bytes alone, by the kind of its op; false: not now. What the device is to do is in
  // begun_ then.
  [[nodiscard]] Result<bool> carry_out_head(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> send_head(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> recv_head(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> recv_scattered(Queue& queue,
                                            const PlanOp& op,
                                            std::span<const Bytes> parts);
  [[nodiscard]] Result<bool> reduce_head(Queue& queue, const PlanOp& op);
  void copy_head(const Queue& queue, const PlanOp& op);
  // The same where the memory is a device's (device_run.cpp).
  [[nodiscard]] bool on_device(Space space, const PlanOp& op) const;
  [[nodiscard]] bool device_adds(const PlanOp& op) const {
    return on_device(op.src, op) || on_device(op.dst, op) || call_.device.adds_pinned;
  }
  // Behind device scratch; an all-reduce goes on in its output.
  [[nodiscard]] uint64_t scaled_input_bytes() const;
  void scale_into(std::byte* scratch);
  [[nodiscard]] Result<bool> scaled();
  [[nodiscard]] static device::Direction arrives(const Queue& queue);
  [[nodiscard]] Result<ConstBytes> view_for_device(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> recv_to_device(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> reduce_on_device(Queue& queue, const PlanOp& op);
  [[nodiscard]] Result<bool> copy_on_device(Queue& queue, const PlanOp& op);
  [[nodiscard]] bool collect_completed(Queue& queue);
  [[nodiscard]] Result<bool> begun(std::optional<device::Ticket> ticket, bool views);
  [[nodiscard]] bool waits_for_others(const Queue& queue) const;
  [[nodiscard]] OperationWait wait_of(const Queue& queue) const;
  void tell_host_reads(const PlanOp& op, uint32_t piece) const;
  void add_incoming(const PlanOp& op, uint32_t piece, ConstBytes incoming);
  [[nodiscard]] bool collect_released(Queue& queue);
  void account(const Queue& queue, const PlanOp& op, uint64_t bytes, int64_t began_ns);
  [[nodiscard]] std::string queue_head_text(const Queue& queue) const;
  // Whether all of these are sends between groups that were accepted and not released.
  [[nodiscard]] bool are_unreleased(const std::vector<uint32_t>& ops) const;
  // How many messages inside the group are worth a wake-up, `needed` of which unblock a queue.
  void ask_for_arrivals(RunWait& wait, uint32_t needed, bool barrier_blocked) const;

  Call call_;
  std::shared_ptr<const Schedule> schedule_;
  Binding binding_;
  TraceBuffer* trace_;
  // In the schedule's order: between groups, inside the group, local copies.
  std::vector<Queue> queues_;
  size_t first_inside_ = 0;
  size_t first_copy_ = 0;
  size_t next_inside_ = 0;  // whose turn it is, from first_inside_
  PieceProgress pieces_;
  uint64_t intra_messages_left_ = 0;
  std::optional<Started> begun_;  // by the head that is being carried out
  std::byte* scaled_ = nullptr;  // input times its factor, which is not there yet; null: nothing is
  std::optional<device::Ticket> scaling_;
  OpReport report_;
  int64_t started_ns_ = 0;
  int64_t inter_began_ns_ = 0;
  int64_t first_piece_ns_ = 0;
  int64_t last_piece_ns_ = 0;
  uint64_t intra_since_inter_ns_ = 0;
};

}  // namespace ho
