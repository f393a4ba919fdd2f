#include "core/ucx/ucx_comm.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::plugin {
namespace {

constexpr int64_t kCheckNs = 50'000'000;
// What a peer that has gone had sent is taken until then.
constexpr int64_t kGraceNs = 1'000'000'000;
constexpr unsigned kNumberBits = 40;
constexpr int kMaxProgressCalls = 1024;
// The notice of a mismatch, on its way to the peer.
constexpr std::chrono::milliseconds kNoticeLimit{1000};

// Numbers repeat only after far more messages than are ever under way at once.
uint64_t number_of(uint64_t sequence, uint64_t slot) {
  static_assert(kMaxReceives <= 8);
  return sequence * 8 + slot;
}

}  // namespace

ucp_tag_t ucx_tag(uint32_t secret, uint64_t number) {
  constexpr uint64_t kNumbers = (uint64_t{1} << kNumberBits) - 1;
  return (uint64_t{secret} << kNumberBits) | (number & kNumbers);
}

ho::ucx::Request UcxComm::send(uint64_t number, std::span<const std::byte> data) {
  return connections_.worker->send_tagged(
      *connections_.peer, ucx_tag(connections_.secret, number), data);
}

ho::ucx::Request UcxComm::deliver(uint64_t number, std::span<const std::byte> data) {
  return connections_.worker->deliver_tagged(
      *connections_.peer, ucx_tag(connections_.secret, number), data);
}

ho::ucx::Request UcxComm::receive(uint64_t number, std::span<std::byte> into) {
  return connections_.worker->receive_tagged(ucx_tag(connections_.secret, number), into);
}

Status UcxComm::lost(ucs_status_t status) const {
  return {StatusCode::kPeerLost,
          fmt::format("the peer is lost ({}): its process has ended or given up, or the network "
                      "between is down; see its log",
                      ho::ucx::call().status_string(status))};
}

Status UcxComm::check_peer() {
  if (connections_.peer->failure() != UCS_OK) {
    return lost(connections_.peer->failure());
  }
  const int64_t now = now_ns();
  if (now < next_check_ns_) {
    return {};
  }
  next_check_ns_ = now + kCheckNs;
  if (peer_left_ns_ == 0 && !connections_.line.is_open()) {
    peer_left_ns_ = now;
  }
  return peer_left_ns_ != 0 && now - peer_left_ns_ > kGraceNs ? lost(UCS_ERR_CONNECTION_RESET)
                                                              : Status();
}

void UcxComm::progress() {
  for (int calls = 0; calls < kMaxProgressCalls && connections_.worker->progress(); ++calls) {
  }
  if (failed()) {
    return;  // a notice of it may still be on its way
  }
  Status status = advance();
  if (status.ok()) {
    status = check_peer();
  }
  if (!status.ok()) {
    fail(status);
  }
}

void UcxComm::release(UcxRequest& request) {
  for (uint32_t i = 0; i < request.count; ++i) {
    request.messages.at(i).reset();
  }
}

std::string UcxComm::origin_text() const {
  return fmt::format("device {} (UCX), peer {}", connections_.device, connections_.line.peer());
}

void UcxComm::close(std::chrono::milliseconds flush_limit) {
  const bool mismatch = failure_code() == StatusCode::kMismatch;
  // A caller that leaves requests behind gives up.
  const bool gives_up = active() > 0 || (failed() && !mismatch);
  connections_.peer->set_flush_limit(mismatch   ? kNoticeLimit
                                     : gives_up ? std::chrono::milliseconds(0)
                                                : flush_limit);
  connections_.peer.reset();
  // Operations on closed endpoints end in a later turn of the worker.
  for (int calls = 0; calls < kMaxProgressCalls; ++calls) {
    connections_.worker->progress();
  }
}

UcxSendComm::UcxSendComm(UcxConnections connections) : UcxComm(std::move(connections)) {
  for (Announced& announced : credits_) {
    expect_credit(announced);
  }
}

void UcxSendComm::expect_credit(Announced& announced) {
  announced.request = receive(kCreditTag, announced.bytes);
}

