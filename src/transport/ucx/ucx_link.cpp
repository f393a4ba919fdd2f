#include "transport/ucx/ucx_link.hpp"

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "transport/parts.hpp"

namespace ho::ucx {
namespace {

// A view of nothing is not "nothing yet".
const std::byte kEmpty{};

template <typename Part>
std::vector<ucp_dt_iov_t> to_iov(std::span<const Part> parts) {
  std::vector<ucp_dt_iov_t> list;
  for (const Part& part : parts) {
    if (!part.empty()) {
      // UCX only reads what is sent.
      list.push_back({const_cast<std::byte*>(part.data()), part.size()});  // NOLINT
    }
  }
  return list;
}

// One part is sent and fetched as plain memory, which is UCX's fast path.
struct Buffer {
  void* address = nullptr;
  size_t count = 0;
  ucp_datatype_t type = ucp_dt_make_contig(1);
};

Buffer buffer_of(std::vector<ucp_dt_iov_t>& parts) {
  if (parts.empty()) {
    return {};
  }
  if (parts.size() == 1) {
    return {parts[0].buffer, parts[0].length, ucp_dt_make_contig(1)};
  }
  return {parts.data(), parts.size(), ucp_dt_make_iov()};
}

}  // namespace

UcxLink::UcxLink(Worker& worker, const LinkIdentity& identity)
    : worker_(worker), identity_(identity) {}

UcxLink::~UcxLink() {
  fetch_.reset();
  for (auto& [index, arrival] : arrivals_) {
    drop(arrival);
  }
}

std::string UcxLink::to_string() const {
  const char* state = !error_.ok() ? "failed" : peer_ == nullptr ? "not requested yet" : "open";
  return "ucx rank " + std::to_string(identity_.self.value()) + " -> rank " +
         std::to_string(identity_.key.peer.value()) + ", " + state;
}

Status UcxLink::fail(const Status& cause) {
  if (error_.ok()) {
    error_ = cause.with_context("rank " + std::to_string(identity_.key.peer.value()) + ", rail " +
                                std::to_string(identity_.key.rail.value()) + ", ucx");
  }
  return error_;
}

Status UcxLink::check_usable() {
  if (error_.ok() && peer_ != nullptr && peer_->failure() != UCS_OK) {
    return fail({StatusCode::kPeerLost,
                 std::string("the peer is gone or cannot be reached: ") +
                     call().status_string(peer_->failure())});
  }
  return error_;
}

Result<bool> UcxLink::try_send(const Frame& frame, std::span<const ConstBytes> payload) {
  HORING_TRY(check_usable());
  HORING_TRY(check_parts(frame, payload));
  if (sent_ - acknowledged_ >= kMaxUnderWay) {
    return false;
  }
  outgoing_.emplace_back();
  outgoing_.back().parts = to_iov(payload);
  Envelope envelope;
  envelope.frame = encode(frame);
  envelope.index = sent_;
  HORING_TRY(post(outgoing_.back(), envelope, frame.payload_bytes));
  ++sent_;
  return true;
}

Status UcxLink::post(Outgoing& outgoing, Envelope envelope, size_t payload_bytes) {
  envelope.token = identity_.send_token;
  envelope.from = identity_.self;
  envelope.rail = identity_.key.rail;
  envelope.communicator = identity_.key.communicator;
  envelope.channel = identity_.key.channel;
  envelope.consumed = received_;
  announced_ = received_;
  outgoing.header = encode(envelope);
  const Buffer buffer = buffer_of(outgoing.parts);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  param.flags = payload_bytes > kEagerBytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.datatype = buffer.type;
  void* handle = call().am_send_nbx(peer_->endpoint(),
                                    kMessageId,
                                    outgoing.header.data(),
                                    outgoing.header.size(),
                                    buffer.address,
                                    buffer.count,
                                    &param);
  if (UCS_PTR_IS_ERR(handle)) {
    return fail(ucx_error("ucp_am_send_nbx", UCS_PTR_STATUS(handle)));
  }
  outgoing.request = Request(worker_.handle(), handle);
  return {};
}

uint64_t UcxLink::released() {
  while (!outgoing_.empty()) {
    const ucs_status_t status = outgoing_.front().request.status();
    if (status == UCS_INPROGRESS) {
      break;
    }
    if (status != UCS_OK) {
      static_cast<void>(fail(ucx_error("send", status)));  // the next try call returns it
      break;
    }
    released_ += outgoing_.front().is_message ? 1U : 0U;
    outgoing_.pop_front();
  }
  return released_;
}

ucs_status_t UcxLink::violation(const std::string& text) {
  static_cast<void>(fail({StatusCode::kProtocol, text}));  // the next try call returns it
  return UCS_OK;
}

Status UcxLink::take_acknowledged(uint32_t consumed) {
  // Both run forward modulo 2^32; messages that overtook each other may bring an older count.
  if (consumed - acknowledged_ <= sent_ - acknowledged_) {
    acknowledged_ = consumed;
  } else if (acknowledged_ - consumed > kMaxUnderWay) {
    return {StatusCode::kProtocol, "the peer reports as consumed messages that were never sent"};
  }
  return {};
}

ucs_status_t UcxLink::deliver(const Envelope& envelope,
                              ConstBytes data,
                              const ucp_am_recv_param_t& param) {
  if (const Status status = take_acknowledged(envelope.consumed); !status.ok()) {
    return violation(status.message());
  }
  if (envelope.kind == Envelope::Kind::kCredit) {
    return UCS_OK;
  }
  if (envelope.index - received_ >= kMaxUnderWay || arrivals_.count(envelope.index) != 0) {
    return violation("message " + std::to_string(envelope.index) +
                     " is outside of what may be under way at " + std::to_string(received_) +
                     " or arrived twice");
  }
  Arrival& arrival = arrivals_[envelope.index];
  arrival.frame = envelope.frame;
  arrival.data = data;
  arrival.rendezvous = (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool may_keep = (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  if (arrival.rendezvous || may_keep) {
    arrival.descriptor = const_cast<std::byte*>(data.data());  // NOLINT: UCX's own, given back
    return UCS_INPROGRESS;
  }
  if (data.size() > kEagerBytes) {
    arrivals_.erase(envelope.index);
    return violation("a message of " + std::to_string(data.size()) +
                     " bytes arrived that were not requested");
  }
  arrival.copy.assign(data.begin(), data.end());
  arrival.data = arrival.copy;
  return UCS_OK;
}

// Whether the next message is here; an error when it is not what was expected.
Result<bool> UcxLink::head_matches(const Frame& expected) {
  const auto head = arrivals_.find(received_);
  if (head == arrivals_.end()) {
    HORING_TRY(check_usable());
    return false;
  }
  if (!error_.ok()) {
    return error_;
  }
  if (!head_checked_) {
    const Result<Frame> frame = decode(head->second.frame);
    if (!frame.ok()) {
      return fail(frame.status());
    }
    if (const Status status = check_expected(expected, *frame); !status.ok()) {
      return fail(status);
    }
    if (head->second.data.size() != expected.payload_bytes) {
      return fail({StatusCode::kProtocol,
                   "the payload has " + std::to_string(head->second.data.size()) +
                       " bytes, its header has " + std::to_string(expected.payload_bytes)});
    }
    head_checked_ = true;
  }
  return true;
}

Result<std::optional<Frame>> UcxLink::try_peek(bool /*awaited*/) {
  const auto head = arrivals_.find(received_);
  if (head == arrivals_.end()) {
    HORING_TRY(check_usable());
    return std::optional<Frame>();
  }
  HORING_TRY(error_);
  const Result<Frame> frame = decode(head->second.frame);
  if (!frame.ok()) {
    return fail(frame.status());
  }
  return std::optional<Frame>(*frame);
}

Result<bool> UcxLink::try_recv(const Frame& expected, std::span<const Bytes> parts) {
  HORING_TRY(check_parts(expected, parts));
  HORING_ASSIGN(const bool here, head_matches(expected));
  if (!here) {
    return false;
  }
  HORING_ASSIGN(const bool fetched, fetch(parts));
  if (fetched) {
    HORING_TRY(finish_head());
  }
  return fetched;
}

void UcxLink::start_fetch(std::span<const Bytes> parts) {
  Arrival& head = arrivals_.at(received_);
  fetch_parts_ = to_iov(parts);
  const Buffer buffer = buffer_of(fetch_parts_);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
  param.datatype = buffer.type;
  fetch_ = Request(worker_.handle(),
                   call().am_recv_data_nbx(
                       worker_.handle(), head.descriptor, buffer.address, buffer.count, &param));
  head.descriptor = nullptr;  // the fetch has it
  fetching_ = true;
}

Result<bool> UcxLink::fetch(std::span<const Bytes> parts) {
  const Arrival& head = arrivals_.at(received_);
  if (!head.rendezvous) {
    size_t offset = 0;
    for (const Bytes& part : parts) {
      if (!part.empty()) {
        std::memcpy(part.data(), head.data.data() + offset, part.size());
        offset += part.size();
      }
    }
    return true;
  }
  if (!fetching_) {
    start_fetch(parts);
  }
  const ucs_status_t status = fetch_.status();
  if (status == UCS_INPROGRESS) {
    HORING_TRY(check_usable());
    return false;
  }
  if (status != UCS_OK) {
    return fail(ucx_error("fetching a message", status));
  }
  fetching_ = false;
  fetch_.reset();
  return true;
}

Result<ConstBytes> UcxLink::try_view(const Frame& expected) {
  if (view_.data() != nullptr) {
    return view_;
  }
  HORING_ASSIGN(const bool here, head_matches(expected));
  if (!here) {
    return ConstBytes();
  }
  const Arrival& head = arrivals_.at(received_);
  if (!head.rendezvous) {
    view_ = head.data.empty() ? ConstBytes(&kEmpty, size_t{0}) : head.data;
    return view_;
  }
  if (staging_.size() < expected.payload_bytes) {
    staging_.resize(expected.payload_bytes);
  }
  const Bytes part = Bytes(staging_).first(expected.payload_bytes);
  HORING_ASSIGN(const bool fetched, fetch(std::span(&part, 1)));
  view_ = fetched ? ConstBytes(part) : ConstBytes();
  return view_;
}

void UcxLink::release_view() {
  if (view_.data() != nullptr) {
    view_ = ConstBytes();
    static_cast<void>(finish_head());  // an error is kept for the next try call
  }
}

Status UcxLink::finish_head() {
  const auto head = arrivals_.find(received_);
  drop(head->second);
  arrivals_.erase(head);
  head_checked_ = false;
  ++received_;
  return return_credit();
}

Status UcxLink::return_credit() {
  if (received_ - announced_ < kMaxUnderWay / 2 || peer_->failure() != UCS_OK) {
    return {};
  }
  outgoing_.emplace_back();
  outgoing_.back().is_message = false;
  Envelope envelope;
  envelope.kind = Envelope::Kind::kCredit;
  HORING_TRY(post(outgoing_.back(), envelope, 0));
  static_cast<void>(released());  // lets go of what is complete
  return {};
}

void UcxLink::drop(Arrival& arrival) {
  if (arrival.descriptor != nullptr) {
    call().am_data_release(worker_.handle(), std::exchange(arrival.descriptor, nullptr));
  }
}

uint64_t UcxLink::memory_bytes() const {
  uint64_t total = sizeof(UcxLink) + staging_.capacity() + outgoing_.size() * sizeof(Outgoing);
  for (const auto& [index, arrival] : arrivals_) {
    total += sizeof(Arrival) + (arrival.rendezvous ? 0 : arrival.data.size());
  }
  return total;
}

}  // namespace ho::ucx
