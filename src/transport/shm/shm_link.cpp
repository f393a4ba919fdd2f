#include "transport/shm/shm_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/copy.hpp"
#include "os/peer_memory.hpp"

namespace ho {
namespace {

// A message of this many parts by reference fits in the smallest ring's largest record.
static_assert(Link::kMaxParts * sizeof(RemoteRange) <=
              SegmentGeometry::kMinRingBytes / 4 - kRecordHeaderBytes);

static_assert(OffsetMessages::kMaxOfferBytes <=
              SegmentGeometry::kMinRingBytes / 4 - kRecordHeaderBytes);

template <typename Part>
uint64_t total_bytes(std::span<const Part> parts) {
  uint64_t total = 0;
  for (const Part& part : parts) {
    total += part.size();
  }
  return total;
}

// Calls copy(a range of a part, its offset from `offset`) for each part of which something lies in
// [offset, offset + bytes) of the concatenated parts.
template <typename Part, typename Copy>
void for_range(std::span<const Part> parts, uint64_t offset, uint64_t bytes, Copy copy) {
  uint64_t done = 0;
  for (const Part& part : parts) {
    if (offset >= part.size()) {
      offset -= part.size();
      continue;
    }
    const uint64_t step = std::min<uint64_t>(part.size() - offset, bytes - done);
    if (step > 0) {
      copy(part.subspan(offset, step), done);
    }
    done += step;
    offset = 0;
    if (done == bytes) {
      return;
    }
  }
}

void gather(std::byte* to, std::span<const ConstBytes> parts, uint64_t offset, uint64_t bytes) {
  for_range(parts, offset, bytes, [to](ConstBytes range, uint64_t at) {
    copy_payload(to + at, range.data(), range.size());
  });
}

void scatter(std::span<const Bytes> parts, uint64_t offset, ConstBytes from) {
  for_range(parts, offset, from.size(), [from](Bytes range, uint64_t at) {
    copy_payload(range.data(), from.data() + at, range.size());
  });
}

}  // namespace

std::string ShmLink::to_string() const {
  return "shared memory rank " + std::to_string(wiring_.self.value()) + " -> rank " +
         std::to_string(wiring_.peer.value()) + ", channel " + std::to_string(wiring_.channel) +
         (wiring_.peer_reads_me ? ", single copy" : ", through the ring");
}

Status ShmLink::fail(StatusCode code, const std::string& what) const {
  return {code,
          "shared memory, rank " + std::to_string(wiring_.self.value()) + " with rank " +
              std::to_string(wiring_.peer.value()) + ", channel " +
              std::to_string(wiring_.channel) + ": " + what};
}

Status ShmLink::peer_has_ended() const {
  return fail(StatusCode::kPeerLost,
              "the peer has ended: it has destroyed its communicator or given up, or its process "
              "is gone; look at its log");
}

void ShmLink::publish(RecordKind kind, const Frame& frame, uint64_t payload_bytes, bool whole) {
  const bool half_full = wiring_.out.publish(kind, encode(frame), payload_bytes, whole);
  if (whole) {
    ++accepted_;
    wiring_.peer_bell.message_published(half_full);
  } else if (half_full) {
    wiring_.peer_bell.ring_half_full();
  }
}

// A peer that has ended may have made room before.
Result<std::byte*> ShmLink::reserve(uint64_t payload_bytes, uint64_t wanted_bytes) {
  std::byte* to = wiring_.out.reserve(payload_bytes, wanted_bytes);
  if (to == nullptr && wiring_.peer_end->ended()) {
    to = wiring_.out.reserve(payload_bytes, wanted_bytes);
    if (to == nullptr) {
      return peer_has_ended();
    }
  }
  return to;
}

Result<bool> ShmLink::send_inline(const Frame& frame, std::span<const ConstBytes> payload) {
  const uint64_t bytes = frame.payload_bytes;
  HORING_ASSIGN(std::byte* const to, reserve(bytes, record_bytes(bytes)));
  if (to == nullptr) {
    return false;
  }
  gather(to, payload, 0, bytes);
  publish(RecordKind::kInline, frame, bytes, true);
  return true;
}

Result<bool> ShmLink::send_reference(const Frame& frame, std::span<const ConstBytes> payload) {
  std::array<RemoteRange, kMaxParts> ranges{};
  size_t count = 0;
  for (const ConstBytes& part : payload) {
    if (!part.empty()) {
      ranges.at(count++) = {reinterpret_cast<uintptr_t>(part.data()), part.size()};
    }
  }
  const uint64_t bytes = count * sizeof(RemoteRange);
  HORING_ASSIGN(std::byte* const to, reserve(bytes, record_bytes(bytes)));
  if (to == nullptr) {
    return false;
  }
  std::memcpy(to, ranges.data(), bytes);
  unread_.push_back(accepted_);
  ++references_;
  publish(RecordKind::kSingleCopy, frame, bytes, true);
  return true;
}

Result<bool> ShmLink::send_fragments(const Frame& frame, std::span<const ConstBytes> payload) {
  const uint64_t total = frame.payload_bytes;
  const uint64_t most = wiring_.out.max_payload_bytes();
  while (sent_bytes_ < total) {
    const uint64_t rest = total - sent_bytes_;
    const uint64_t bytes = std::min(most, rest);
    const uint64_t wanted = rest / most * record_bytes(most) + record_bytes(rest % most);
    HORING_ASSIGN(std::byte* const to, reserve(bytes, wanted));
    if (to == nullptr) {
      return false;
    }
    gather(to, payload, sent_bytes_, bytes);
    const RecordKind kind = sent_bytes_ == 0 ? RecordKind::kFirst : RecordKind::kMore;
    sent_bytes_ += bytes;
    publish(kind, frame, bytes, sent_bytes_ == total);
  }
  sent_bytes_ = 0;
  return true;
}

Result<bool> ShmLink::try_send(const Frame& frame, std::span<const ConstBytes> payload) {
  const uint64_t total = frame.payload_bytes;
  if (payload.size() > kMaxParts || total > kMaxPayloadBytes || total_bytes(payload) != total) {
    return fail(StatusCode::kInternal,
                "send of " + std::to_string(payload.size()) + " parts with " +
                    std::to_string(total_bytes(payload)) + " bytes, announced " +
                    std::to_string(total) + " bytes");
  }
  if (wiring_.peer_reads_me && total > 0 && total >= wiring_.single_copy_min_bytes) {
    return send_reference(frame, payload);
  }
  return total <= wiring_.out.max_payload_bytes() ? send_inline(frame, payload)
                                                  : send_fragments(frame, payload);
}

uint64_t ShmLink::released() {
  if (unread_.empty()) {
    return accepted_;
  }
  const uint64_t acked = acked_by_peer();
  while (acked_ < acked) {
    unread_.pop_front();
    ++acked_;
  }
  return unread_.empty() ? accepted_ : unread_.front();
}

// The peer's count, but never more than was sent.
uint64_t ShmLink::acked_by_peer() const {
  return std::min(wiring_.out.acked(), references_);
}

// Of what the peer was to read in this rank's memory and has not, none will be released, and no
// offer answered.
Status ShmLink::went_wrong() const {
  if ((unread_.empty() && !offered_) || !wiring_.peer_end->ended()) {
    return {};
  }
  const bool lost = acked_by_peer() < references_ || (offered_ && wiring_.out.offer_answer() == 0);
  return lost ? peer_has_ended() : Status();
}

bool ShmLink::unseen_release() const {
  return wiring_.out.space_came() ||
         (!unread_.empty() && acked_by_peer() > std::max(acked_, acked_seen_));
}

void ShmLink::mark_seen() {
  wiring_.in.mark_seen();
  wiring_.out.mark_seen();
  acked_seen_ = acked_by_peer();
}

// A peer that has ended may have written something before.
Result<std::optional<RingReader::Record>> ShmLink::peek_record() {
  auto record = wiring_.in.peek();
  if (record.ok() && !record->has_value() && wiring_.peer_end->ended()) {
    record = wiring_.in.peek();
    if (record.ok() && !record->has_value()) {
      return peer_has_ended();
    }
  }
  if (!record.ok()) {
    return fail(record.status().code(), record.status().message());
  }
  return record;
}

Result<std::optional<RingReader::Record>> ShmLink::next_record() {
  auto record = peek_record();
  while (record.ok() && record->has_value() && (*record)->kind == RecordKind::kOffer) {
    HORING_TRY(answer_offer((*record)->payload));
    record = peek_record();
  }
  return record;
}

Status ShmLink::answer_offer(ConstBytes offer) {
  if (answered_ || offer.size() > kMaxOfferBytes) {
    return fail(StatusCode::kProtocol,
                answered_ ? "a second offer of device memory"
                          : "an offer of device memory of " + std::to_string(offer.size()) +
                                " bytes, more than " + std::to_string(kMaxOfferBytes));
  }
  bool taken = false;
  if (taker_) {
    // What was checked stays as it was checked.
    const std::vector<std::byte> own(offer.begin(), offer.end());
    const Result<bool> answer = taker_(own);
    if (!answer.ok()) {
      return fail(answer.status().code(), answer.status().message());
    }
    taken = *answer;
  }
  answered_ = true;
  wiring_.in.answer_offer(
      static_cast<uint32_t>(taken ? OfferAnswer::kTaken : OfferAnswer::kRefused));
  consume(false);
  wiring_.peer_bell.wake();
  return {};
}

Result<std::optional<RingReader::Record>> ShmLink::head(const Frame& expected) {
  HORING_ASSIGN(const std::optional<RingReader::Record> record, next_record());
  if (record.has_value()) {
    const auto frame = decode(record->frame);
    const Status checked = frame.ok() ? check_expected(expected, *frame) : frame.status();
    if (!checked.ok()) {
      return fail(checked.code(), checked.message());
    }
  }
  return record;
}

void ShmLink::consume(bool acknowledge) {
  const bool space_wanted = wiring_.in.consume();
  if (acknowledge && through_.empty()) {
    wiring_.in.acknowledge();
  } else if (acknowledge) {
    through_.push_back(true);
  }
  if (acknowledge || space_wanted) {
    wiring_.peer_bell.released();
  }
}

void ShmLink::acknowledge_read() {
  while (!through_.empty() && through_.front()) {
    through_.pop_front();
    wiring_.in.acknowledge();
  }
}

Result<bool> ShmLink::try_send_offset(const Frame& frame, uint64_t offset) {
  HORING_ASSIGN(std::byte* const to, reserve(sizeof(offset), record_bytes(sizeof(offset))));
  if (to == nullptr) {
    return false;
  }
  std::memcpy(to, &offset, sizeof(offset));
  unread_.push_back(accepted_);
  ++references_;
  publish(RecordKind::kShared, frame, sizeof(offset), true);
  return true;
}

Result<OffsetMessages::Message> ShmLink::try_recv_offset(const Frame& expected) {
  HORING_ASSIGN(const std::optional<RingReader::Record> record, head(expected));
  if (!record.has_value() || record->kind != RecordKind::kShared) {
    return Message{record.has_value()};
  }
  uint64_t offset = 0;
  if (record->payload.size() != sizeof(offset) || received_bytes_ > 0) {
    return fail(StatusCode::kProtocol, "a message in device memory that does not say where");
  }
  std::memcpy(&offset, record->payload.data(), sizeof(offset));
  consume(false);
  through_.push_back(false);
  return Message{false, offset};
}

void ShmLink::release_offset() {
  *std::ranges::find(through_, false) = true;
  acknowledge_read();
  wiring_.peer_bell.released();
}

// No message, so it counts as none, and whatever the peer waits for it must look.
Result<bool> ShmLink::try_offer(ConstBytes offer) {
  if (offered_ || offer.size() > kMaxOfferBytes) {
    return fail(StatusCode::kInternal,
                "an offer of " + std::to_string(offer.size()) + " bytes, or a second one");
  }
  HORING_ASSIGN(std::byte* const to, reserve(offer.size(), record_bytes(offer.size())));
  if (to == nullptr) {
    return false;
  }
  std::ranges::copy(offer, to);
  offered_ = true;
  publish(RecordKind::kOffer, Frame{}, offer.size(), false);
  wiring_.peer_bell.wake();
  return true;
}

Result<OffsetMessages::OfferAnswer> ShmLink::offer_answer() {
  const uint32_t answer = wiring_.out.offer_answer();
  if (answer > static_cast<uint32_t>(OfferAnswer::kRefused)) {
    return fail(StatusCode::kProtocol,
                "answer " + std::to_string(answer) + " to an offer of device memory");
  }
  return static_cast<OfferAnswer>(answer);
}

Status ShmLink::read_reference(const RingReader::Record& record,
                               uint64_t total,
                               std::span<const Bytes> parts) {
  const size_t count = record.payload.size() / sizeof(RemoteRange);
  if (!wiring_.reads_peer || count > kMaxParts ||
      record.payload.size() % sizeof(RemoteRange) != 0) {
    return fail(StatusCode::kProtocol, "reference to memory that was not agreed on");
  }
  std::array<RemoteRange, kMaxParts> ranges{};
  std::memcpy(ranges.data(), record.payload.data(), record.payload.size());
  uint64_t named = 0;
  for (size_t i = 0; i < count; ++i) {
    if (ranges.at(i).bytes > total - named) {
      return fail(StatusCode::kProtocol, "reference to more memory than the message has bytes");
    }
    named += ranges.at(i).bytes;
  }
  if (named != total) {
    return fail(StatusCode::kProtocol,
                "reference to " + std::to_string(named) + " bytes for a message of " +
                    std::to_string(total));
  }
  const Status read = read_peer_memory(wiring_.peer_pid, std::span(ranges.data(), count), parts);
  if (!read.ok()) {
    return fail(StatusCode::kPeerLost,
                "the payload of rank " + std::to_string(wiring_.peer.value()) +
                    " cannot be read any more (" + read.message() +
                    "); its process has most likely ended, see its output");
  }
  return {};
}

Result<bool> ShmLink::take(const RingReader::Record& record,
                           uint64_t total,
                           std::span<const Bytes> parts) {
  const bool fragment = record.kind == RecordKind::kFirst || record.kind == RecordKind::kMore;
  if ((record.kind == RecordKind::kMore) != (received_bytes_ > 0)) {
    return fail(StatusCode::kProtocol, "a message begins in the middle of another");
  }
  if (record.kind == RecordKind::kSingleCopy) {
    HORING_TRY(read_reference(record, total, parts));
    consume(true);
    return true;
  }
  if (record.kind == RecordKind::kShared) {
    return fail(StatusCode::kProtocol, "a message in device memory, which this rank cannot read");
  }
  const uint64_t bytes = record.payload.size();
  const bool fits = fragment ? bytes > 0 && bytes <= total - received_bytes_ : bytes == total;
  if (!fits) {
    return fail(StatusCode::kProtocol,
                "a part of " + std::to_string(bytes) + " bytes after " +
                    std::to_string(received_bytes_) + " of " + std::to_string(total));
  }
  scatter(parts, received_bytes_, record.payload);
  consume(false);
  received_bytes_ += bytes;
  if (received_bytes_ < total) {
    return false;
  }
  received_bytes_ = 0;
  return true;
}

Result<bool> ShmLink::receive(const Frame& expected, std::span<const Bytes> parts) {
  while (true) {
    HORING_ASSIGN(const std::optional<RingReader::Record> record, head(expected));
    if (!record.has_value()) {
      return false;
    }
    HORING_ASSIGN(const bool complete, take(*record, expected.payload_bytes, parts));
    if (complete) {
      return true;
    }
  }
}

Result<std::optional<Frame>> ShmLink::try_peek(bool /*awaited*/) {
  HORING_ASSIGN(const std::optional<RingReader::Record> record, next_record());
  if (!record.has_value()) {
    return std::optional<Frame>();
  }
  const auto frame = decode(record->frame);
  if (!frame.ok()) {
    return fail(frame.status().code(), frame.status().message());
  }
  return std::optional<Frame>(*frame);
}

Result<bool> ShmLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  const uint64_t total = expected.payload_bytes;
  if (view_ != View::kNone || parts.size() > kMaxParts || total_bytes(parts) != total) {
    return fail(StatusCode::kInternal,
                view_ != View::kNone ? "receive while a view is held"
                                     : "receive of " + std::to_string(total) + " bytes into " +
                                           std::to_string(parts.size()) + " parts of " +
                                           std::to_string(total_bytes(parts)) + " bytes");
  }
  return receive(expected, parts);
}

