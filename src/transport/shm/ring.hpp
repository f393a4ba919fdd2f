// The two ends of one single-producer single-consumer ring of records in shared memory.
//
// A record is a header line of 64 bytes and a payload that lies in one piece, so that a reader can
// use a message in place. (The end of the ring is padded where the next record would wrap.)
// Records are multiples of 64 bytes and at most a quarter of the ring; a producer that finds
// no room therefore faces a ring that is more than half full, whose reader has been rung.
//
// The reader trusts nothing: positions, kinds and lengths are checked on a private copy of the
// header before use, so a broken peer gives an error here, never an access out of bounds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "transport/frame.hpp"
#include "transport/shm/segment.hpp"

namespace ho {

enum class RecordKind : uint32_t {
  kPad = 1,         // skip to the beginning of the ring
  kInline = 2,      // a whole message
  kFirst = 3,       // the first fragment of a message
  kMore = 4,        // a further fragment; the frame is repeated
  kSingleCopy = 5,  // where the payload lies in the sender's memory: RemoteRange x n
  kShared = 6,      // where it lies in device memory that the sender has exported: uint64_t
  kOffer = 7,       // no message: that memory itself, as in OffsetMessages::try_offer()
};

struct RecordHeader {
  uint32_t kind = 0;
  uint32_t payload_bytes = 0;  // of this record
  FrameBytes frame{};
};
inline constexpr size_t kRecordHeaderBytes = 64;
static_assert(sizeof(RecordHeader) <= kRecordHeaderBytes);

[[nodiscard]] constexpr uint64_t record_bytes(uint64_t payload_bytes) {
  return kRecordHeaderBytes + (payload_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

class RingWriter {
 public:
  RingWriter(RingControl& control, std::span<std::byte> ring) : control_(&control), ring_(ring) {}

  [[nodiscard]] uint64_t max_payload_bytes() const { return ring_.size() / 4 - kRecordHeaderBytes; }
  // Room for one record with this payload, in place, or nullptr: then the reader is asked to
  // signal when `wanted_bytes` (at least the record's size) are free.
  [[nodiscard]] std::byte* reserve(uint64_t payload_bytes, uint64_t wanted_bytes);
  // Publishes the reserved record, whose payload has been written. True when that made the ring
  // half full.
  [[nodiscard]] bool publish(RecordKind kind,
                             const FrameBytes& frame,
                             uint64_t payload_bytes,
                             bool whole);

  // Whether the last reserve() failed, would succeed now, and that was not marked as seen.
  [[nodiscard]] bool space_came() const;
  void mark_seen() { space_seen_ = space_seen_ || space_came(); }
  [[nodiscard]] uint64_t acked() const { return control_->acked.load(std::memory_order_seq_cst); }
  // As the reader wrote it, unchecked.
  [[nodiscard]] uint32_t offer_answer() const { return control_->offer_answer.load(kOrdered); }

 private:
  // Bytes that the reader still holds; never more than the ring, whatever the reader wrote.
  [[nodiscard]] uint64_t used() const;
  void put_header(uint64_t offset, const RecordHeader& header);

  RingControl* control_;
  std::span<std::byte> ring_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;  // as last seen
  uint64_t waits_for_ = 0;
  bool space_seen_ = false;
};

class RingReader {
 public:
  RingReader(RingControl& control, std::span<std::byte> ring) : control_(&control), ring_(ring) {}

  struct Record {
    RecordKind kind = RecordKind::kInline;
    FrameBytes frame{};
    std::span<const std::byte> payload;
  };
  // The next record, nothing when there is none, or kProtocol when the ring's content is damaged.
  // It stays where it is until consume().
  [[nodiscard]] Result<std::optional<Record>> peek();
  // Gives the peeked record's space back. True when a producer waits for it.
  [[nodiscard]] bool consume();
  void acknowledge() { control_->acked.store(++acked_, std::memory_order_seq_cst); }
  void answer_offer(uint32_t answer) { control_->offer_answer.store(answer, kOrdered); }

  // Messages that were published since the last peek() (or since mark_seen()).
  [[nodiscard]] uint64_t unseen() const {
    return control_->published.load(std::memory_order_seq_cst) - seen_published_;
  }
  // Half full, with something in it that peek() has not seen.
  [[nodiscard]] bool unseen_half_full() const;
  void mark_seen();

 private:
  [[nodiscard]] Result<std::optional<Record>> peek_at(uint64_t available);
  [[nodiscard]] Status damaged(const std::string& what) const;

  RingControl* control_;
  std::span<std::byte> ring_;
  uint64_t read_ = 0;
  uint64_t acked_ = 0;
  uint64_t head_bytes_ = 0;  // of the peeked record
  uint64_t seen_published_ = 0;
  uint64_t seen_written_ = 0;
};

}  // namespace ho
