#include "exec/recorder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ho {

Result<std::shared_ptr<Recorder>> Recorder::create() {
  HORING_ASSIGN(PrivateMemory memory, PrivateMemory::create(kChannelCount * kKept * sizeof(Slot)));
  return std::shared_ptr<Recorder>(new Recorder(std::move(memory)));
}

Recorder::Slot& Recorder::slot(uint8_t channel, uint64_t number) const {
  auto* const slots = reinterpret_cast<Slot*>(memory_.bytes().data());
  return slots[channel * kKept + number % kKept];
}

// The words are released one by one, so that none is seen before the odd version is: fences would
// do the same, but ThreadSanitizer knows none.
void Recorder::write(Slot& slot, const OperationRecord& record, size_t first_word) {
  const auto words = std::bit_cast<std::array<uint64_t, kWords>>(record);
  const uint64_t version = slot.version.load(std::memory_order_relaxed);
  slot.version.store(version + 1, std::memory_order_relaxed);
  for (size_t i = first_word; i < kWords; ++i) {
    slot.words[i].store(words[i], std::memory_order_release);
  }
  slot.version.store(version + 2, std::memory_order_release);
}

std::optional<OperationRecord> Recorder::read(const Slot& slot) {
  constexpr int kTries = 1000;  // writing takes some nanoseconds, unless its thread is put to sleep
  std::array<uint64_t, kWords> words{};
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const uint64_t before = slot.version.load(std::memory_order_acquire);
    for (size_t i = 0; i < kWords; ++i) {
      words[i] = slot.words[i].load(std::memory_order_acquire);
    }
    if (before % 2 == 0 && before == slot.version.load(std::memory_order_relaxed)) {
      const auto record = std::bit_cast<OperationRecord>(words);
      return record.number == 0 ? std::nullopt : std::optional(record);
    }
  }
  return std::nullopt;
}

void Recorder::begin(OperationRecord& record) {
  Channel& channel = channels_.at(record.made.channel);
  record.number = channel.begun.load(std::memory_order_relaxed) + 1;
  write(slot(record.made.channel, record.number), record, 0);
  channel.begun.store(record.number, std::memory_order_release);
}

void Recorder::update(const OperationRecord& record) {
  Channel& channel = channels_.at(record.made.channel);
  if (channel.begun.load(std::memory_order_relaxed) - record.number < kKept) {
    write(slot(record.made.channel, record.number), record, kProgressWord);
  } else {
    write(channel.overtaken, record, 0);
  }
}

void Recorder::end(OperationRecord& record, OperationProgress::State state, int64_t now) {
  record.progress.state = state;
  record.progress.ended_ns = now;
  if (state == OperationProgress::State::kCompleted) {
    if (record.made.channel != kMessageChannel) {
      record.progress.wait = {};  // whose message it was stays
    }
    completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    completed_bytes_.store(completed_bytes_.load(std::memory_order_relaxed) + record.bytes,
                           std::memory_order_relaxed);
  }
  update(record);
}

std::vector<OperationRecord> Recorder::last(uint8_t channel, size_t most) const {
  std::vector<OperationRecord> found;
  const uint64_t newest = begun(channel);
  const uint64_t count = std::min<uint64_t>({newest, most, kKept});
  if (count == 0) {
    return found;
  }
  const uint64_t oldest = newest - count + 1;
  const auto overtaken = read(channels_.at(channel).overtaken);
  if (overtaken && overtaken->progress.ended_ns == 0 && overtaken->number < oldest) {
    found.push_back(*overtaken);
  }
  for (uint64_t number = oldest; number <= newest; ++number) {
    // One that began meanwhile may have its place.
    if (const auto record = read(slot(channel, number)); record && record->number == number) {
      found.push_back(*record);
    }
  }
  return found;
}

Status Recorder::compare(const MadeCall& peer) const {
  if (peer.channel >= kChannelCount) {
    return {};
  }
  for (uint8_t channel = 0; channel < kMessageChannel; ++channel) {
    for (const OperationRecord& record : last(channel)) {
      const MadeCall& call = record.made;
      const bool same_position =
          call.channel == peer.channel && call.frame.sequence == peer.frame.sequence;
      const bool same_label = peer.labelled != 0 && call.labelled == peer.labelled;
      if (same_position || same_label) {
        HORING_TRY(check_same_call(call.frame, peer.frame));
      }
    }
  }
  return {};
}

std::vector<MadeCall> Recorder::until(uint8_t channel, uint32_t number, size_t most) const {
  std::vector<MadeCall> found;
  for (const OperationRecord& record : last(channel)) {
    const uint32_t sequence = record.made.frame.sequence;
    if (sequence <= number && number - sequence < most) {
      found.push_back(record.made);
    }
  }
  return found;
}

void Recorder::set_rail_use(std::span<const RailUse> rails) {
  const size_t count = std::min(rails.size(), rails_.size());
  for (size_t i = 0; i < count; ++i) {
    rails_.at(i).set(rails[i]);
  }
  rail_count_.store(count, std::memory_order_relaxed);
}

std::vector<RailUse> Recorder::rail_use() const {
  std::vector<RailUse> rails(rail_count_.load(std::memory_order_relaxed));
  for (size_t i = 0; i < rails.size(); ++i) {
    rails[i] = rails_.at(i).get();
  }
  return rails;
}

}  // namespace ho