Bytes ShmLink::staging(uint64_t bytes) {
  if (staging_ == nullptr || bytes > staging_bytes_) {
    staging_.reset();
    staging_ = std::make_unique_for_overwrite<std::byte[]>(std::max<uint64_t>(bytes, 1));
    staging_bytes_ = bytes;
  }
  return {staging_.get(), bytes};
}

Result<ConstBytes> ShmLink::try_view(const Frame& expected) {
  if (view_ != View::kNone || expected.payload_bytes > kMaxPayloadBytes) {
    return fail(StatusCode::kInternal, "view of a message while the one before it is held");
  }
  HORING_ASSIGN(const std::optional<RingReader::Record> record, head(expected));
  if (!record.has_value()) {
    return ConstBytes();
  }
  if (record->kind == RecordKind::kInline) {
    if (record->payload.size() != expected.payload_bytes || received_bytes_ > 0) {
      return fail(StatusCode::kProtocol, "a message of another size than it announced");
    }
    view_ = View::kInRing;
    return record->payload;
  }
  const Bytes whole = staging(expected.payload_bytes);
  HORING_ASSIGN(const bool complete, receive(expected, std::span(&whole, 1)));
  if (!complete) {
    return ConstBytes();
  }
  view_ = View::kStaged;
  return ConstBytes(whole);
}

void ShmLink::release_view() {
  if (view_ == View::kInRing) {
    consume(false);
  }
  view_ = View::kNone;
}

}  // namespace ho
