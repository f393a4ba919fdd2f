#include "collectives/nccl_collectives.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>
#include <utility>

namespace paro {
namespace {

using ho::device::CurrentContext;
using ho::device::PointerFacts;
using ho::nccl::ResultCode;
using State = NcclOperation::State;
using Lock = std::unique_lock<std::mutex>;

constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{1000};

ho::device::StreamHandle stream_of(void* stream) {
  return static_cast<ho::device::StreamHandle>(stream);
}

NcclOperation& operation_of(const Pending& pending) {
  return *static_cast<NcclOperation*>(pending.request);
}

// Types that NCCL does not know in every release move as bytes.
struct Moved {
  ho::nccl::DataType type;
  size_t count;
};
Moved moved(ho::DType dtype, size_t count) {
  const int number = static_cast<int>(dtype);
  return number <= ho::nccl::kBfloat16 ? Moved{number, count}
                                       : Moved{ho::nccl::kUint8, count * ho::size_bytes(dtype)};
}

}  // namespace

NcclCollectives::~NcclCollectives() {
  rank_->end(*comm_);
}

ho::Result<size_t> NcclCollectives::equal_count(const char* call,
                                                std::span<const size_t> counts) const {
  const auto other =
      std::ranges::find_if(counts, [&](size_t count) { return count != counts.front(); });
  if (other != counts.end()) {
    return ho::Status(ho::StatusCode::kUnsupported,
                      comm_->name + ": " + call + " wants equal parts, and rank " +
                          std::to_string(other - counts.begin()) + " there has " +
                          std::to_string(*other) + " elements, rank 0 " +
                          std::to_string(counts.front()) +
                          ": take groups of equal size and pad units to equal parts, or "
                          "keep states on the host");
  }
  return counts.front();
}

ho::Status NcclCollectives::check_memory(const char* call, const void* memory, size_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  const ho::device::Device& device = *rank_->device_;
  HORING_ASSIGN(const PointerFacts facts, ho::device::facts_of(device, memory));
  if (facts.kind != PointerFacts::Kind::kDevice || facts.ordinal != device.ordinal()) {
    const bool other = facts.kind == PointerFacts::Kind::kDevice;
    return ho::invalid(comm_->name + ": " + call + " got memory of " +
                       (other ? "device " + std::to_string(facts.ordinal) : std::string("a host")) +
                       ", and moves that of device " + std::to_string(device.ordinal()) +
                       ": pass memory of cudaMalloc on it");
  }
  HORING_ASSIGN(const size_t left, ho::device::bytes_from(device, memory, facts, bytes));
  if (left < bytes) {
    return ho::invalid(comm_->name + ": " + call + " needs " + std::to_string(bytes) +
                       " bytes of memory that ends after " + std::to_string(left));
  }
  return {};
}

ho::Status NcclCollectives::reported(const ho::Status& found) {
  const bool refused = found.code() == ho::StatusCode::kInvalidArgument ||
                       found.code() == ho::StatusCode::kUnsupported;
  return found.ok() || refused ? found : rank_->fail(found.with_context(comm_->name));
}

ho::Status NcclCollectives::check_sum(const char* call, ho::DType dtype) const {
  if (static_cast<int>(dtype) <= ho::nccl::kBfloat16) {
    return {};
  }
  return {ho::StatusCode::kUnsupported,
          comm_->name + ": " + call + " adds no " + std::string(ho::to_string(dtype)) +
              ": convert it to bfloat16 or float32 first"};
}

// The context is current.
ho::Result<NcclOperation*> NcclCollectives::free_operation() {
  auto& all = comm_->operations;
  {
    const Lock lock(rank_->mutex_);
    const auto found = std::ranges::find(all, State::kFree, &NcclOperation::state);
    if (found != all.end()) {
      return &*found;
    }
  }
  HORING_ASSIGN(ho::device::Event end, ho::device::Event::create(*rank_->device_));
  const Lock lock(rank_->mutex_);
  all.push_back({.end = std::make_shared<const ho::device::Event>(std::move(end))});
  return &all.back();
}

template <typename Call>
ho::Status NcclCollectives::begin(const CollectiveOptions& options,
                                  const Started& started,
                                  Pending& pending,
                                  const Call& call) {
  const ho::device::StreamHandle stream = stream_of(options.stream);
  const uint64_t timeout_ms = options.timeout_ms == 0 ? rank_->timeout_ms_ : options.timeout_ms;
  const ho::Deadline deadline = ho::deadline_after(std::chrono::milliseconds(timeout_ms));
  HORING_TRY(rank_->status());
  HORING_TRY(reported(ho::device::check_stream(*rank_->device_, stream).with_context(comm_->name)));
  const auto current = CurrentContext::enter(*rank_->device_);
  HORING_TRY(reported(current.status()));
  const ho::Result<NcclOperation*> found = free_operation();
  HORING_TRY(reported(found.status()));
  NcclOperation* const operation = *found;
  const ho::Status begun = rank_->in_turn(
      *comm_, started.call, deadline, [&](ho::nccl::CommHandle handle) -> ho::Status {
        HORING_TRY(rank_->await(*comm_, handle, started.call, call(handle, stream), deadline));
        return operation->end->record(stream).with_context(comm_->name);
      });
  if (!begun.ok()) {
    return rank_->fail(begun);
  }
  const Lock lock(rank_->mutex_);
  rank_->ends_until_.reset();
  operation->state = rank_->cause_ ? State::kFailed : State::kUnderWay;
  operation->call = started.call;
  operation->number = ++comm_->begun;
  operation->count = started.count;
  operation->dtype = started.dtype;
  operation->timeout_ms = timeout_ms;
  operation->begun = ho::Clock::now();
  operation->deadline = deadline;
  pending.request = operation;
  return {};
}

ho::Status NcclCollectives::begin_all_gather(const CollectiveOptions& options,
                                             ho::DType dtype,
                                             const void* mine,
                                             void* all,
                                             std::span<const size_t> counts,
                                             Pending& pending) {
  constexpr const char* kCall = "ncclAllGather";
  HORING_ASSIGN(const size_t count, equal_count(kCall, counts));
  const size_t bytes = count * ho::size_bytes(dtype);
  HORING_TRY(reported(check_memory(kCall, mine, bytes)));
  HORING_TRY(reported(check_memory(kCall, all, bytes * counts.size())));
  const Moved elements = moved(dtype, count);
  return begin(options,
               {kCall, dtype, count},
               pending,
               [&](ho::nccl::CommHandle comm, ho::nccl::StreamHandle stream) {
                 return rank_->nccl_.all_gather(
                     mine, all, elements.count, elements.type, comm, stream);
               });
}

ho::Status NcclCollectives::begin_reduce_scatter(const CollectiveOptions& options,
                                                 ho::DType dtype,
                                                 void* all,
                                                 void* mine,
                                                 std::span<const size_t> counts,
                                                 Pending& pending) {
  constexpr const char* kCall = "ncclReduceScatter";
  HORING_ASSIGN(const size_t count, equal_count(kCall, counts));
  HORING_TRY(check_sum(kCall, dtype));
  const size_t bytes = count * ho::size_bytes(dtype);
  HORING_TRY(reported(check_memory(kCall, all, bytes * counts.size())));
  HORING_TRY(reported(check_memory(kCall, mine, bytes)));
  return begin(options,
               {kCall, dtype, count},
               pending,
               [&](ho::nccl::CommHandle comm, ho::nccl::StreamHandle stream) {
                 return rank_->nccl_.reduce_scatter(
                     all, mine, count, static_cast<int>(dtype), ho::nccl::kSum, comm, stream);
               });
}

ho::Status NcclCollectives::begin_all_reduce(
    const CollectiveOptions& options, ho::DType dtype, void* all, size_t count, Pending& pending) {
  constexpr const char* kCall = "ncclAllReduce";
  HORING_TRY(check_sum(kCall, dtype));
  HORING_TRY(reported(check_memory(kCall, all, count * ho::size_bytes(dtype))));
  return begin(options,
               {kCall, dtype, count},
               pending,
               [&](ho::nccl::CommHandle comm, ho::nccl::StreamHandle stream) {
                 return rank_->nccl_.all_reduce(
                     all, all, count, static_cast<int>(dtype), ho::nccl::kSum, comm, stream);
               });
}

ho::Status NcclCollectives::begin_broadcast(const CollectiveOptions& options,
                                            ho::DType dtype,
                                            void* all,
                                            size_t count,
                                            size_t root,
                                            Pending& pending) {
  constexpr const char* kCall = "ncclBroadcast";
  HORING_TRY(reported(check_memory(kCall, all, count * ho::size_bytes(dtype))));
  const Moved elements = moved(dtype, count);
  return begin(options,
               {kCall, dtype, count},
               pending,
               [&](ho::nccl::CommHandle comm, ho::nccl::StreamHandle stream) {
                 return rank_->nccl_.broadcast(
                     all, all, elements.count, elements.type, static_cast<int>(root), comm, stream);
               });
}

bool NcclCollectives::has_ended(Lock& lock, NcclOperation& operation) {
  rank_->settle(lock, *comm_, operation);
  return operation.state == State::kOver || (operation.state == State::kFailed && rank_->aborted_);
}

bool NcclCollectives::over(Pending& pending) {
  Lock lock(rank_->mutex_);
  return pending.request == nullptr || has_ended(lock, operation_of(pending));
}

ho::Result<bool> NcclCollectives::join(Pending& pending, uint64_t timeout_ms) {
  if (pending.request == nullptr) {
    return true;
  }
  NcclOperation& operation = operation_of(pending);
  const ho::Deadline until = timeout_ms == 0
                                 ? ho::Deadline::max()  // its own deadline ends it
                                 : ho::deadline_after(std::chrono::milliseconds(timeout_ms));
  Lock lock(rank_->mutex_);
  for (auto pause = kFirstPause; !has_ended(lock, operation);
       pause = std::min(2 * pause, kLongestPause)) {
    if (ho::passed(until)) {
      return false;
    }
    rank_->changed_.wait_for(lock, pause);
  }
  const bool failed = operation.state == State::kFailed;
  const auto ended = failed ? ho::Clock::now() : operation.ended;
  pending.report.total_ns =
      static_cast<uint64_t>(std::chrono::nanoseconds(ended - operation.begun).count());
  pending.request = nullptr;
  operation.state = State::kFree;
  if (failed) {
    return *rank_->cause_;
  }
  return true;
}

ho::Result<bool> NcclCollectives::join_stream(Pending& pending, void* stream, uint64_t timeout_ms) {
  if (pending.request == nullptr) {
    return true;
  }
  const NcclOperation& operation = operation_of(pending);
  const ho::device::Device& device = *rank_->device_;
  const auto current = CurrentContext::enter(device);
  HORING_TRY(reported(current.status()));
  const ho::Deadline until = timeout_ms == 0
                                 ? operation.deadline
                                 : ho::deadline_after(std::chrono::milliseconds(timeout_ms));
  Lock lock(rank_->mutex_);
  // Where something has failed, the watching thread asks what had ended before. What it does not
  // hear in time has not.
  const auto is_open = [&] { return rank_->cause_ && operation.state == State::kUnderWay; };
  static_cast<void>(rank_->changed_.wait_until(lock, until, [&] { return !is_open(); }));
  if (operation.state == State::kFailed || is_open()) {  // after the event there is garbage
    const bool known =
        rank_->changed_.wait_until(lock, until, [this] { return rank_->cause_.has_value(); });
    return known ? ho::Result<bool>(*rank_->cause_) : false;
  }
  lock.unlock();
  HORING_TRY(reported(device.check(
      "cuStreamWaitEvent",
      device.driver().stream_wait_event(stream_of(stream), operation.end->handle(), 0))));
  return true;
}

}  // namespace paro
