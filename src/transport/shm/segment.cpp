#include "transport/shm/segment.hpp"

#include <algorithm>
#include <bit>

namespace ho {
namespace {

constexpr size_t kPage = 4096;

static_assert(sizeof(DoorbellBlock) <= kPage);

}  // namespace

SegmentGeometry::SegmentGeometry(size_t member_count, uint64_t wanted_ring_bytes) {
  const size_t rings = (member_count - 1) * kChannelCount;
  ring_bytes_ = std::bit_floor(std::clamp(wanted_ring_bytes, kMinRingBytes, kMaxRingBytesPerRank));
  while (ring_bytes_ > kMinRingBytes && rings * ring_bytes_ > kMaxRingBytesPerRank) {
    ring_bytes_ /= 2;
  }
  const size_t controls_end = kPage + rings * sizeof(RingControl);
  data_offset_ = (controls_end + kPage - 1) / kPage * kPage;
  segment_bytes_ = data_offset_ + rings * ring_bytes_;
}

size_t SegmentGeometry::slot(size_t owner, size_t writer, uint8_t channel) {
  const size_t index = writer < owner ? writer : writer - 1;  // no rank writes to itself
  return index * kChannelCount + channel;
}

RingControl& SegmentGeometry::control(std::span<std::byte> segment,
                                      size_t owner,
                                      size_t writer,
                                      uint8_t channel) const {
  const size_t offset = kPage + slot(owner, writer, channel) * sizeof(RingControl);
  return *reinterpret_cast<RingControl*>(segment.subspan(offset, sizeof(RingControl)).data());
}

std::span<std::byte> SegmentGeometry::ring(std::span<std::byte> segment,
                                           size_t owner,
                                           size_t writer,
                                           uint8_t channel) const {
  return segment.subspan(data_offset_ + slot(owner, writer, channel) * ring_bytes_, ring_bytes_);
}

DoorbellBlock& SegmentGeometry::doorbell(std::span<std::byte> segment) {
  return *reinterpret_cast<DoorbellBlock*>(segment.data());
}

}  // namespace ho
