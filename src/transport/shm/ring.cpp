#include "transport/shm/ring.hpp"

#include <algorithm>
#include <cstring>

namespace ho {
namespace {}  // namespace

uint64_t RingWriter::used() const {
  return std::min<uint64_t>(written_ - read_, ring_.size());
}

void RingWriter::put_header(uint64_t offset, const RecordHeader& header) {
  std::memcpy(ring_.data() + offset, &header, sizeof(header));
}

std::byte* RingWriter::reserve(uint64_t payload_bytes, uint64_t wanted_bytes) {
  const uint64_t size = ring_.size();
  const uint64_t needed = record_bytes(payload_bytes);
  const uint64_t offset = written_ % size;
  const uint64_t pad = offset + needed > size ? size - offset : 0;
  if (size - used() < pad + needed) {
    read_ = control_->read.load(std::memory_order_acquire);
  }
  if (size - used() < pad + needed) {
    // Request, then check again: the reader frees space first and checks for requests second.
    waits_for_ = pad + std::clamp(wanted_bytes, needed, size / 2);
    space_seen_ = false;
    control_->wants_space.store(waits_for_, kOrdered);
    read_ = control_->read.load(kOrdered);
    if (size - used() < pad + needed) {
      return nullptr;
    }
  }
  if (waits_for_ != 0) {
    control_->wants_space.store(0, std::memory_order_relaxed);
    waits_for_ = 0;
  }
  if (pad != 0) {
    RecordHeader header;
    header.kind = static_cast<uint32_t>(RecordKind::kPad);
    header.payload_bytes = static_cast<uint32_t>(pad - kRecordHeaderBytes);
    put_header(offset, header);
    written_ += pad;  // becomes visible together with the record behind it
  }
  return ring_.data() + written_ % size + kRecordHeaderBytes;
}

bool RingWriter::publish(RecordKind kind,
                         const FrameBytes& frame,
                         uint64_t payload_bytes,
                         bool whole) {
  RecordHeader header;
  header.kind = static_cast<uint32_t>(kind);
  header.payload_bytes = static_cast<uint32_t>(payload_bytes);
  header.frame = frame;
  put_header(written_ % ring_.size(), header);
  const uint64_t before = control_->written.load(std::memory_order_relaxed);
  written_ += record_bytes(payload_bytes);
  control_->written.store(written_, kOrdered);
  if (whole) {
    control_->published.fetch_add(1, kOrdered);
  }
  const uint64_t half = ring_.size() / 2;
  if (used() >= half) {
    read_ = control_->read.load(kOrdered);
  }
  // While the reader sleeps its position stands still, so exactly one publication crosses the mark.
  return used() >= half && before - read_ < half;
}

bool RingWriter::space_came() const {
  return waits_for_ != 0 && !space_seen_ &&
         ring_.size() - (written_ - control_->read.load(kOrdered)) >= waits_for_;
}

Status RingReader::damaged(const std::string& what) const {
  return {StatusCode::kProtocol,
          "damaged message in shared memory at position " + std::to_string(read_) + ": " + what +
              "; the peer wrote outside its protocol, run it under a memory checker"};
}

Result<std::optional<RingReader::Record>> RingReader::peek() {
  // In this order: whatever is counted as seen can also be read.
  seen_published_ = control_->published.load(kOrdered);
  seen_written_ = control_->written.load(kOrdered);
  const uint64_t available = seen_written_ - read_;
  if (available == 0) {
    return std::optional<Record>();
  }
  if (available > ring_.size() || available % kCacheLine != 0) {
    return damaged("its end is " + std::to_string(available) + " bytes further");
  }
  return peek_at(available);
}

Result<std::optional<RingReader::Record>> RingReader::peek_at(uint64_t available) {
  const uint64_t offset = read_ % ring_.size();
  RecordHeader header;
  std::memcpy(&header, ring_.data() + offset, sizeof(header));
  const uint64_t until_end = std::min<uint64_t>(available, ring_.size() - offset);
  const uint64_t bytes = record_bytes(header.payload_bytes);
  if (bytes > until_end) {
    return damaged("a record of " + std::to_string(bytes) + " bytes where " +
                   std::to_string(until_end) + " are left");
  }
  if (header.kind == static_cast<uint32_t>(RecordKind::kPad)) {
    if (offset + bytes != ring_.size() || bytes == available) {
      return damaged("padding inside the ring");
    }
    read_ += bytes;  // its space goes back with the next record's
    return peek_at(available - bytes);
  }
  if (header.kind < static_cast<uint32_t>(RecordKind::kInline) ||
      header.kind > static_cast<uint32_t>(RecordKind::kOffer)) {
    return damaged("record kind " + std::to_string(header.kind));
  }
  head_bytes_ = bytes;
  Record record;
  record.kind = static_cast<RecordKind>(header.kind);
  record.frame = header.frame;
  record.payload = ring_.subspan(offset + kRecordHeaderBytes, header.payload_bytes);
  return std::optional<Record>(record);
}

bool RingReader::consume() {
  read_ += head_bytes_;
  head_bytes_ = 0;
  control_->read.store(read_, kOrdered);
  const uint64_t wanted = control_->wants_space.load(kOrdered);
  if (wanted == 0) {
    return false;
  }
  const uint64_t held = control_->written.load(kOrdered) - read_;
  if (held > ring_.size() || ring_.size() - held < wanted) {
    return false;
  }
  return control_->wants_space.exchange(0, kOrdered) != 0;
}

bool RingReader::unseen_half_full() const {
  const uint64_t written = control_->written.load(kOrdered);
  return written != seen_written_ && written - read_ >= ring_.size() / 2;
}

void RingReader::mark_seen() {
  seen_published_ = control_->published.load(kOrdered);
  seen_written_ = control_->written.load(kOrdered);
}

}  // namespace ho
