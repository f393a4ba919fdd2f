#include "core/links/link_comm.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "os/clock.hpp"
#include "transport/tcp/connection.hpp"

namespace ho::plugin {
namespace {

// For what is on its way when an end closes. With a device that has just been lost it takes as long
// as finding that, and going on over another one.
constexpr std::chrono::seconds kShutdown{3};
constexpr std::chrono::microseconds kShutdownPause{100};

// Where receives follow each other sooner, the peer need not be acknowledged any sooner.
constexpr int64_t kLongIdleNs = 1'000'000;

}  // namespace

LinkComm::LinkComm(LinkConnection connection) : connection_(std::move(connection)) {}

LinkComm::~LinkComm() {
  const bool mismatch = failure_code() == StatusCode::kMismatch;
  if (active() > 0 || (failed() && !mismatch)) {
    return;
  }
  const Deadline deadline = deadline_after(kShutdown);
  if (!failed()) {
    say_leaving(deadline);
  }
  if (!peer_leaves_) {
    connection_.transport->linger(deadline);
  }
}

// Until it has arrived, or the peer says so too. Who has heard that closes at once, and may reset a
// connection whose last bytes it has not read: nothing more is to be brought to it.
void LinkComm::say_leaving(Deadline deadline) {
  const Frame leaving = frame_of(LinkMessage::kLeaving, 0);
  bool said = false;
  while (!passed(deadline) && connection_.transport->progress().ok()) {
    const Result<bool> sent = said ? Result<bool>(true) : link().try_send(leaving, {});
    said = sent.ok() && *sent;
    const bool sound =
        sent.ok() && (head_ || peek(true).ok());  // head_: something else comes first
    if (!sound || peer_leaves_) {
      return;
    }
    if (said && connection_.transport->all_arrived()) {
      return;
    }
    std::this_thread::sleep_for(kShutdownPause);
  }
}

Reply LinkComm::test(LinkRequest& request, int32_t* done, int32_t* sizes) {
  const std::lock_guard lock(mutex_);
  return CarriedComm::test(request, done, sizes);
}

void LinkComm::promise_order() {
  const std::lock_guard lock(mutex_);
  ordered_ = true;
}

int LinkComm::progress_fd() {
  const std::lock_guard lock(mutex_);
  if (!watched_) {
    watched_ = true;
    more_ = true;  // whatever happened before is found by the first look
  }
  return connection_.transport->wait_fd();
}

bool LinkComm::has_pending() {
  const std::lock_guard lock(mutex_);
  return more_;
}

void LinkComm::look() {
  const std::lock_guard lock(mutex_);
  more_ = false;
  progress();
}

uint64_t LinkComm::failovers() {
  const std::lock_guard lock(mutex_);
  return connection_.transport->failovers();
}

void LinkComm::progress_unless_watched() {
  if (!watched_) {
    progress();
  }
}

void LinkComm::progress_or_leave() {
  more_ = more_ || watched_;
  progress_unless_watched();
}

void LinkComm::progress() {
  // Also after a failure: what is on its way may be the notice of it.
  Status status = connection_.transport->progress();
  counts().set_rail_use(connection_.transport->all_rail_use());
  if (failed()) {
    return;
  }
  if (status.ok()) {
    status = advance();
  }
  if (!status.ok()) {
    fail(status);
  }
}

Status LinkComm::wrong(StatusCode code, const std::string& what) const {
  return Status(code, what).with_context("peer " + connection_.peer);
}

// Also where the two ends contradict each other: nothing more comes of the peer then either.
void LinkComm::on_failure() {
  if (!peer_leaves_) {
    lost_.store(true, std::memory_order_release);
  }
}

Result<std::optional<Frame>> LinkComm::peek(bool awaited) {
  HORING_ASSIGN(const std::optional<Frame> found, link().try_peek(awaited));
  if (!found) {
    return found;
  }
  HORING_ASSIGN(const LinkMessage kind, kind_of(*found));
  if (kind != LinkMessage::kLeaving) {
    return found;
  }
  HORING_TRY(link().try_recv(*found, {}).status());  // all of it is here
  peer_leaves_ = true;
  return std::optional<Frame>();
}

bool LinkComm::serve() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || failed() || peer_leaves_) {
    return false;  // who has it makes progress; a peer that leaves is not looked for elsewhere
  }
  // Nobody else would find that the peer of an idle comm has gone. What came before that is taken
  // first, into the buffers that were announced.
  served_ = true;
  progress();
  served_ = false;
  if (watched_) {
    connection_.transport->wake();  // edges were taken in here
  }
  return connection_.transport->service() == Transport::Service::kSoon;
}