Status UcxSendComm::advance() {
  while (true) {
    Announced& announced = credits_.at(next_credit_);
    size_t bytes = 0;
    const ucs_status_t status = announced.request.received(bytes);
    if (status == UCS_INPROGRESS) {
      return {};
    }
    if (status != UCS_OK) {
      return lost(status);
    }
    ReceiveCredit record;
    HORING_ASSIGN(const size_t size,
                  decode_credit(std::span(announced.bytes).first(bytes), record));
    if (size != bytes) {
      return {StatusCode::kProtocol,
              "the peer announced its receives in a message of another size"};
    }
    HORING_TRY(book_.add(record));
    expect_credit(announced);
    next_credit_ = (next_credit_ + 1) % credits_.size();
  }
}

Reply UcxSendComm::isend(std::span<const std::byte> data, int32_t tag, UcxRequest** request) {
  *request = nullptr;
  if (data.size() > kMaxMessageBytes) {
    return Reply::kInvalidArgument;
  }
  UcxRequest* const free = find_free(requests_);
  auto posted = free != nullptr ? book_.take(tag) : std::nullopt;
  if (!posted) {
    progress();
    posted = free != nullptr ? book_.take(tag) : std::nullopt;
  }
  if (failed()) {
    return failure();
  }
  if (!posted) {
    return Reply::kSuccess;
  }
  const uint64_t number = number_of(posted->sequence, posted->slot);
  if (data.size() > posted->capacity) {
    // A byte too many lets the receiver fail as well.
    too_long_ = deliver(number, data.first(posted->capacity + 1));
    fail({StatusCode::kMismatch,
          fmt::format("a message of {} bytes with tag {} does not fit into the {} bytes that the "
                      "peer receives; both ends must agree on sizes",
                      data.size(),
                      tag,
                      posted->capacity)});
    return failure();
  }
  begin(*free, 1, data.size());
  free->sizes[0] = data.size();
  free->messages[0] = deliver(number, data);
  *request = free;
  return Reply::kSuccess;
}

Result<bool> UcxSendComm::is_done(UcxRequest& request, uint32_t message) {
  const ucs_status_t status = request.messages.at(message).status();
  if (status == UCS_OK || status == UCS_INPROGRESS) {
    return status == UCS_OK;
  }
  return lost(status);
}

Reply UcxRecvComm::irecv(std::span<const RecvComm::Buffer> buffers, UcxRequest** request) {
  *request = nullptr;
  if (!RecvComm::can_be_one(buffers)) {
    return Reply::kInvalidArgument;
  }
  Receives* const free = find_free(requests_);
  if (free == nullptr || free->announced.status() == UCS_INPROGRESS) {
    progress();
  }
  if (failed()) {
    return failure();
  }
  if (free == nullptr || free->announced.status() == UCS_INPROGRESS) {
    return Reply::kSuccess;
  }
  begin(*free, static_cast<uint32_t>(buffers.size()), RecvComm::capacity_of(buffers));
  ReceiveCredit record;
  record.sequence = next_sequence_++;
  record.count = free->count;
  for (uint32_t i = 0; i < free->count; ++i) {
    record.tags.at(i) = buffers[i].tag;
    record.capacities.at(i) = buffers[i].bytes;
    free->capacities.at(i) = buffers[i].bytes;
    free->messages.at(i) =
        receive(number_of(record.sequence, i), {buffers[i].data, buffers[i].bytes});
  }
  const size_t size = encode(record, free->announcement);
  free->announced = send(kCreditTag, std::span(free->announcement).first(size));
  *request = free;
  return Reply::kSuccess;
}

Result<bool> UcxRecvComm::is_done(UcxRequest& request, uint32_t message) {
  size_t bytes = 0;
  const ucs_status_t status = request.messages.at(message).received(bytes);
  if (status == UCS_ERR_MESSAGE_TRUNCATED) {
    return Status(StatusCode::kMismatch,
                  fmt::format("the peer sends more than the {} bytes that there is room for; both "
                              "ends must agree on sizes",
                              static_cast<Receives&>(request).capacities.at(message)));
  }
  if (status == UCS_INPROGRESS) {
    return false;
  }
  if (status != UCS_OK) {
    return lost(status);
  }
  request.sizes.at(message) = bytes;
  return true;
}

}  // namespace ho::plugin
