#include "core/builtin/send_comm.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "os/clock.hpp"

namespace ho::plugin {
namespace {

constexpr size_t kMaxPiecesPerWrite = 16;

// What is left of header and data from byte `skip` of the two on, at most `limit` bytes.
size_t gather(std::span<const std::byte> part, size_t& skip, size_t limit, iovec& to) {
  const size_t skipped = std::min(skip, part.size());
  skip -= skipped;
  const size_t size = std::min(part.size() - skipped, limit);
  // sendmsg takes non-const pointers but only reads.
  to = {const_cast<std::byte*>(part.data()) + skipped, size};  // NOLINT
  return size;
}

}  // namespace

SendComm::SendComm(ConnectionSet connections)
    : Comm(std::move(connections)), outputs_(all_connections().size()) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].connection = all_connections()[i].get();
  }
}

Reply SendComm::isend(std::span<const std::byte> data, int32_t tag, Request** request) {
  *request = nullptr;
  if (data.size() > kMaxMessageBytes) {
    return Reply::kInvalidArgument;
  }
  SendRequest* const free = find_free(requests_);
  auto posted = free != nullptr ? take_slot(tag) : std::nullopt;
  if (!posted) {
    note_again(false);  // what comes now is taken here
    progress();
    posted = free != nullptr ? take_slot(tag) : std::nullopt;
  }
  if (failed()) {
    return failure();
  }
  if (!posted) {
    note_again(true);
    return Reply::kSuccess;
  }
  note_again(false);
  free->data = data;
  free->tag = tag;
  free->posted = *posted;
  begin(*free, data.size());
  post(*free);
  progress_or_leave();
  *request = free;
  return Reply::kSuccess;
}

std::optional<PostedReceives::Slot> SendComm::take_slot(int32_t tag) {
  if (ordered()) {
    // The receiver's next one; only it knows how much room there is.
    return PostedReceives::Slot{next_sequence_++, 0, kMaxMessageBytes};
  }
  return book_.take(tag);
}

void SendComm::post(SendRequest& request) {
  NetSegment segment;
  segment.slot = request.posted.slot;
  segment.tag = request.tag;
  segment.sequence = request.posted.sequence;
  segment.bytes = request.data.size();
  request.count = 1;
  request.sizes[0] = segment.bytes;
  if (segment.bytes > request.posted.capacity) {
    // In its turn behind earlier messages, which still arrive.
    segment.kind = NetSegment::Kind::kTooLong;
    request.pieces_left = 1;
    post_piece(request, segment);
    return;
  }
  const uint64_t pieces = std::clamp<uint64_t>(segment.bytes / kMinPieceBytes, 1, outputs_.size());
  const uint64_t share = (segment.bytes + pieces - 1) / pieces;
  request.pieces_left = static_cast<uint32_t>(pieces);
  for (uint64_t piece = 0; piece < pieces; ++piece) {
    segment.offset = piece * share;
    segment.length = std::min(share, segment.bytes - segment.offset);
    post_piece(request, segment);
  }
}

void SendComm::post_piece(SendRequest& request, NetSegment segment) {
  Output& output = outputs_[next_output_];
  next_output_ = (next_output_ + 1) % outputs_.size();
  Piece& piece = output.at(output.count);
  piece.request = &request;
  piece.kind = segment.kind;
  piece.header = encode(segment);
  piece.data = request.data.subspan(segment.offset, segment.length);
  ++output.count;
}

Status SendComm::advance() {
  for (Output& output : outputs_) {
    HORING_TRY(write_output(output));
  }
  HORING_TRY(read_credits());
  for (Output& output : outputs_) {
    if (output.connection == all_connections().front().get()) {
      continue;
    }
    // Only credits come this way, and they come on the first connection: whatever can be read here
    // is the end or a fault.
    if (output.connection->fetch(1)) {
      return {StatusCode::kProtocol, "the peer sent data on a connection that is not for them"};
    }
  }
  for (Output& output : outputs_) {
    if (output.connection->ended()) {
      return *output.connection->ended();
    }
  }
  return {};
}