// false: nothing is here.
Result<bool> LinkComm::begin_head() {
  HORING_ASSIGN(const std::optional<Frame> found, peek(awaits() || served_));
  if (!found) {
    return false;
  }
  HORING_ASSIGN(const LinkMessage kind, kind_of(*found));
  if (is_early(*found)) {
    return false;
  }
  HORING_ASSIGN(const Bytes to, destination_of(kind, *found));
  head_ = {*found, kind, to};
  return true;
}

Status LinkComm::receive() {
  size_t budget = kTurnBytes;
  while (true) {
    if (!head_) {
      HORING_ASSIGN(const bool here, begin_head());
      if (!here) {
        return {};
      }
    }
    if (budget == 0) {
      note_more();
      return {};
    }
    HORING_ASSIGN(const bool whole, link().try_recv(head_->frame, std::span(&head_->to, 1)));
    if (!whole) {
      return {};
    }
    const Head head = *std::exchange(head_, std::nullopt);
    budget -= std::min(budget, head.to.size());
    HORING_TRY(take(head.kind, head.frame));
  }
}

Reply LinkSendComm::isend(std::span<const std::byte> data, int32_t tag, LinkRequest** request) {
  *request = nullptr;
  if (data.size() > kMaxMessageBytes) {
    return Reply::kInvalidArgument;
  }
  const std::lock_guard lock(mutex());
  LinkRequest* const free = find_free(requests_);
  auto posted = free != nullptr ? take_slot(tag) : std::nullopt;
  if (!posted) {
    progress_unless_watched();  // a caller that looks comes again after each look
    posted = free != nullptr ? take_slot(tag) : std::nullopt;
  }
  if (!posted && peer_leaves()) {
    fail(wrong(StatusCode::kPeerLost, "it has closed its end, and receives nothing any more"));
  }
  if (failed()) {
    return failure();
  }
  if (!posted) {
    return Reply::kSuccess;
  }
  LinkPiece piece;
  piece.sequence = static_cast<uint32_t>(posted->sequence);
  piece.slot = static_cast<uint8_t>(posted->slot);
  piece.bytes = data.size();
  piece.tag = tag;
  if (data.size() > posted->capacity) {
    // The receiver fails as well. A message that is partly written would have to go before.
    if (queued_ == 0) {
      static_cast<void>(link().try_send(frame_of(LinkMessage::kTooLong, piece), {}));
    }
    fail(wrong(StatusCode::kMismatch,
               fmt::format("a message of {} bytes with tag {} does not fit into the {} bytes that "
                           "the peer receives; both ends must agree on sizes",
                           data.size(),
                           tag,
                           posted->capacity)));
    return failure();
  }
  begin(*free, 1, data.size());
  free->sizes[0] = data.size();
  free->sequence = posted->sequence;
  free->slot = piece.slot;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): a send only reads its buffer
  auto* const bytes = const_cast<std::byte*>(data.data());
  free->messages[0] = {.buffer = {.data = bytes, .bytes = data.size(), .tag = tag},
                       .halvings = halvings_of(data.size(), link().rails())};
  queue_.at((queue_begin_ + queued_++) % kMaxRequests) = free;
  progress_or_leave();
  *request = free;
  return Reply::kSuccess;
}

std::optional<PostedReceives::Slot> LinkSendComm::take_slot(int32_t tag) {
  if (ordered()) {
    // The receiver's next one; only it knows how much room there is.
    return PostedReceives::Slot{next_sequence_++, 0, kMaxMessageBytes};
  }
  return posted_.take(tag);
}

