#include "transport/staged/staged_link.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace ho {

StagedLink::~StagedLink() {
  for (Slots* slots : {&send_slots_, &view_slots_}) {
    for (Slot& slot : *slots) {
      if (slot.memory) {
        work_.give_back(*std::move(slot.memory));
      }
    }
  }
}

// All slots that are free grow at once, so that how many are in use at a time, which differs from
// call to call, allocates nothing later.
Status StagedLink::grow(Slots& slots, size_t bytes) {
  for (Slot& slot : slots) {
    if (slot.used || (slot.memory && slot.memory->bytes().size() >= bytes)) {
      continue;
    }
    if (slot.memory) {
      work_.give_back(*std::exchange(slot.memory, std::nullopt));
    }
    HORING_ASSIGN(slot.memory, work_.take_pinned(std::max<size_t>(bytes, 1)));
  }
  return {};
}

Result<std::optional<size_t>> StagedLink::take(Slots& slots, size_t bytes) {
  for (size_t at = 0; at < slots.size(); ++at) {
    Slot& slot = slots.at(at);
    if (slot.used) {
      continue;
    }
    if (!slot.memory || slot.memory->bytes().size() < bytes) {
      HORING_TRY(grow(slots, bytes));
    }
    slot.used = true;
    return std::optional(at);
  }
  return std::optional<size_t>();
}

Status StagedLink::pass_on() {
  if (failed_) {
    return *failed_;
  }
  while (!staged_.empty()) {
    const Staged& next = staged_.front();
    HORING_ASSIGN(const bool copied, work_.completed(next.ticket));
    if (!copied) {
      return {};
    }
    const std::array payload{
        ConstBytes(send_slots_.at(next.slot).memory->bytes()).first(next.bytes)};
    work_.device().host_reads(payload[0]);
    HORING_ASSIGN(const bool accepted, inner_.try_send(next.frame, payload));
    if (!accepted) {
      return {};
    }
    sent_.emplace_back(next.slot);
    staged_.pop_front();
  }
  return {};
}

void StagedLink::free_released() {
  for (const uint64_t now = inner_.released(); released_ < now && !sent_.empty(); ++released_) {
    if (const auto slot = sent_.front()) {
      send_slots_.at(*slot).used = false;
    }
    sent_.pop_front();
  }
}

Result<bool> StagedLink::try_send(const Frame& frame, std::span<const ConstBytes> payload) {
  HORING_TRY(pass_on());
  if (!staged_.empty()) {
    return false;
  }
  HORING_ASSIGN(const bool accepted, inner_.try_send(frame, payload));
  if (accepted) {
    sent_.emplace_back(std::nullopt);
  }
  return accepted;
}

Result<bool> StagedLink::try_send_from_device(const Frame& frame,
                                              std::span<const ConstBytes> payload) {
  HORING_TRY(pass_on());
  free_released();
  HORING_ASSIGN(const auto slot, take(send_slots_, frame.payload_bytes));
  if (!slot) {
    return false;
  }
  std::vector<device::CopyRange> copies;
  std::byte* to = send_slots_.at(*slot).memory->bytes().data();
  for (const ConstBytes part : payload) {
    copies.push_back({to, part.data(), part.size()});
    to += part.size();
  }
  HORING_ASSIGN(const auto ticket, work_.copy(device::Direction::kLeaves, copies));
  if (!ticket) {
    send_slots_.at(*slot).used = false;
    return false;
  }
  staged_.push_back({frame, *slot, frame.payload_bytes, *ticket});
  return true;
}

// The engine asks for this in every turn while messages are under way, so that they go on here.
uint64_t StagedLink::released() {
  if (Status status = pass_on(); !status.ok() && !failed_) {
    failed_ = std::move(status);
  }
  free_released();
  return released_;
}

Result<bool> StagedLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  return inner_.try_recv(expected, parts);
}

Result<ConstBytes> StagedLink::try_view(const Frame& expected) {
  if (!receiving_) {
    HORING_ASSIGN(receiving_, take(view_slots_, expected.payload_bytes));
    if (!receiving_) {
      return ConstBytes();
    }
  }
  const Bytes whole = view_slots_.at(*receiving_).memory->bytes().first(expected.payload_bytes);
  const std::array parts{whole};
  work_.device().host_writes(whole);
  HORING_ASSIGN(const bool received, inner_.try_recv(expected, parts));
  if (!received) {
    return ConstBytes();
  }
  views_.push_back(*receiving_);
  receiving_.reset();
  return ConstBytes(whole);
}

void StagedLink::release_view() {
  view_slots_.at(views_.front()).used = false;
  views_.pop_front();
}

}  // namespace ho
