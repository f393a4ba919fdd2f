#include "core/collnet/coll_comm.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "os/clock.hpp"

namespace ho::plugin {

using rail::kMaxCalls;
using rail::RailCall;
using rail::RailRing;
using rail::Registration;
using rail::Segment;
using rail::Window;
using rail::WindowKind;

namespace {

// Nothing lies in an empty buffer, so nothing need be known about it.
Status check_buffer(const CollBuffer& buffer, uint64_t byte_count, const char* what) {
  if (byte_count == 0) {
    return {};
  }
  if (buffer.memory == nullptr || !buffer.memory->covers(buffer.data, byte_count)) {
    return invalid(
        fmt::format("{}: {} bytes that its memory handle does not cover", what, byte_count));
  }
  return {};
}

const char* collective_of(WindowKind kind) {
  switch (kind) {
    case WindowKind::kAllReduce:
      return "all_reduce";
    case WindowKind::kAllGather:
      return "all_gather";
    case WindowKind::kReduceScatter:
      break;
  }
  return "reduce_scatter";
}

Status check_reduction(DType dtype, ReduceOp op, uint64_t byte_count) {
  if (!reduction_supported(dtype, op) || op >= ReduceOp::kAvg) {
    return invalid(fmt::format("{} of {} is not offered", to_string(op), to_string(dtype)));
  }
  if (byte_count % size_bytes(dtype) != 0) {
    return invalid(fmt::format("{} bytes are no whole number of {}", byte_count, to_string(dtype)));
  }
  return {};
}

}  // namespace

Result<const Registration*> CollComm::register_memory(void* data, size_t bytes, int32_t kind) {
  const std::lock_guard lock(mutex_);
  Registered& entry = registered_[{data, bytes, kind}];
  if (entry.count == 0) {
    auto memory = member_->ring().register_memory(data, bytes, kind);
    if (!memory.ok()) {
      registered_.erase({data, bytes, kind});
      return memory.status();
    }
    entry.memory = *std::move(memory);
  }
  ++entry.count;
  return static_cast<const Registration*>(entry.memory.get());
}

Status CollComm::deregister(const Registration* memory) {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find_if(
      registered_, [&](const auto& each) { return each.second.memory.get() == memory; });
  if (entry == registered_.end()) {
    return invalid("deregMr of a memory handle that is not registered here");
  }
  if (--entry->second.count == 0) {
    member_->ring().deregister(*memory);
    registered_.erase(entry);
  }
  return {};
}

Window CollComm::window_of(WindowKind kind, uint64_t block_bytes, uint64_t offset) const {
  Window window;
  window.kind = kind;
  window.members = member_->ring().shape().members;
  window.offset = offset;
  window.block_bytes = block_bytes;
  return window;
}

Status CollComm::check_window(const Window& window) const {
  const uint64_t most = std::numeric_limits<uint64_t>::max() / window.members;
  if (window.block_bytes > most) {
    return invalid(fmt::format("blocks of {} bytes are too large", window.block_bytes));
  }
  const uint64_t total = window.block_bytes * window.members;
  if (window.offset > total || window.byte_count > total - window.offset) {
    return invalid(
        fmt::format("a window of {} bytes from {} on does not lie in {} blocks of {} bytes",
                    window.byte_count,
                    window.offset,
                    window.members,
                    window.block_bytes));
  }
  return {};
}

Result<CollRequest*> CollComm::enter(RailCall call,
                                     const CollBuffer& from,
                                     const CollBuffer& to,
                                     uint64_t delivered_bytes) {
  call.mine = static_cast<const std::byte*>(from.data);
  call.result = static_cast<std::byte*>(to.data);
  call.mine_memory = from.memory;
  call.result_memory = to.memory;
  const auto entered = member_->ring().enter(call);
  if (!entered.ok()) {
    note_failure(entered.status());
    return entered.status();
  }
  const std::optional<uint64_t> number = *entered;
  if (!number) {
    return static_cast<CollRequest*>(nullptr);
  }
  const std::lock_guard lock(calls_mutex_);
  CollRequest& request = requests_[*number % kMaxCalls];
  request = {this, *number, delivered_bytes, call.window.kind, now_ns()};
  return &request;
}

Result<CollRequest*> CollComm::all_reduce(
    CollBuffer from, CollBuffer to, uint64_t count, DType dtype, ReduceOp op) {
  RailCall call;
  if (count > std::numeric_limits<uint64_t>::max() / size_bytes(dtype)) {
    return invalid(fmt::format("iallreduce of {} elements", count));
  }
  call.window = Window::all_reduce(member_->ring().shape().members, count, size_bytes(dtype));
  HORING_TRY(check_reduction(dtype, op, call.window.byte_count));
  HORING_TRY(check_buffer(from, call.window.byte_count, "iallreduce from"));
  HORING_TRY(check_buffer(to, call.window.byte_count, "iallreduce to"));
  call.dtype = dtype;
  call.op = op;
  return enter(call, from, to, call.window.byte_count);
}

Result<CollRequest*> CollComm::all_gather(CollBuffer from,
                                          CollBuffer to,
                                          uint64_t block_bytes,
                                          uint64_t window_offset) {
  RailCall call;
  call.window = window_of(WindowKind::kAllGather, block_bytes, window_offset);
  call.window.byte_count = to.byte_count;
  HORING_TRY(check_window(call.window));
  const Segment own = call.window.segment(member_->ring().shape().self);
  HORING_TRY(check_buffer(from, own.byte_count, "iallgather from"));
  HORING_TRY(check_buffer(to, to.byte_count, "iallgather to"));
  return enter(call, from, to, to.byte_count);
}

Result<CollRequest*> CollComm::reduce_scatter(CollBuffer from,
                                              CollBuffer to,
                                              uint64_t block_bytes,
                                              uint64_t window_offset,
                                              DType dtype,
                                              ReduceOp op) {
  RailCall call;
  call.window = window_of(WindowKind::kReduceScatter, block_bytes, window_offset);
  call.window.byte_count = from.byte_count;
  call.window.element_bytes = size_bytes(dtype);
  HORING_TRY(check_window(call.window));
  HORING_TRY(check_reduction(dtype, op, from.byte_count));
  HORING_TRY(check_reduction(dtype, op, block_bytes));
  HORING_TRY(check_reduction(dtype, op, window_offset));
  const Segment own = call.window.segment(member_->ring().shape().self);
  HORING_TRY(check_buffer(from, from.byte_count, "ireducescatter from"));
  HORING_TRY(check_buffer(to, own.byte_count, "ireducescatter to"));
  call.dtype = dtype;
  call.op = op;
  return enter(call, from, to, own.byte_count);
}

Result<bool> CollComm::test(CollRequest& request) {
  Result<bool> complete = member_->ring().test(request.number);
  if (!complete.ok()) {
    note_failure(complete.status());
  } else if (*complete) {
    const std::lock_guard lock(calls_mutex_);
    request.entered_ns = 0;
    ++completed_;
    completed_bytes_ += request.byte_count;
  }
  return complete;
}

void CollComm::note_failure(const Status& why) {
  const std::lock_guard lock(calls_mutex_);
  cause_ = why.message();
}

WatchedRing CollComm::watched() {
  const RailRing::Shape& shape = member_->ring().shape();
  WatchedRing ring{.comm_id = owner_.comm_id, .context = owner_.context};
  ring.member = shape.self;
  ring.members = shape.members;
  const std::lock_guard lock(calls_mutex_);
  ring.completed = completed_;
  ring.completed_bytes = completed_bytes_;
  ring.cause = cause_;
  for (const CollRequest& request : requests_) {
    if (request.entered_ns != 0) {
      ring.calls.push_back({collective_of(request.kind),
                            request.number + 1,
                            request.byte_count,
                            request.entered_ns});
    }
  }
  std::ranges::sort(ring.calls, {}, &WatchedCall::number);
  return ring;
}

}  // namespace ho::plugin