Status LinkSendComm::advance() {
  HORING_TRY(receive());
  HORING_TRY(write());
  return link().went_wrong();
}

Status LinkSendComm::write() {
  size_t budget = kTurnBytes;
  while (queued_ > 0) {
    LinkRequest& request = *queue_.at(queue_begin_);
    LinkRequest::Message& message = request.messages[0];
    LinkPiece piece;
    piece.sequence = static_cast<uint32_t>(request.sequence);
    piece.slot = request.slot;
    piece.halvings = message.halvings;
    piece.bytes = message.buffer.bytes;
    piece.tag = message.buffer.tag;
    piece.number = static_cast<uint32_t>(message.pieces);
    const Frame frame = frame_of(LinkMessage::kPiece, piece);
    const ConstBytes part(message.buffer.data + piece.offset(), piece.size());
    if (budget < part.size()) {
      note_more();
      return {};
    }
    HORING_ASSIGN(const bool accepted, link().try_send(frame, std::span(&part, 1)));
    if (!accepted) {
      return {};
    }
    budget -= part.size();
    ++accepted_;
    if (++message.pieces == piece_count(piece.bytes, piece.halvings)) {
      message.sent_as = accepted_;
      queue_begin_ = (queue_begin_ + 1) % kMaxRequests;
      --queued_;
    }
  }
  return {};
}

Result<Bytes> LinkSendComm::destination_of(LinkMessage kind, const Frame& frame) {
  if (kind != LinkMessage::kCredit) {
    return wrong(StatusCode::kProtocol, "the peer, which receives, sent data");
  }
  if (ordered()) {
    return wrong(StatusCode::kProtocol,
                 "the peer announced a receive though it has promised an order; both ends must run "
                 "one release");
  }
  return std::span(credit_).first(frame.payload_bytes);
}

Status LinkSendComm::take(LinkMessage /*kind*/, const Frame& frame) {
  ReceiveCredit record;
  HORING_ASSIGN(const size_t size,
                decode_credit(std::span(credit_).first(frame.payload_bytes), record));
  if (size != frame.payload_bytes) {
    return wrong(StatusCode::kProtocol,
                 "the peer announced its receives in a message of another size");
  }
  return posted_.add(record);
}

Result<bool> LinkSendComm::is_done(LinkRequest& request, uint32_t message) {
  const uint64_t sent_as = request.messages.at(message).sent_as;
  return sent_as != 0 && link().released() >= sent_as;
}

Reply LinkRecvComm::irecv(std::span<const RecvComm::Buffer> buffers, LinkRequest** request) {
  *request = nullptr;
  if (!RecvComm::can_be_one(buffers)) {
    return Reply::kInvalidArgument;
  }
  const std::lock_guard lock(mutex());
  if (failed()) {
    return failure();
  }
  LinkRequest* const free = find_free(requests_);
  if (free == nullptr) {
    return Reply::kSuccess;
  }
  begin(*free, static_cast<uint32_t>(buffers.size()), RecvComm::capacity_of(buffers));
  free->sequence = next_sequence_++;
  for (size_t i = 0; i < buffers.size(); ++i) {
    free->messages.at(i) = {.buffer = buffers[i]};
  }
  if (missing_ == 0) {
    was_idle_ns_ = now_ns() - idle_since_ns_;
    were_longest_bytes_ = std::exchange(longest_bytes_, 0);
  }
  missing_ += buffers.size();
  progress_or_leave();
  *request = free;
  return Reply::kSuccess;
}

Status LinkRecvComm::advance() {
  HORING_TRY(receive());
  HORING_TRY(announce());
  if (waits_long()) {
    await_nothing();
  }
  return {};
}

// For the next receive, whose message may come before. Short ones are read at once.
bool LinkRecvComm::waits_long() const {
  const uint64_t longest = std::max(longest_bytes_, were_longest_bytes_);
  return ordered() && missing_ == 0 && longest + kFrameBytes > tcp::kAheadBytes &&
         std::max(was_idle_ns_, now_ns() - idle_since_ns_) >= kLongIdleNs;
}

