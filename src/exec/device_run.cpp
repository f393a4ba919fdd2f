// The pieces of a run whose memory is a device's: they are started, and are through later.
//
// All writes into device memory and all sums go through one stream, in the order in which they are
// started, so that pieces of one queue keep their order without waiting for each other. What sends
// read was written by pieces that are through: their events have passed.
//
// A sum is the device's as soon as one of its operands is: kernels reach pinned scratch. Where both
// are the host's (a later hop of a reduce-scatter, in scratch), the faster one adds
// (sum_rates.hpp).
#include <algorithm>

#include "exec/run.hpp"
#include "exec/sums.hpp"
#include "transport/device_link.hpp"

namespace ho {

bool Run::on_device(Space space, const PlanOp& op) const {
  switch (space) {
    case Space::kInput:
      return call_.device.input;
    case Space::kOutput:
      return call_.device.output;
    case Space::kScratch:
      break;
  }
  return binding_.scratch_on_device(op.chunks.front());
}

uint64_t Run::scaled_input_bytes() const {
  const bool own = call_.device.factor && call_.collective != Collective::kAllReduce;
  return own ? call_.count * size_bytes(call_.dtype) : 0;
}

void Run::scale_into(std::byte* scratch) {
  const bool own = scaled_input_bytes() > 0;
  scaled_ = own ? scratch + binding_.device_scratch_bytes() : call_.output;
  binding_.set_input(scaled_);
  call_.device.input = own || call_.device.output;
}

Result<bool> Run::scaled() {
  device::Work& work = *call_.device.work;
  if (!scaling_) {
    HORING_ASSIGN(
        scaling_,
        work.premultiply(call_.dtype, scaled_, call_.input, call_.count, *call_.device.factor));
  }
  const bool completed = scaling_ && work.completed(*scaling_);
  if (completed) {
    scaled_ = nullptr;
  }
  return completed;
}

// What is sent from a device is read by a copy, which has been enqueued then. What is sent from the
// caller's host memory is read by the network, which no stream waits for.
bool Run::enqueued() const {
  return scaled_ == nullptr && std::ranges::all_of(queues_, [&](const Queue& queue) {
           return queue.ended && (queue.unreleased.empty() || !call_.device.mixed);
         });
}

Result<bool> Run::begun(std::optional<device::Ticket> ticket, bool views) {
  if (!ticket) {
    return Status(StatusCode::kInternal, "the device's queue is full after it had room");
  }
  begun_ = Started{0, *ticket, views};
  return true;
}

void Run::tell_host_reads(const PlanOp& op, uint32_t piece) const {
  for (const ChunkIndex chunk : op.chunks) {
    const uint64_t bytes = binding_.piece_elements(chunk, piece) * binding_.element_bytes();
    call_.device.work->device().host_reads({binding_.address(op.src, chunk, piece), bytes});
  }
}

bool Run::collect_completed(Queue& queue) {
  bool any = false;
  while (!queue.started.empty()) {
    const Started& first = queue.started.front();
    if (!call_.device.work->completed(first.ticket)) {
      break;
    }
    if (first.views) {
      queue.layout->link->release_view();
    }
    pieces_.add(first.op);
    queue.started.erase(queue.started.begin());
    any = true;
  }
  return any;
}

device::Direction Run::arrives(const Queue& queue) {
  return queue.layout->over_network ? device::Direction::kArrives
                                    : device::Direction::kArrivesInside;
}

// The head's message, once it is here and its work can be started at once; null data: not now.
Result<ConstBytes> Run::view_for_device(Queue& queue, const PlanOp& op) {
  // What is started together completes together. So no start takes more than half of what a link
  // may have in views: the peer sends one half while the other one is read.
  const size_t half = std::max<size_t>(queue.layout->link->most_views() / 2, 1);
  if (queue.started.size() >= half &&
      !call_.device.work->started(queue.started[queue.started.size() - half].ticket)) {
    return ConstBytes();
  }
  HORING_ASSIGN(const bool may_start, call_.device.work->may_start(arrives(queue)));
  if (!may_start) {
    return ConstBytes();
  }
  Link& link = *queue.layout->link;
  DeviceLink* const device = link.for_device();
  const Frame expected = frame_for(queue, op);
  return device != nullptr ? device->try_view_for_device(expected) : link.try_view(expected);
}

Result<bool> Run::recv_to_device(Queue& queue, const PlanOp& op) {
  HORING_ASSIGN(ConstBytes incoming, view_for_device(queue, op));
  if (incoming.data() == nullptr) {
    return false;
  }
  std::vector<device::CopyRange> copies;
  for (const ChunkIndex chunk : op.chunks) {
    const uint64_t bytes = binding_.piece_elements(chunk, queue.piece) * binding_.element_bytes();
    copies.push_back({binding_.address(op.dst, chunk, queue.piece), incoming.data(), bytes});
    incoming = incoming.subspan(bytes);
  }
  HORING_ASSIGN(const auto ticket, call_.device.work->copy(arrives(queue), copies));
  return begun(ticket, true);
}

Result<bool> Run::reduce_on_device(Queue& queue, const PlanOp& op) {
  HORING_ASSIGN(ConstBytes incoming, view_for_device(queue, op));
  if (incoming.data() == nullptr) {
    return false;
  }
  const bool averages = op.final_sum && call_.op == ReduceOp::kAvg;
  device::SumKind kind{call_.dtype, call_.op, call_.fp32_sums};
  kind.src_is_fp32 = call_.fp32_sums && op.src == Space::kScratch;
  kind.dst_is_fp32 = call_.fp32_sums && op.dst == Space::kScratch;
  std::vector<device::Sum> sums;
  for (const ChunkIndex chunk : op.chunks) {
    const uint64_t elements = binding_.piece_elements(chunk, queue.piece);
    sums.push_back({binding_.address(op.dst, chunk, queue.piece),
                    binding_.address(op.src, chunk, queue.piece),
                    incoming.data(),
                    elements,
                    averages ? call_.world_size : 1});
    incoming = incoming.subspan(elements * binding_.element_bytes());
  }
  HORING_ASSIGN(const auto ticket, call_.device.work->sum(arrives(queue), kind, sums));
  return begun(ticket, true);
}

Result<bool> Run::copy_on_device(Queue& queue, const PlanOp& op) {
  device::Work& work = *call_.device.work;
  const bool inside = on_device(op.dst, op) && on_device(op.src, op);
  const device::Direction direction =
      inside ? device::Direction::kArrivesInside : device::Direction::kArrives;
  HORING_ASSIGN(const bool may_start, work.may_start(direction));
  if (!may_start) {
    return false;
  }
  std::vector<device::CopyRange> copies;
  for (const ChunkIndex chunk : op.chunks) {
    std::byte* to = binding_.address(op.dst, chunk, queue.piece);
    const std::byte* from = binding_.address(op.src, chunk, queue.piece);
    if (to != from) {
      copies.push_back(
          {to, from, binding_.piece_elements(chunk, queue.piece) * binding_.element_bytes()});
    }
  }
  HORING_ASSIGN(const auto ticket, work.copy(direction, copies));
  return begun(ticket, false);
}

}  // namespace ho
