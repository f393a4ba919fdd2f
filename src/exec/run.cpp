// A run turns a schedule into messages.
//
// Each queue (a link and a direction) has a cursor over turn, op and piece, in that order. Only
// the piece under the cursor can move, and only when the pieces that it depends on are through; so
// a whole operation's progress is one number per op. A piece of a receive is through when its bytes
// are where they belong; of a send, when its memory may be used again.
#include "exec/run.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "base/copy.hpp"
#include "exec/sums.hpp"
#include "transport/device_link.hpp"

namespace ho {
namespace {

// Pieces that move in one call before the engine looks at sockets and deadlines again.
constexpr int kTurnsPerCall = 16;
constexpr uint64_t kBytesPerWake = 128U << 10;

std::vector<std::byte> joined_copy(std::span<const ConstBytes> parts) {
  std::vector<std::byte> copy;
  for (const ConstBytes part : parts) {
    copy.insert(copy.end(), part.begin(), part.end());
  }
  return copy;
}

}  // namespace

std::string Call::name() const {
  return fmt::format("{}{} #{} ({})",
                     to_string(collective),
                     counts_per_pair ? "_counts" : "",
                     sequence,
                     to_string(algorithm));
}

Frame Call::frame() const {
  Frame frame;
  frame.collective = counts_per_pair ? kAllToAllCounts : static_cast<uint8_t>(collective);
  frame.algorithm = static_cast<uint8_t>(algorithm);
  frame.dtype = static_cast<uint8_t>(dtype);
  frame.op = static_cast<uint8_t>(op);
  frame.flags = static_cast<uint8_t>((fp32_sums ? kFp32Sums : 0) | (labelled ? kLabelled : 0));
  frame.communicator = communicator;
  frame.digest = digest;
  frame.sequence = sequence;
  frame.count = count;
  return frame;
}

Run::Run(Call call,
         std::shared_ptr<const Schedule> schedule,
         const BindingLimits& limits,
         TraceBuffer* trace)
    : call_(std::move(call)),
      schedule_(std::move(schedule)),
      binding_(schedule_->built.plan, schedule_->built.mine, call_, limits),
      trace_(trace),
      pieces_(*schedule_, binding_) {
  report_.algorithm = call_.algorithm;
  queues_.reserve(schedule_->queues.size());
  for (const QueueLayout& layout : schedule_->queues) {
    Queue& queue = queues_.emplace_back();
    queue.layout = &layout;
    first_inside_ += layout.link != nullptr && layout.lane == Lane::kInter ? 1 : 0;
    first_copy_ += layout.link != nullptr ? 1 : 0;
    if (layout.link != nullptr && !layout.over_network && !layout.sends) {
      for (const uint32_t index : layout.ops) {
        intra_messages_left_ += binding_.op_pieces(schedule_->op(index));
      }
    }
  }
}

void Run::start(std::byte* scratch, std::byte* device_scratch) {
  binding_.set_scratch(scratch, device_scratch);
  if (call_.device.factor) {
    scale_into(device_scratch);
  }
  started_ns_ = now_ns();
  for (Queue& queue : queues_) {
    if (queue.layout->link != nullptr && queue.layout->sends) {
      queue.released_base = queue.layout->link->released();
    }
    if (binding_.pass_count() > 0 && !queue.layout->ops.empty()) {
      queue.piece = binding_.op_pieces_in(schedule_->op(queue.op()), 0).first;
    }
    settle(queue);
  }
}

void Run::settle(Queue& queue) {
  while (!queue.ended) {
    const PlanOp& op = schedule_->op(queue.op());
    if (queue.piece < binding_.op_pieces_in(op, queue.turn).end) {
      return;
    }
    if (++queue.position == queue.layout->ops.size()) {
      queue.position = 0;
      queue.ended = ++queue.turn == binding_.turn_count();
    }
    queue.piece = binding_.op_pieces_in(schedule_->op(queue.op()), queue.turn).first;
  }
}

void Run::advance(Queue& queue) {
  ++queue.piece;
  ++queue.messages;
  queue.narrowed = false;
  queue.packing = false;
  queue.head_since_ns = 0;
  settle(queue);
}

Frame Run::frame_for(const Queue& queue, const PlanOp& op) const {
  Frame frame = call_.frame();
  frame.phase = static_cast<uint8_t>(op.phase);
  frame.op_index = queue.messages;
  frame.payload_bytes = static_cast<uint32_t>(binding_.wire_bytes(op, queue.piece));
  return frame;
}

// Lanes share this thread fairly when the lane between groups checks for work after every piece
// that moved inside, and the queues inside the group take turns. Local copies use the time in which
// nothing else can move.
std::optional<RunError> Run::make_progress(bool* moved) {
  *moved = false;
  if (scaled_ != nullptr) {
    const Result<bool> through = scaled();
    if (!through.ok()) {
      return RunError{through.status().with_context(call_.name()), std::nullopt};
    }
    if (!*through) {
      return std::nullopt;
    }
  }
  bool progress = true;
  for (int turn = 0; turn < kTurnsPerCall && progress; ++turn) {
    progress = false;
    auto error = move_one_of_each(0, first_inside_, &progress);
    if (!error) {
      error = move_one_inside(&progress);
    }
    if (!error && !progress) {
      error = move_one_of_each(first_copy_, queues_.size(), &progress);
    }
    if (error) {
      return error;
    }
    *moved |= progress;
  }
  if (finished() && report_.total_ns == 0) {
    report_.total_ns = static_cast<uint64_t>(now_ns() - started_ns_);
  }
  return std::nullopt;
}

std::optional<RunError> Run::move_one_of_each(size_t first, size_t end, bool* moved) {
  for (size_t at = first; at < end; ++at) {
    if (auto error = move_one(queues_[at], moved)) {
      return error;
    }
  }
  return std::nullopt;
}

std::optional<RunError> Run::move_one_inside(bool* moved) {
  const size_t inside = first_copy_ - first_inside_;
  bool moved_one = false;
  for (size_t tried = 0; tried < inside && !moved_one; ++tried) {
    Queue& queue = queues_[first_inside_ + next_inside_];
    next_inside_ = next_inside_ + 1 == inside ? 0 : next_inside_ + 1;
    if (auto error = move_one(queue, &moved_one)) {
      return error;
    }
  }
  *moved |= moved_one;
  return std::nullopt;
}

std::optional<RunError> Run::move_one(Queue& queue, bool* moved) {
  const Result<bool> progress = move_head(queue);
  if (!progress.ok()) {
    return RunError{progress.status().with_context(call_.name() + ", " + queue_head_text(queue)),
                    queue.layout->peer,
                    progress.status().code() == StatusCode::kMismatch};
  }
  *moved |= *progress;
  return std::nullopt;
}

Result<bool> Run::move_head(Queue& queue) {
  bool released = queue.layout->sends && collect_released(queue);
  released |= collect_completed(queue);
  if (queue.layout->sends && (call_.device.work != nullptr || !queue.unreleased.empty())) {
    HORING_TRY(queue.layout->link->went_wrong());
  }
  if (queue.ended || !pieces_.ready(queue.op(), queue.piece)) {
    return released;
  }
  const PlanOp& op = schedule_->op(queue.op());
  const int64_t began = now_ns();
  if (queue.head_since_ns == 0) {
    queue.head_since_ns = began;
    if (queue.layout->over_network && inter_began_ns_ == 0) {
      inter_began_ns_ = began;
    }
  }
  HORING_ASSIGN(const bool through, carry_out_head(queue, op));
  if (!through) {
    return released;
  }
  const uint32_t index = queue.op();
  const uint32_t piece = queue.piece;
  if (queue.layout->link != nullptr) {
    account(queue, op, binding_.wire_bytes(op, piece), began);
  }
  advance(queue);
  if (queue.layout->sends) {
    queue.unreleased.push_back(index);
    (void)collect_released(queue);
  } else if (begun_) {
    queue.started.push_back({index, begun_->ticket, begun_->views});
    begun_.reset();
  } else {
    pieces_.add(index);
  }
  return true;
}

bool Run::collect_released(Queue& queue) {
  if (queue.unreleased.empty()) {
    return false;
  }
  const uint64_t released = queue.layout->link->released() - queue.released_base;
  const bool any = released > queue.released;
  for (; queue.released < released && !queue.unreleased.empty(); ++queue.released) {
    pieces_.add(queue.unreleased.front());
    queue.unreleased.pop_front();
  }
  return any;
}

Result<bool> Run::carry_out_head(Queue& queue, const PlanOp& op) {
  const bool by_device =
      op.kind == OpKind::kRecvReduce
          ? device_adds(op)
          : on_device(op.dst, op) || (op.kind == OpKind::kCopy && on_device(op.src, op));
  if (!queue.started.empty() && op.kind != OpKind::kSend && !by_device) {
    return false;  // the host's part must not overtake the device's
  }
  switch (op.kind) {
    case OpKind::kSend:
      return send_head(queue, op);
    case OpKind::kRecv:
      return on_device(op.dst, op) ? recv_to_device(queue, op) : recv_head(queue, op);
    case OpKind::kRecvReduce:
      return device_adds(op) ? reduce_on_device(queue, op) : reduce_head(queue, op);
    case OpKind::kCopy:
      if (on_device(op.src, op) || on_device(op.dst, op)) {
        return copy_on_device(queue, op);
      }
      copy_head(queue, op);
      return true;
  }
  return Status(StatusCode::kInternal, "an op of unknown kind");
}

Result<bool> Run::send_head(Queue& queue, const PlanOp& op) {
  if (call_.fp32_sums && op.src == Space::kScratch && !queue.narrowed) {
    for (const ChunkIndex chunk : op.chunks) {
      narrow_in_place(call_,
                      binding_.address(op.src, chunk, queue.piece),
                      binding_.piece_elements(chunk, queue.piece));
    }
    queue.narrowed = true;
  }
  std::array<ConstBytes, 1> one;
  std::vector<ConstBytes> many;
  std::span<const ConstBytes> parts = one;
  const auto part = [&](ChunkIndex chunk) {
    return ConstBytes(binding_.address(op.src, chunk, queue.piece),
                      binding_.piece_elements(chunk, queue.piece) * binding_.element_bytes());
  };
  if (on_device(op.src, op)) {
    DeviceLink* const link = queue.layout->link->for_device();
    if (link == nullptr) {
      return Status(StatusCode::kInternal,
                    queue.layout->link->to_string() + ": a link for host memory only");
    }
    return link->try_send_from_device(frame_for(queue, op),
                                      joined_parts<ConstBytes>(op.chunks, part));
  }
  if (call_.device.work != nullptr) {
    tell_host_reads(op, queue.piece);
  }
  if (op.chunks.size() == 1) {
    one[0] = part(op.chunks.front());
  } else {
    many = joined_parts<ConstBytes>(op.chunks, part);
    if (many.size() > Link::kMaxParts) {
      if (!queue.packing) {
        queue.packed.push_back(joined_copy(many));
        queue.packing = true;
      }
      many = {ConstBytes(queue.packed.back())};
    }
    parts = many;
  }
  return queue.layout->link->try_send(frame_for(queue, op), parts);
}

Result<bool> Run::recv_head(Queue& queue, const PlanOp& op) {
  std::array<Bytes, 1> one;
  std::vector<Bytes> many;
  std::span<const Bytes> parts = one;
  const auto part = [&](ChunkIndex chunk) {
    return Bytes(binding_.address(op.dst, chunk, queue.piece),
                 binding_.piece_elements(chunk, queue.piece) * binding_.element_bytes());
  };
  if (op.chunks.size() == 1) {
    one[0] = part(op.chunks.front());
  } else {
    many = joined_parts<Bytes>(op.chunks, part);
    if (many.size() > Link::kMaxParts) {
      return recv_scattered(queue, op, many);
    }
    parts = many;
  }
  return queue.layout->link->try_recv(frame_for(queue, op), parts);
}

Result<bool> Run::recv_scattered(Queue& queue, const PlanOp& op, std::span<const Bytes> parts) {
  HORING_ASSIGN(ConstBytes incoming, queue.layout->link->try_view(frame_for(queue, op)));
  if (incoming.data() == nullptr) {
    return false;
  }
  for (const Bytes part : parts) {
    copy_payload(part.data(), incoming.data(), part.size());
    incoming = incoming.subspan(part.size());
  }
  queue.layout->link->release_view();
  return true;
}

Result<bool> Run::reduce_head(Queue& queue, const PlanOp& op) {
  HORING_ASSIGN(const ConstBytes incoming, queue.layout->link->try_view(frame_for(queue, op)));
  if (incoming.data() == nullptr) {
    return false;
  }
  add_incoming(op, queue.piece, incoming);
  queue.layout->link->release_view();
  return true;
}

void Run::add_incoming(const PlanOp& op, uint32_t piece, ConstBytes incoming) {
  for (const ChunkIndex chunk : op.chunks) {
    const uint64_t elements = binding_.piece_elements(chunk, piece);
    const uint64_t bytes = elements * binding_.element_bytes();
    add(call_,
        op,
        {binding_.address(op.dst, chunk, piece),
         binding_.address(op.src, chunk, piece),
         incoming.data(),
         elements});
    incoming = incoming.subspan(bytes);
  }
}

void Run::copy_head(const Queue& queue, const PlanOp& op) {
  for (const ChunkIndex chunk : op.chunks) {
    std::byte* to = binding_.address(op.dst, chunk, queue.piece);
    const std::byte* from = binding_.address(op.src, chunk, queue.piece);
    const uint64_t bytes = binding_.piece_elements(chunk, queue.piece) * binding_.element_bytes();
    if (to != from) {
      copy_payload(to, from, bytes);
    }
  }
}

void Run::account(const Queue& queue, const PlanOp& op, uint64_t bytes, int64_t began_ns) {
  const int64_t now = now_ns();
  first_piece_ns_ = first_piece_ns_ == 0 ? began_ns : first_piece_ns_;
  last_piece_ns_ = now;
  const bool inter = op.lane == Lane::kInter;
  uint64_t& counter = queue.layout->sends
                          ? (inter ? report_.inter_sent_bytes : report_.intra_sent_bytes)
                          : (inter ? report_.inter_received_bytes : report_.intra_received_bytes);
  counter += bytes;
  if (queue.layout->over_network) {
    report_.inter_ns = static_cast<uint64_t>(now - inter_began_ns_);
    report_.overlap_ns = intra_since_inter_ns_;
  } else {
    const auto spent = static_cast<uint64_t>(now - began_ns);
    report_.intra_ns += spent;
    intra_since_inter_ns_ += inter_began_ns_ != 0 ? spent : 0;
    intra_messages_left_ -= queue.layout->sends ? 0 : 1;
  }
  if (trace_ != nullptr) {
    TraceSlice slice;
    slice.begin_ns = inter ? queue.head_since_ns : began_ns;
    slice.end_ns = now;
    slice.bytes = bytes;
    slice.sequence = call_.sequence;
    slice.step = op.step;
    slice.piece = queue.piece;
    // Numbers that a rank gave itself say nothing beside another rank's trace: then the block.
    const Plan& plan = schedule_->built.plan;
    const ChunkIndex chunk = op.chunks.front();
    slice.chunk = plan.own_chunks ? plan.chunks[chunk.at()].block : chunk.value();
    slice.peer = op.peer.value();
    slice.phase = op.phase;
    slice.collective = call_.collective;
    slice.kind = op.kind;
    slice.lane = op.lane;
    slice.rail = static_cast<uint8_t>(op.rail.value());
    trace_->add(slice);
  }
}

// Waking a rank for each message inside the group costs more than moving the message when ranks
// outnumber cores. What matters is the lane between groups: while it waits for a socket only,
// arrivals inside the group can wait for the same wake-up. Where it waits for arrivals inside the
// group, it is woken when as many are there as can unblock it.
RunWait Run::wait_state() const {
  RunWait wait;
  if (started_ns_ == 0) {
    return wait;
  }
  uint32_t needed = 0;
  bool barrier_blocked = false;
  bool all_ended = true;
  for (const Queue& queue : queues_) {
    if (queue.ended) {
      wait.network |= !queue.unreleased.empty() && queue.layout->over_network;
      continue;
    }
    all_ended = false;
    if (pieces_.ready(queue.op(), queue.piece)) {
      wait.network |= queue.layout->over_network;
      wait.intra_releases |= !queue.layout->over_network && queue.layout->sends;
      continue;
    }
    const PieceProgress::Blockers blockers = pieces_.blockers_of(queue.op(), queue.piece);
    barrier_blocked |= blockers.ops.empty();
    wait.intra_releases |= blockers.releases;
    wait.network_releases |= blockers.releases && are_unreleased(blockers.ops);
    if (blockers.intra_messages > 0 && !blockers.network) {
      needed = needed == 0 ? blockers.intra_messages : std::min(needed, blockers.intra_messages);
    }
  }
  wait.network_releases |= all_ended && wait.network;
  ask_for_arrivals(wait, needed, barrier_blocked);
  return wait;
}

bool Run::are_unreleased(const std::vector<uint32_t>& ops) const {
  return std::ranges::all_of(ops, [this](uint32_t op) {
    return std::ranges::any_of(queues_, [op](const Queue& queue) {
      return queue.layout->over_network && std::ranges::count(queue.unreleased, op) > 0;
    });
  });
}

void Run::ask_for_arrivals(RunWait& wait, uint32_t needed, bool barrier_blocked) const {
  if (needed > 0) {
    wait.intra_arrivals = needed;
    wait.intra_releases = true;
  } else if (!wait.network || barrier_blocked) {
    const uint64_t per_wake = std::max<uint64_t>(
        kBytesPerWake / std::max<uint64_t>(binding_.largest_piece_bytes(), 1), 1);
    wait.intra_arrivals = static_cast<uint32_t>(
        barrier_blocked ? 1 : std::min(std::max<uint64_t>(intra_messages_left_, 1), per_wake));
    wait.intra_releases = true;
  }
  // In a flat ring every message is forwarded, so what lies here unread may be what the socket's
  // other end is waiting for, all the way around.
  const bool flat = call_.algorithm == Algorithm::kRing || call_.algorithm == Algorithm::kMultiRing;
  if (flat && wait.intra_arrivals == 0 && intra_messages_left_ > 0) {
    wait.intra_arrivals = 1;
    wait.intra_releases = true;
  }
}

std::string Run::queue_head_text(const Queue& queue) const {
  if (!queue.started.empty()) {
    return fmt::format("{} pieces that the device is at", queue.started.size());
  }
  if (queue.ended) {
    return fmt::format("{} to rank {}: waiting for it to read the last pieces",
                       to_string(queue.layout->lane),
                       queue.layout->peer.value());
  }
  const PlanOp& op = schedule_->op(queue.op());
  const auto& names = schedule_->built.plan.phase_names;
  const std::string phase = op.phase < names.size() ? " (phase " + names[op.phase] + ")" : "";
  const std::string rail =
      op.lane == Lane::kInter ? " of rail " + std::to_string(op.rail.value()) : "";
  if (op.kind == OpKind::kCopy) {
    return "local copy";
  }
  return fmt::format("{} step {}{}: {} rank {}{}",
                     to_string(op.lane),
                     op.step,
                     rail,
                     op.kind == OpKind::kSend ? "send to" : "recv from",
                     op.peer.value(),
                     phase);
}

std::string Run::waiting_text() const {
  if (started_ns_ == 0) {
    return call_.device.work == nullptr ? "" : "waiting for the stream of the call to get to it";
  }
  std::string text;
  std::string last_trouble;
  int listed = 0;
  // First what waits for another rank, then what waits for our own progress.
  for (const Queue& queue : queues_) {
    if (waits_for_others(queue) && listed < 3) {
      text += (listed++ == 0 ? "" : "; ") + queue_head_text(queue);
      const std::string trouble =
          queue.layout->link != nullptr ? queue.layout->link->trouble() : std::string();
      text += trouble.empty() || trouble == last_trouble ? "" : ", but " + trouble;
      last_trouble = trouble;
    }
  }
  return text;
}

bool Run::waits_for_others(const Queue& queue) const {
  return queue.ended ? !queue.unreleased.empty() || !queue.started.empty()
                     : pieces_.ready(queue.op(), queue.piece);
}

OperationWait Run::wait_of(const Queue& queue) const {
  OperationWait wait;
  wait.on_rail = queue.layout->lane == Lane::kInter;
  wait.peer = queue.layout->peer;
  wait.rail = queue.layout->rail;
  wait.since_ns = std::max(started_ns_, queue.ended ? last_piece_ns_ : queue.head_since_ns);
  wait.kind = !queue.started.empty() ? OperationWait::Kind::kDevice
              : queue.ended          ? OperationWait::Kind::kRead
              : queue.layout->sends  ? OperationWait::Kind::kSend
                                     : OperationWait::Kind::kReceive;
  if (!queue.ended) {
    wait.step = schedule_->op(queue.op()).step + 1;
    wait.steps = schedule_->step_count.at(static_cast<size_t>(queue.layout->lane));
  }
  return wait;
}

OperationWait Run::longest_wait() const {
  OperationWait longest;
  if (started_ns_ == 0) {
    longest.kind = OperationWait::Kind::kEntry;
    return longest;
  }
  for (const Queue& queue : queues_) {
    if (!waits_for_others(queue) || queue.layout->link == nullptr) {
      continue;
    }
    const OperationWait wait = wait_of(queue);
    if (longest.kind == OperationWait::Kind::kNothing || wait.since_ns < longest.since_ns) {
      longest = wait;
    }
  }
  return longest;
}

OpReport Run::report() const {
  return report_;
}

}  // namespace ho