LinkRequest* LinkRecvComm::find(uint32_t sequence) {
  const auto found = std::ranges::find_if(requests_, [sequence](const LinkRequest& request) {
    return request.state == LinkRequest::State::kActive &&
           static_cast<uint32_t>(request.sequence) == sequence;
  });
  return found == requests_.end() ? nullptr : &*found;
}

bool LinkRecvComm::is_early(const Frame& frame) const {
  return ordered() && piece_of(frame).sequence == static_cast<uint32_t>(next_sequence_);
}

Status LinkRecvComm::announce() {
  if (ordered()) {
    return {};
  }
  while (announced_ + 1 < next_sequence_) {
    if (credit_bytes_ == 0) {
      const LinkRequest& request = *find(static_cast<uint32_t>(announced_ + 1));
      ReceiveCredit record;
      record.sequence = request.sequence;
      record.count = request.count;
      for (uint32_t i = 0; i < request.count; ++i) {
        record.tags.at(i) = request.messages.at(i).buffer.tag;
        record.capacities.at(i) = request.messages.at(i).buffer.bytes;
      }
      credit_bytes_ = encode(record, credit_);
    }
    const ConstBytes part = std::span(credit_).first(credit_bytes_);
    HORING_ASSIGN(
        const bool accepted,
        link().try_send(frame_of(LinkMessage::kCredit, credit_bytes_), std::span(&part, 1)));
    if (!accepted) {
      return {};
    }
    ++announced_;
    credit_bytes_ = 0;
  }
  return {};
}

Result<Bytes> LinkRecvComm::destination_of(LinkMessage kind, const Frame& frame) {
  if (kind != LinkMessage::kPiece && kind != LinkMessage::kTooLong) {
    return wrong(StatusCode::kProtocol, "the peer, which sends, announced a receive");
  }
  const LinkPiece piece = piece_of(frame);
  LinkRequest* const request = find(piece.sequence);
  const bool awaited = request != nullptr && (ordered() || request->sequence <= announced_) &&
                       piece.slot < request->count &&
                       tags_agree(request->messages.at(piece.slot).buffer.tag, frame);
  if (!awaited) {
    return wrong(StatusCode::kProtocol,
                 fmt::format("the peer sent a piece for buffer {} of receive {}, which is not "
                             "waited for; both ends must make the same calls in the same order",
                             piece.slot,
                             piece.sequence));
  }
  LinkRequest::Message& message = request->messages.at(piece.slot);
  if (kind == LinkMessage::kTooLong || piece.bytes > message.buffer.bytes) {
    return wrong(StatusCode::kMismatch,
                 fmt::format("the peer sends {} bytes with tag {}, and there is room for {}; both "
                             "ends must agree on sizes",
                             piece.bytes,
                             message.buffer.tag,
                             message.buffer.bytes));
  }
  const bool agrees = piece.number == message.pieces &&
                      (!message.started || (piece.bytes == request->sizes.at(piece.slot) &&
                                            piece.halvings == message.halvings));
  if (!agrees) {
    return wrong(StatusCode::kProtocol,
                 fmt::format("the peer's pieces of the message with tag {} contradict one another",
                             message.buffer.tag));
  }
  message.started = true;
  message.halvings = piece.halvings;
  request->sizes.at(piece.slot) = piece.bytes;
  return Bytes(message.buffer.data + piece.offset(), piece.size());
}

Status LinkRecvComm::take(LinkMessage /*kind*/, const Frame& frame) {
  const LinkPiece piece = piece_of(frame);
  LinkRequest& request = *find(piece.sequence);
  longest_bytes_ = std::max(longest_bytes_, piece.bytes);
  ++request.messages.at(piece.slot).pieces;
  HORING_ASSIGN(const bool whole, is_done(request, piece.slot));
  missing_ -= whole ? 1 : 0;
  if (missing_ == 0) {
    idle_since_ns_ = now_ns();
  }
  return {};
}

Result<bool> LinkRecvComm::is_done(LinkRequest& request, uint32_t message) {
  const LinkRequest::Message& each = request.messages.at(message);
  return each.started && each.pieces == piece_count(request.sizes.at(message), each.halvings);
}

}  // namespace ho::plugin
