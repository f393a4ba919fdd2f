#include "exec/collective_operation.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.hpp"

namespace ho {
namespace {

// How long what a device was given before an error may take to complete.
constexpr std::chrono::seconds kDeviceDrain{5};
// A short operation is recorded when it begins, sleeps and ends; one that goes on also this often.
constexpr uint32_t kTurnsPerRecord = 8;

}  // namespace

CollectiveOperation::CollectiveOperation(const CollectiveContext& context,
                                         const MadeCall& made,
                                         Submission&& submission)
    : Operation(submission.background, submission.entry.has_value()),
      context_(context),
      made_(made),
      run_(make_run(std::move(submission.call), std::move(submission.schedule))),
      entry_(std::move(submission.entry)),
      next_(std::move(submission.next)) {
  const Call& call = run_->call();
  record().made = made_;
  record().bytes = call.count * size_bytes(call.dtype);
  // When the caller's time began; this spares a look at the clock.
  record().entered_ns =
      call.deadline == Deadline::max() ? now_ns() : ns_of(call.deadline - call.timeout);
  context_.recorder->begin(record());
}

void CollectiveOperation::note_progress(const OperationWait& wait) {
  OperationProgress& progress = record().progress;
  progress.state = OperationProgress::State::kRunning;
  progress.wait = wait;
  run_->note_pieces(progress);
  context_.recorder->update(record());
}

void CollectiveOperation::note_wait() {
  note_progress(run_->longest_wait());
}

std::unique_ptr<Run> CollectiveOperation::make_run(Call&& call,
                                                   std::shared_ptr<const Schedule> schedule) const {
  return std::make_unique<Run>(
      std::move(call), std::move(schedule), context_.limits, context_.trace);
}

RunError CollectiveOperation::named(const Status& status) const {
  return {status.with_context(run_->call().name()), std::nullopt};
}

std::optional<RunError> CollectiveOperation::step(bool* moved) {
  if (!started_) {
    const Result<bool> may_start = entered();
    if (may_start.ok() && !*may_start) {
      return std::nullopt;
    }
    if (Status status = may_start.ok() ? start() : may_start.status(); !status.ok()) {
      return named(status);
    }
  }
  if (auto error = run_->make_progress(moved)) {
    note_wait();
    return error;
  }
  if (*moved && ++turns_ % kTurnsPerRecord == 0) {
    note_progress({});
  }
  if (next_ && run_->finished()) {
    *moved = true;
    return go_on();
  }
  return std::nullopt;
}

Result<bool> CollectiveOperation::entered() {
  if (entry_) {
    HORING_ASSIGN(const bool passed, context_.work->passed(*entry_));
    if (!passed) {
      return false;
    }
    entry_.reset();
  }
  return true;
}

Status CollectiveOperation::start() {
  HORING_TRY(take_scratch());
  started_ = true;
  std::byte* const scratch = pinned_scratch_ ? pinned_scratch_->bytes().data() : scratch_.get();
  void* const on_device = device_scratch_ ? device_scratch_->pointer() : nullptr;
  run_->start(scratch, static_cast<std::byte*>(on_device));
  return {};
}

Status CollectiveOperation::take_scratch() {
  const uint64_t bytes = run_->scratch_bytes();
  if (run_->call().device.work != nullptr) {
    if (bytes > 0 && (!pinned_scratch_ || pinned_scratch_->bytes().size() < bytes)) {
      HORING_ASSIGN(pinned_scratch_, context_.work->take_pinned(bytes));
    }
    const uint64_t on_device = run_->device_scratch_bytes();
    if (on_device > 0 && (!device_scratch_ || device_scratch_->size() < on_device)) {
      HORING_ASSIGN(device_scratch_, context_.work->take_device(on_device));
    }
    return {};
  }
  scratch_ = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes + 64]);
  return scratch_ != nullptr ? Status()
                             : Status(StatusCode::kOutOfMemory,
                                      fmt::format("{} bytes for what is on its way", bytes));
}

// The next part has the operation's number, so that errors and traces name one operation.
std::optional<RunError> CollectiveOperation::go_on() {
  const std::shared_ptr<const PartToCome> part = std::exchange(next_, nullptr);
  Result<NextPart> next = context_.owner->make_next_part(*part);
  if (!next.ok()) {
    RunError error = named(next.status());
    if (error.status.code() != StatusCode::kUnsupported) {
      return error;
    }
    outcome_ = std::move(error.status);
    return std::nullopt;
  }
  next->call.sequence = run_->call().sequence;
  earlier_ = run_->report();
  run_ = make_run(std::move(next->call), std::move(next->schedule));
  started_ = false;
  return std::nullopt;
}

void CollectiveOperation::end(const Status& status) {
  if (started_ && run_->call().device.work != nullptr) {
    // After an error no buffer may be touched any more, nor its memory reused before that.
    if (Status drained =
            status.ok() ? Status() : context_.work->drain(deadline_after(kDeviceDrain));
        !drained.ok()) {
      log_error("{}: {}", run_->call().name(), drained.message());
    }
  }
  if (pinned_scratch_) {
    context_.work->give_back(*std::exchange(pinned_scratch_, std::nullopt));
  }
  if (device_scratch_) {
    context_.work->give_back(*std::exchange(device_scratch_, std::nullopt));
  }
  OpReport report = run_->report();
  report.add_earlier(earlier_);
  Operation::end(status, report);
  run_->note_pieces(record().progress);
  context_.recorder->end(
      record(),
      status.ok() ? OperationProgress::State::kCompleted : OperationProgress::State::kFailed,
      now_ns());
  scratch_.reset();
  run_->free_scaled_input();
}

bool CollectiveOperation::question_due(Deadline now, Deadline* next) {
  const bool due = long_wait_.take_due(run_->done_pieces(), run_->call().timeout, now);
  *next = std::min(*next, long_wait_.next());
  return due;
}

uint64_t CollectiveOperation::memory_bytes() const {
  return (scratch_ != nullptr ? run_->scratch_bytes() : 0) + run_->call().scaled_bytes;
}

}  // namespace ho
