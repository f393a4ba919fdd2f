#include "run/step_ends.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace paro {
namespace {

constexpr size_t kAnnouncedWords = 2;  // micro-batches and what comes next

std::string ending_text(size_t rank, const uint64_t* announced) {
  const std::string who = "rank " + std::to_string(rank);
  switch (static_cast<StepEnds::Next>(announced[1])) {
    case StepEnds::Next::kStepEarly:
      return who + " calls step_early after " + std::to_string(announced[0]) + " micro-batches";
    case StepEnds::Next::kDiscard:
      return who + " calls discard after " + std::to_string(announced[0]) + " micro-batches";
    case StepEnds::Next::kMicroBatch:
      break;
  }
  return who + " has begun micro-batch " + std::to_string(announced[0] + 1);
}

}  // namespace

ho::Status StepEnds::tell(uint32_t micro_batches, Next next) {
  if (comm_ == nullptr) {
    return {};
  }
  Announced& announced = announced_.emplace_back();
  announced.mine = {micro_batches, static_cast<uint64_t>(next)};
  announced.all.resize(kAnnouncedWords * static_cast<size_t>(ho_comm_world_size(comm_)));
  ho::Status started = announced.gathered.begin(comm_, announced.mine, announced.all, timeout_ms_);
  if (!started.ok()) {
    announced_.pop_back();
  }
  return started;
}

ho::Status StepEnds::compare(const std::vector<uint64_t>& all) const {
  for (size_t rank = 1; rank * kAnnouncedWords < all.size(); ++rank) {
    const uint64_t* const theirs = &all[rank * kAnnouncedWords];
    if (!std::equal(theirs, theirs + kAnnouncedWords, all.begin())) {
      // Until all have found out: then whoever gives up takes nobody's answer away.
      static_cast<void>(barrier(comm_, timeout_ms_));
      return {ho::StatusCode::kMismatch,
              ending_text(0, all.data()) + ", " + ending_text(rank, theirs) +
                  "; all ranks must end a step by the same call after as many micro-batches"};
    }
  }
  return {};
}

ho::Status StepEnds::take_first() {
  const ho::Status ended = announced_.front().gathered.join();
  const std::vector<uint64_t> all = std::move(announced_.front().all);
  announced_.pop_front();
  HORING_TRY(ended.with_context("what each rank does after a micro-batch"));
  return compare(all);
}

ho::Status StepEnds::look() {
  while (!announced_.empty()) {
    if (!announced_.front().gathered.over()) {
      return {};
    }
    // Another error ends the communicators of the step too, where it says what it kept from coming.
    if (ho::Status found = take_first(); found.code() == ho::StatusCode::kMismatch) {
      return found;
    }
  }
  return {};
}

ho::Status StepEnds::finish() {
  while (!announced_.empty()) {
    HORING_TRY(take_first());
  }
  return {};
}

}  // namespace paro
