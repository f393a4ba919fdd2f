#include "core/builtin/recv_comm.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace ho::plugin {
namespace {

// Seconds for which the other connections may be silent once one has ended.
constexpr uint32_t kQuietChecks = 3;

}  // namespace

RecvComm::RecvComm(ConnectionSet connections)
    : Comm(std::move(connections)), inputs_(all_connections().size()) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].connection = all_connections()[i].get();
  }
}

bool RecvComm::can_be_one(std::span<const Buffer> buffers) {
  return !buffers.empty() && buffers.size() <= kMaxReceives &&
         std::ranges::all_of(buffers, [](const Buffer& buffer) {
           return buffer.data != nullptr || buffer.bytes == 0;
         });
}

uint64_t RecvComm::capacity_of(std::span<const Buffer> buffers) {
  return std::accumulate(
      buffers.begin(), buffers.end(), uint64_t{0}, [](uint64_t sum, const Buffer& buffer) {
        return sum + buffer.bytes;
      });
}

Reply RecvComm::irecv(std::span<const Buffer> buffers, Request** request) {
  *request = nullptr;
  if (!can_be_one(buffers)) {
    return Reply::kInvalidArgument;
  }
  if (failed()) {
    return failure();
  }
  RecvRequest* const found = find_free(requests_);
  if (found == nullptr) {
    note_again(true);
    return Reply::kSuccess;
  }
  note_again(false);
  found->count = static_cast<uint32_t>(buffers.size());
  found->slots_left = found->count;
  found->sequence = next_sequence_++;
  for (size_t i = 0; i < buffers.size(); ++i) {
    found->slots.at(i) = {buffers[i], false, 0, 0};
    found->sizes.at(i) = 0;
  }
  begin(*found, capacity_of(buffers));
  if (!ordered()) {
    announce(*found);
  }
  progress_or_leave();
  *request = found;
  return Reply::kSuccess;
}

void RecvComm::announce(const RecvRequest& request) {
  ReceiveCredit record;
  record.sequence = request.sequence;
  record.count = request.count;
  for (uint32_t i = 0; i < request.count; ++i) {
    record.tags.at(i) = request.slots.at(i).buffer.tag;
    record.capacities.at(i) = request.slots.at(i).buffer.bytes;
  }
  if (credits_begin_ > 0) {
    std::memmove(credits_.data(), credits_.data() + credits_begin_, credits_end_ - credits_begin_);
    credits_end_ -= credits_begin_;
    credits_begin_ = 0;
  }
  std::array<std::byte, kMaxCreditBytes> bytes{};
  const size_t size = encode(record, bytes);
  std::memcpy(credits_.data() + credits_end_, bytes.data(), size);
  credits_end_ += size;
}

void RecvComm::write_credits() {
  NetConnection& connection = *all_connections().front();
  while (credits_begin_ < credits_end_ && connection.socket().writable && !connection.ended()) {
    const size_t size = credits_end_ - credits_begin_;
    std::array<iovec, 1> buffer{iovec{credits_.data() + credits_begin_, size}};
    const Result<size_t> written = connection.write(buffer, size);
    if (!written.ok()) {
      // The sender may have closed after all that it had to send, which is still to be read.
      connection.look_for_end();
      return;
    }
    credits_begin_ += *written;
  }
}

Status RecvComm::advance() {
  write_credits();
  for (Input& input : inputs_) {
    HORING_TRY(read_input(input));
  }
  return look_for_ends();
}

// true: a piece of a message is due on this connection.
Result<bool> RecvComm::find_segment(Input& input) {
  while (input.request == nullptr) {
    if (!input.connection->fetch(kSegmentBytes)) {
      return false;
    }
    HORING_TRY(start_segment(input));
    if (input.early) {
      return false;
    }
  }
  return true;
}

Status RecvComm::read_input(Input& input) {
  size_t budget = kTurnBytes;
  while (true) {
    HORING_ASSIGN(const bool under_way, find_segment(input));
    if (!under_way) {
      return {};
    }
    const uint64_t left = input.segment.length - input.got;
    if (left > 0) {
      if (budget == 0) {
        note_more();
        return {};
      }
      std::byte* const to = input.request->slots.at(input.segment.slot).buffer.data +
                            input.segment.offset + input.got;
      const size_t got = input.connection->read({to, std::min<uint64_t>(left, budget)});
      if (got == 0) {
        return input.connection->ended() ? *input.connection->ended() : Status();
      }
      arrived_ = true;
      input.got += got;
      budget -= got;
    }
    if (input.got == input.segment.length) {
      end_segment(input);
    }
  }
}

