#include "core/links/link_rendezvous.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "core/builtin/records.hpp"
#include "os/clock.hpp"
#include "transport/tcp/endpoint_blob.hpp"

namespace ho::plugin {
namespace {

constexpr uint64_t kMagic = 0x0a0d4b4e4c524f48;  // "HORLNK\r\n"
// The accepting end opens the link.
constexpr uint32_t kAccepting = 0;
constexpr uint32_t kConnecting = 1;
// What an end that has gone had sent is taken until then.
constexpr int64_t kGraceNs = 1'000'000'000;

}  // namespace

std::vector<std::byte> encode(const LinkHandshake& handshake) {
  ByteWriter writer;
  writer.number(kMagic, sizeof(kMagic));
  writer.number(handshake.connections, 1);
  writer.append(handshake.secret);
  writer.append(ho::encode(handshake.endpoint));
  return writer.take();
}

Result<LinkHandshake> decode_link_handshake(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  LinkHandshake handshake;
  const bool ours = reader.number<uint64_t>() == kMagic;
  handshake.connections = reader.number<uint8_t>();
  const auto secret = reader.bytes(handshake.secret.size());
  const bool counts = handshake.connections >= 1 && handshake.connections <= kMaxConnections;
  if (!ours || !reader.ok() || !counts) {
    return Status(StatusCode::kProtocol,
                  "the other end's handshake is cut off or damaged; all ranks must load the same "
                  "release of the plugin");
  }
  std::ranges::copy(secret, handshake.secret.begin());
  HORING_ASSIGN(handshake.endpoint, parse_endpoint(reader.rest(), 1, kMaxLinkRails));
  return handshake;
}

LinkHandshaking::LinkHandshaking(const LinkEnd& end, SideConnection line)
    : end_(end), line_(std::move(line)), deadline_ns_(now_ns() + ns_of(end.timeout)) {}

Status LinkHandshaking::listen(const LinkEnd& end, const LinkHandshake& handshake, uint32_t rank) {
  TcpOptions options;
  options.self = GlobalRank(rank);
  options.world_size = 2;
  options.job_id = load_le<uint64_t>(handshake.secret, 0);
  HORING_ASSIGN(options.key, connection_key(handshake.secret, *end.job));
  options.rails = end.rails;
  options.connections_per_link = handshake.connections;
  options.connect_timeout = end.timeout;
  options.failover = end.failover;
  options.peer_name = "peer " + line_.peer();
  HORING_ASSIGN(transport_, TcpTransport::listen(options));
  return {};
}

Status LinkHandshaking::open_link(uint32_t peer) {
  HORING_ASSIGN(link_, transport_->link({.peer = GlobalRank(peer), .rail = RailIndex(0)}));
  return {};
}

Result<bool> LinkHandshaking::ready(const Result<bool>& advanced) const {
  const bool late = advanced.ok() && !*advanced && now_ns() > deadline_ns_;
  const Status status =
      late ? Status(StatusCode::kTimeout,
                    fmt::format("peer {}: the connection that data is to take is not there within "
                                "{} ms (HORING_CONNECT_TIMEOUT_MS): {}; with failover the "
                                "rank that accepts opens it, so firewalls must let it through",
                                line_.peer(),
                                end_.timeout.count(),
                                link_ == nullptr ? "nothing was received" : link_->to_string()))
           : advanced.status();
  HORING_TRY(status.with_context("device " + end_.device));
  return *advanced;
}

LinkConnection LinkHandshaking::take() {
  return {end_.device, line_.peer(), std::move(transport_), link_};
}

Result<std::unique_ptr<LinkCall>> LinkCall::start(const LinkEnd& end, SideConnection line) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<LinkCall> call(new LinkCall(end, std::move(line)));
  LinkHandshake handshake;
  handshake.connections = static_cast<uint8_t>(end.connections);
  HORING_ASSIGN(handshake.secret, make_handle_secret());
  HORING_TRY(call->listen(end, handshake, kConnecting));
  handshake.endpoint = call->transport_->endpoint();
  // Until the other end's own word: how it is called.
  call->transport_->set_peers(
      {{std::vector<std::string>(end.rails.size(), call->line_.peer()), 0}, handshake.endpoint});
  HORING_TRY(call->open_link(kAccepting));
  call->sent_ = encode(handshake);
  return call;
}

Result<bool> LinkCall::hear_endpoint() {
  HORING_TRY(transport_->progress());
  if (!endpoint_) {
    HORING_ASSIGN(endpoint_, link_->try_peek(true));
    if (!endpoint_) {
      return false;
    }
    HORING_ASSIGN(const LinkMessage kind, kind_of(*endpoint_));
    if (kind != LinkMessage::kEndpoint || endpoint_->payload_bytes > kMaxLinkHandshakeBytes) {
      return Status(StatusCode::kProtocol, "the other end did not begin with its endpoint");
    }
    received_.resize(endpoint_->payload_bytes);
  }
  const Bytes part(received_);
  return link_->try_recv(*endpoint_, std::span(&part, 1));
}

Result<bool> LinkCall::advance() {
  if (!is_sent_) {
    HORING_ASSIGN(is_sent_, line_.send(sent_));
    return false;
  }
  HORING_ASSIGN(const bool received, hear_endpoint());
  if (!received) {
    if (left_ns_ == 0 && !line_.is_open()) {
      left_ns_ = now_ns();
    }
    return left_ns_ != 0 && now_ns() - left_ns_ > kGraceNs
               ? Result<bool>(Status(StatusCode::kPeerLost,
                                     "peer " + line_.peer() + " is gone; see its log"))
               : Result<bool>(false);
  }
  HORING_ASSIGN(TcpEndpoint theirs, parse_endpoint(received_, 1, kMaxLinkRails));
  transport_->set_peers({std::move(theirs), transport_->endpoint()});
  return true;
}

Result<std::unique_ptr<LinkSendComm>> LinkCall::step() {
  HORING_ASSIGN(const bool is_ready, ready(advance()));
  return is_ready ? std::make_unique<LinkSendComm>(take()) : nullptr;
}

Result<std::unique_ptr<LinkAnswer>> LinkAnswer::start(const LinkEnd& end, SideConnection line) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<LinkAnswer> answer(new LinkAnswer(end, std::move(line)));
  answer->received_.resize(kMaxLinkHandshakeBytes);
  return answer;
}

Result<bool> LinkAnswer::advance() {
  if (link_ == nullptr) {
    HORING_ASSIGN(const size_t bytes, line_.receive(received_));
    if (bytes == 0) {
      return false;
    }
    HORING_ASSIGN(LinkHandshake handshake,
                  decode_link_handshake(std::span(received_).first(bytes)));
    HORING_TRY(listen(end_, handshake, kAccepting));
    endpoint_ = ho::encode(transport_->endpoint());
    transport_->set_peers({transport_->endpoint(), std::move(handshake.endpoint)});
    HORING_TRY(open_link(kConnecting));
  }
  HORING_TRY(transport_->progress());
  const ConstBytes part(endpoint_);
  return link_->try_send(frame_of(LinkMessage::kEndpoint, part.size()), std::span(&part, 1));
}

Result<std::unique_ptr<LinkRecvComm>> LinkAnswer::step() {
  HORING_ASSIGN(const bool is_ready, ready(advance()));
  return is_ready ? std::make_unique<LinkRecvComm>(take()) : nullptr;
}

}  // namespace ho::plugin
