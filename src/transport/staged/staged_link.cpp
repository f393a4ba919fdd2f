#include "transport/staged/staged_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/log.hpp"

namespace ho {

StagedLink::StagedLink(Link& inner, device::Work& work, const Shared& shared)
    : inner_(inner),
      offsets_(inner.offsets()),
      work_(work),
      shared_(offsets_ != nullptr ? shared : Shared{}),
      offering_(shared_.slots != nullptr ? Offering::kNotBegun : Offering::kNever),
      released_(inner.released()) {
  if (shared_.slots != nullptr) {
    offsets_->take_offers([this](ConstBytes offer) -> Result<bool> {
      HORING_ASSIGN(const bool reads, shared_.slots->open(shared_.peer, offer));
      of_peer_ = shared_.slots->of_peer(shared_.peer);
      return reads;
    });
  }
}

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

Result<std::optional<StagedLink::SendSlot>> StagedLink::take_send_slot(size_t bytes) {
  if (offering_ != Offering::kNever && bytes > 0 && bytes <= PeerSlots::kSlotBytes) {
    HORING_ASSIGN(const bool answered, offer_answered());
    if (!answered) {
      return std::optional<SendSlot>();
    }
    if (offering_ == Offering::kTaken) {
      return take_shared_slot();
    }
  }
  HORING_ASSIGN(const auto number, take(send_slots_, bytes));
  return number ? std::optional(SendSlot{SendSlot::Kind::kPinned, *number}) : std::nullopt;
}

void StagedLink::make_slots() {
  slots_ = shared_.slots->for_peer(shared_.peer);
  own_slot_ = slots_ != nullptr ? slots_->reserve() : std::nullopt;
  offering_ = own_slot_ ? Offering::kMade : Offering::kNever;
}

Result<bool> StagedLink::offer_answered() {
  if (offering_ == Offering::kNotBegun) {
    make_slots();
  }
  if (offering_ == Offering::kMade) {
    HORING_ASSIGN(const bool sent, offsets_->try_offer(slots_->offer()));
    if (!sent) {
      return false;
    }
    slots_->note_offered();
    offering_ = Offering::kSent;
  }
  if (offering_ == Offering::kSent) {
    HORING_ASSIGN(const auto answer, offsets_->offer_answer());
    if (answer == OffsetMessages::OfferAnswer::kNone) {
      return false;
    }
    offering_ = answer == OffsetMessages::OfferAnswer::kTaken ? Offering::kTaken : Offering::kNever;
    if (answer == OffsetMessages::OfferAnswer::kRefused) {
      slots_->note_refused();
      slots_.reset();
      shared_.slots->give_up(shared_.peer);
      log_info("{}: the peer does not read this rank's device memory", to_string());
    }
  }
  return true;
}

std::optional<StagedLink::SendSlot> StagedLink::take_shared_slot() {
  std::optional<size_t> number;
  if (!own_slot_used_) {
    own_slot_used_ = true;
    number = own_slot_;
  } else if (shared_in_use_ < kSlots) {
    number = slots_->take();
  }
  if (!number) {
    return std::nullopt;
  }
  ++shared_in_use_;
  return SendSlot{SendSlot::Kind::kShared, *number};
}

std::byte* StagedLink::memory(const SendSlot& slot) const {
  return slot.kind == SendSlot::Kind::kShared ? slots_->slot(slot.number)
                                              : send_slots_.at(slot.number).memory->bytes().data();
}

void StagedLink::free(const SendSlot& slot) {
  if (slot.kind == SendSlot::Kind::kShared) {
    --shared_in_use_;
    if (slot.number == own_slot_) {
      own_slot_used_ = false;
    } else {
      slots_->give_back(slot.number);
    }
  } else if (slot.kind == SendSlot::Kind::kPinned) {
    send_slots_.at(slot.number).used = false;
  }
}

Result<bool> StagedLink::pass_on(const Staged& next) {
  if (next.slot.kind == SendSlot::Kind::kShared) {
    return offsets_->try_send_offset(next.frame, PeerSlots::offset(next.slot.number));
  }
  const std::array payload{ConstBytes(memory(next.slot), next.frame.payload_bytes)};
  work_.device().host_reads(payload[0]);
  return inner_.try_send(next.frame, payload);
}

Status StagedLink::pass_on() {
  if (failed_) {
    return *failed_;
  }
  while (!staged_.empty()) {
    const Staged& next = staged_.front();
    if (!work_.completed(next.ticket)) {
      return {};
    }
    HORING_ASSIGN(const bool accepted, pass_on(next));
    if (!accepted) {
      return {};
    }
    sent_.push_back(next.slot);
    staged_.pop_front();
  }
  return {};
}

void StagedLink::free_released() {
  for (const uint64_t now = inner_.released(); released_ < now && !sent_.empty(); ++released_) {
    free(sent_.front());
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
    sent_.emplace_back();
  }
  return accepted;
}

Result<bool> StagedLink::try_send_from_device(const Frame& frame,
                                              std::span<const ConstBytes> payload) {
  HORING_TRY(pass_on());
  free_released();
  HORING_ASSIGN(const auto slot, take_send_slot(frame.payload_bytes));
  if (!slot) {
    return false;
  }
  std::vector<device::CopyRange> copies;
  std::byte* to = memory(*slot);
  for (const ConstBytes part : payload) {
    copies.push_back({to, part.data(), part.size()});
    to += part.size();
  }
  const auto direction = slot->kind == SendSlot::Kind::kShared ? device::Direction::kLeavesInside
                                                               : device::Direction::kLeaves;
  HORING_ASSIGN(const auto ticket, work_.copy(direction, copies));
  if (!ticket) {
    free(*slot);
    return false;
  }
  staged_.push_back({frame, *slot, *ticket});
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

Result<StagedLink::SharedView> StagedLink::view_shared(const Frame& expected) {
  if (shared_.slots == nullptr || receiving_) {
    return SharedView{true};
  }
  HORING_ASSIGN(const OffsetMessages::Message message, offsets_->try_recv_offset(expected));
  if (!message.offset) {
    return SharedView{message.other};
  }
  const uint64_t offset = *message.offset;
  const uint64_t bytes = of_peer_.size();
  if (offset > bytes || expected.payload_bytes > bytes - offset) {
    return Status(StatusCode::kProtocol,
                  to_string() + ": a message outside of the peer's shared device memory");
  }
  return SharedView{false, of_peer_.subspan(offset, expected.payload_bytes)};
}

// Where there is a slot for it.
Status StagedLink::begin_pull() {
  HORING_ASSIGN(const auto slot, take(view_slots_, to_pull_.size()));
  if (!slot) {
    return {};
  }
  Slot& into = view_slots_.at(*slot);
  const std::array copies{
      device::CopyRange{into.memory->bytes().data(), to_pull_.data(), to_pull_.size()}};
  HORING_ASSIGN(const auto ticket, work_.copy(device::Direction::kArrives, copies));
  if (!ticket) {
    into.used = false;
    return {};
  }
  pulled_ = Pulled{*slot, *ticket};
  to_pull_ = {};
  return {};
}

// The host's receives of what the peer has on its device, as if it had come through the link.
Result<StagedLink::Pull> StagedLink::pull(const Frame& expected) {
  if (shared_.slots == nullptr || receiving_) {
    return Pull{true};
  }
  if (!pulled_) {
    if (to_pull_.data() == nullptr) {
      HORING_ASSIGN(const SharedView shared, view_shared(expected));
      if (shared.bytes.data() == nullptr) {
        return Pull{shared.other};
      }
      to_pull_ = shared.bytes;
    }
    HORING_TRY(begin_pull());
    if (!pulled_) {
      return Pull{};
    }
  }
  if (!work_.completed(pulled_->ticket)) {
    return Pull{};
  }
  offsets_->release_offset();
  const size_t slot = std::exchange(pulled_, std::nullopt)->slot;
  work_.device().host_reads(view(slot, expected));
  return Pull{false, slot};
}

Bytes StagedLink::view(size_t slot, const Frame& message) const {
  return view_slots_.at(slot).memory->bytes().first(message.payload_bytes);
}

Result<bool> StagedLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  HORING_ASSIGN(const Pull pulled, pull(expected));
  if (pulled.other) {
    return inner_.try_recv(expected, parts);
  }
  if (!pulled.slot) {
    return false;
  }
  const std::byte* from = view(*pulled.slot, expected).data();
  for (const Bytes part : parts) {
    std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  view_slots_.at(*pulled.slot).used = false;
  return true;
}

Result<ConstBytes> StagedLink::try_view_for_device(const Frame& expected) {
  HORING_ASSIGN(const SharedView shared, view_shared(expected));
  if (shared.other) {
    return view_arrived(expected);
  }
  if (shared.bytes.data() != nullptr) {
    views_.emplace_back(std::nullopt);
  }
  return shared.bytes;
}

Result<ConstBytes> StagedLink::try_view(const Frame& expected) {
  HORING_ASSIGN(const Pull pulled, pull(expected));
  if (pulled.other) {
    return view_arrived(expected);
  }
  if (!pulled.slot) {
    return ConstBytes();
  }
  views_.push_back(pulled.slot);
  return ConstBytes(view(*pulled.slot, expected));
}

Result<ConstBytes> StagedLink::view_arrived(const Frame& expected) {
  if (!receiving_) {
    HORING_ASSIGN(receiving_, take(view_slots_, expected.payload_bytes));
    if (!receiving_) {
      return ConstBytes();
    }
  }
  const Bytes whole = view(*receiving_, expected);
  const std::array parts{whole};
  work_.device().host_writes(whole);
  HORING_ASSIGN(const bool received, inner_.try_recv(expected, parts));
  if (!received) {
    return ConstBytes();
  }
  views_.emplace_back(*receiving_);
  receiving_.reset();
  return ConstBytes(whole);
}

void StagedLink::release_view() {
  if (const auto slot = views_.front()) {
    view_slots_.at(*slot).used = false;
  } else {
    offsets_->release_offset();
  }
  views_.pop_front();
}

}  // namespace ho