// It waits in the connection for its receive, which announces nothing. With one connection it can
// be the next one only.
bool RecvComm::is_early(const NetSegment& segment) const {
  return ordered() && segment.kind != NetSegment::Kind::kLeaving &&
         (inputs_.size() == 1 ? segment.sequence == next_sequence_
                              : segment.sequence >= next_sequence_);
}

Status RecvComm::start_segment(Input& input) {
  HORING_ASSIGN(input.segment, decode_segment(input.connection->ahead().first(kSegmentBytes)));
  const NetSegment& segment = input.segment;
  input.early = is_early(segment);
  if (input.early) {
    return {};
  }
  input.connection->drop(kSegmentBytes);
  if (segment.kind == NetSegment::Kind::kLeaving) {
    note_peer_leaves();
    return {};
  }
  const auto request = std::ranges::find_if(requests_, [&](const auto& each) {
    return each.state == Request::State::kActive && each.sequence == segment.sequence;
  });
  if (request == requests_.end() || segment.slot >= request->count ||
      request->slots.at(segment.slot).buffer.tag != segment.tag) {
    return {StatusCode::kProtocol,
            fmt::format("the peer sent a piece for buffer {} of receive {} with tag {}, which is "
                        "not waited for; both ends must make the same calls in the same order",
                        segment.slot,
                        segment.sequence,
                        segment.tag)};
  }
  Slot& slot = request->slots.at(segment.slot);
  const bool too_long = segment.bytes > slot.buffer.bytes;
  if (too_long) {
    return {StatusCode::kMismatch,
            fmt::format("the peer sends {} bytes with tag {}, and there is room for {}; both ends "
                        "must agree on sizes",
                        segment.bytes,
                        segment.tag,
                        slot.buffer.bytes)};
  }
  const bool agrees = !slot.started || (segment.bytes == request->sizes.at(segment.slot) &&
                                        segment.length <= slot.unclaimed && slot.unclaimed > 0);
  if (segment.kind != NetSegment::Kind::kPiece || !agrees) {
    return {StatusCode::kProtocol,
            fmt::format("the peer's pieces of the message with tag {} contradict one another",
                        segment.tag)};
  }
  if (!slot.started) {
    slot.started = true;
    slot.unclaimed = segment.bytes;
    slot.missing = segment.bytes;
    request->sizes.at(segment.slot) = segment.bytes;
  }
  slot.unclaimed -= segment.length;
  input.request = &*request;
  input.got = 0;
  arrived_ = true;
  return {};
}

void RecvComm::end_segment(Input& input) {
  RecvRequest& request = *input.request;
  Slot& slot = request.slots.at(input.segment.slot);
  slot.missing -= input.segment.length;
  input.request = nullptr;
  if (slot.missing == 0 && --request.slots_left == 0) {
    complete(request);
  }
}

// Nothing more will come, and nothing that came waits for its receive.
bool RecvComm::has_ended(const Input& input) {
  return input.connection->ended().has_value() && !input.early;
}

Status RecvComm::look_for_ends() {
  if (!std::ranges::all_of(inputs_, &RecvComm::has_ended)) {
    return {};
  }
  return *inputs_.front().connection->ended();
}

// A sender closes all connections at once. Where one ends alone, what was to come on it is lost.
Status RecvComm::check(int64_t now_ns) {
  const auto ended = std::ranges::find_if(inputs_, &RecvComm::has_ended);
  quiet_checks_ = ended != inputs_.end() && !arrived_ ? quiet_checks_ + 1 : 0;
  arrived_ = false;
  if (quiet_checks_ >= kQuietChecks) {
    return *ended->connection->ended();
  }
  return Comm::check(now_ns);
}

size_t RecvComm::encode_leaving(LeavingBytes& bytes) const {
  std::array<std::byte, kMaxCreditBytes> record{};
  const size_t size = encode(ReceiveCredit{}, record);
  std::copy_n(record.begin(), size, bytes.begin());
  return size;
}

bool RecvComm::is_leaving(std::span<const std::byte> waiting) const {
  const size_t size = std::min(waiting.size(), kSegmentBytes);
  const Result<NetSegment> segment = decode_segment(waiting.last(size));
  return segment.ok() && segment->kind == NetSegment::Kind::kLeaving;
}

std::string RecvComm::oldest() const {
  const RecvRequest* found = nullptr;
  for (const RecvRequest& request : requests_) {
    const bool older = found == nullptr || request.sequence < found->sequence;
    if (request.state == Request::State::kActive && older) {
      found = &request;
    }
  }
  if (found == nullptr) {
    return {};
  }
  const auto slot =
      std::find_if(found->slots.begin(), found->slots.begin() + found->count, [](const Slot& each) {
        return !each.started || each.missing > 0;
      });
  return fmt::format("tag {}, room for {} bytes", slot->buffer.tag, slot->buffer.bytes);
}

}  // namespace ho::plugin
