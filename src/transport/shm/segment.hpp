// The geometry of a rank's shared memory segment, and the structures that processes share in it.
//
//   page 0            the doorbell
//   ring controls     one per (other member, channel)
//   ring data         one per (other member, channel), page-aligned
//
// A rank owns one segment: its peers write into the rings there, it reads. Pages that no message
// has used cost no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "transport/transport.hpp"

namespace ho {

inline constexpr size_t kCacheLine = 64;

// How the words in a segment are read and written: the sleeper and the publisher each write one
// word and then read the other's.
inline constexpr auto kOrdered = std::memory_order_seq_cst;

// What peers touch to make a rank's transport aware of news. See doorbell.hpp.
struct DoorbellBlock {
  // Written by peers: whole messages published to this rank, of all rings; wraps.
  alignas(kCacheLine) std::atomic<uint32_t> arrivals;
  // The futex word: a SleepMode. Written by the owner going to sleep and by the peer that wakes it.
  alignas(kCacheLine) std::atomic<uint32_t> mode;
  // Written by the owner before `mode`: the events that shall wake it.
  std::atomic<uint32_t> wants;
  std::atomic<uint32_t> wake_at;  // value of `arrivals`, if wants has kWantsCount
  // Set by wake().
  std::atomic<uint32_t> wake_requested;
};

// One ring: single producer (the peer), single consumer (the segment's owner). Positions count
// bytes since the beginning and never wrap; the place in the ring is position modulo size.
struct RingControl {
  // Producer's line.
  alignas(kCacheLine) std::atomic<uint64_t> written;
  std::atomic<uint64_t> published;  // whole messages
  std::atomic<uint32_t> ended;      // on channel 0: the peer is no member any more
  std::atomic<uint32_t> closed;     // on channel 0: the peer writes and reads nothing any more
  // Consumer's line.
  alignas(kCacheLine) std::atomic<uint64_t> read;
  std::atomic<uint64_t> acked;         // single-copy messages whose payload has been read
  std::atomic<uint32_t> offer_answer;  // an OffsetMessages::OfferAnswer
  // Free bytes the producer waits for; 0 when it does not.
  alignas(kCacheLine) std::atomic<uint64_t> wants_space;
};

// Zero bytes, which is what a new memory file holds, are a valid initial state of both.
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Same members and ring size, same geometry, on every rank.
class SegmentGeometry {
 public:
  // Ring sizes are powers of two of at least kMinRingBytes; the wanted size is rounded down, then
  // halved until all rings of a rank fit in kMaxRingBytesPerRank or the minimum is reached.
  static constexpr uint64_t kMinRingBytes = uint64_t{8} << 10;
  static constexpr uint64_t kMaxRingBytesPerRank = uint64_t{16} << 20;

  SegmentGeometry(size_t member_count, uint64_t wanted_ring_bytes);

  [[nodiscard]] uint64_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] size_t segment_bytes() const { return segment_bytes_; }

  // In `owner`'s segment, the ring that `writer` (another member's index) fills.
  [[nodiscard]] RingControl& control(std::span<std::byte> segment,
                                     size_t owner,
                                     size_t writer,
                                     uint8_t channel) const;
  [[nodiscard]] std::span<std::byte> ring(std::span<std::byte> segment,
                                          size_t owner,
                                          size_t writer,
                                          uint8_t channel) const;
  [[nodiscard]] static DoorbellBlock& doorbell(std::span<std::byte> segment);

 private:
  [[nodiscard]] static size_t slot(size_t owner, size_t writer, uint8_t channel);

  uint64_t ring_bytes_ = 0;
  size_t data_offset_ = 0;
  size_t segment_bytes_ = 0;
};

}  // namespace ho