Status SendComm::write_output(Output& output) {
  size_t budget = kTurnBytes;
  while (output.count > 0 && output.connection->socket().writable) {
    if (budget == 0) {
      note_more();
      break;
    }
    const size_t most = paced() ? pace(output, budget) : budget;
    if (most == 0) {
      break;
    }
    std::array<iovec, 2 * kMaxPiecesPerWrite> buffers;  // NOLINT: filled below
    size_t used = 0;
    size_t requested = 0;
    size_t skip = output.written;
    for (size_t i = 0; i < output.count && i < kMaxPiecesPerWrite; ++i) {
      Piece& piece = output.at(i);
      requested += gather(piece.header, skip, most - requested, buffers.at(used++));
      requested += gather(piece.data, skip, most - requested, buffers.at(used++));
    }
    HORING_ASSIGN(const size_t written,
                  output.connection->write(std::span(buffers).first(used), requested));
    budget -= written;
    output.paced_bytes -= std::min(output.paced_bytes, written);
    HORING_TRY(note_written(output, written));
  }
  return {};
}

size_t SendComm::pace(Output& output, size_t most) {
  const int64_t now = now_ns();
  if (output.paced_bytes == 0) {
    size_t waiting = 0;
    for (size_t i = 0; i < output.count && waiting < tcp::Pacer::kSliceBytes; ++i) {
      waiting +=
          output.at(i).header.size() + output.at(i).data.size() - (i == 0 ? output.written : 0);
    }
    output.paced_bytes = std::min(waiting, tcp::Pacer::kSliceBytes);
    output.paced_from_ns = reserve_pace(output.paced_bytes, now);
  }
  if (now < output.paced_from_ns) {
    wake_at(output.paced_from_ns);
    return 0;
  }
  return std::min(most, output.paced_bytes);
}

Status SendComm::note_written(Output& output, size_t bytes) {
  output.written += bytes;
  while (output.count > 0) {
    const Piece& piece = output.at(0);
    const size_t whole = piece.header.size() + piece.data.size();
    if (output.written < whole) {
      break;
    }
    output.written -= whole;
    output.first = (output.first + 1) % kMaxRequests;
    --output.count;
    SendRequest& request = *piece.request;
    if (piece.kind == NetSegment::Kind::kTooLong) {
      return {StatusCode::kMismatch,
              fmt::format("a message of {} bytes with tag {} does not fit into the {} bytes that "
                          "the peer receives; both ends must agree on sizes",
                          request.data.size(),
                          request.tag,
                          request.posted.capacity)};
    }
    if (--request.pieces_left == 0) {
      complete(request);
    }
  }
  return {};
}

Status SendComm::read_credits() {
  NetConnection& connection = *all_connections().front();
  ReceiveCredit record;
  while (true) {
    HORING_ASSIGN(const size_t size, decode_credit(connection.ahead(), record));
    if (size == 0) {
      if (!connection.fetch(connection.ahead().size() + 1)) {
        return {};
      }
      continue;
    }
    connection.drop(size);
    if (record.count == 0) {
      note_peer_leaves();
      continue;
    }
    if (ordered()) {
      return {
          StatusCode::kProtocol,
          "the peer announced a receive though it has promised an order; both ends must run one "
          "release"};
    }
    HORING_TRY(book_.add(record));
    note_news();
  }
}

size_t SendComm::encode_leaving(LeavingBytes& bytes) const {
  NetSegment segment;
  segment.kind = NetSegment::Kind::kLeaving;
  bytes = encode(segment);
  return bytes.size();
}

bool SendComm::is_leaving(std::span<const std::byte> waiting) const {
  ReceiveCredit record;
  const size_t size = std::min(waiting.size(), kCreditHeadBytes);
  const Result<size_t> decoded = decode_credit(waiting.last(size), record);
  return decoded.ok() && *decoded == kCreditHeadBytes && record.count == 0;
}

std::string SendComm::oldest() const {
  const SendRequest* found = nullptr;
  for (const SendRequest& request : requests_) {
    const bool older = found == nullptr || request.posted.sequence < found->posted.sequence;
    if (request.state == Request::State::kActive && older) {
      found = &request;
    }
  }
  return found == nullptr ? std::string()
                          : fmt::format("tag {}, {} bytes", found->tag, found->data.size());
}

}  // namespace ho::plugin
