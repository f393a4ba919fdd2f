#include "core/ucx/ucx_rendezvous.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "os/clock.hpp"
#include "os/random_bytes.hpp"

namespace ho::plugin {
namespace {

std::string who_am_i(const std::string& device) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{} {} (pid {})", host.data(), device, ::getpid());
}

int64_t deadline_of(const UcxEnd& end) {
  return now_ns() + std::chrono::nanoseconds(end.timeout).count();
}

Result<UcxConnections> connections_of(const UcxEnd& end, SideConnection line) {
  UcxConnections connections;
  connections.device = end.device;
  connections.line = std::move(line);
  HORING_ASSIGN(connections.worker, ho::ucx::Worker::create(end.context));
  return connections;
}

Status reach(UcxConnections& connections, std::vector<std::byte> address) {
  connections.peer = std::make_unique<ho::ucx::Peer>(*connections.worker, std::move(address), true);
  return connections.peer->connect();
}

Status timed_out() {
  return {StatusCode::kTimeout,
          "the other end sent nothing over UCX in time; check UCX_TLS and UCX_NET_DEVICES on both "
          "hosts, and that their networks reach each other"};
}

}  // namespace

Result<bool> UcxHandshaking::ready(const Result<bool>& advanced) const {
  const bool late = advanced.ok() && !*advanced && now_ns() > deadline_ns_;
  HORING_TRY((late ? timed_out() : advanced.status())
                 .with_context("device " + connections_.device + " (UCX)"));
  return *advanced;
}

Result<std::unique_ptr<UcxCall>> UcxCall::start(const UcxEnd& end, SideConnection line) {
  HORING_ASSIGN(UcxConnections connections, connections_of(end, std::move(line)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<UcxCall> call(new UcxCall(std::move(connections)));
  call->deadline_ns_ = deadline_of(end);
  UcxHandshake& handshake = call->handshake_;
  HORING_TRY(fill_random(handshake.nonce));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&handshake.secret, 1))));
  handshake.secret &= kMaxSecret;
  handshake.who = who_am_i(end.device);
  HORING_ASSIGN(handshake.address, call->connections_.worker->address());
  call->connections_.secret = handshake.secret;
  call->said_ = encode(handshake);
  call->answer_.resize(kMaxHandshakeBytes);
  call->answered_ = call->connections_.worker->receive_tagged(
      ucx_tag(handshake.secret, kHandshakeTag), call->answer_);
  return call;
}

Result<bool> UcxCall::advance() {
  if (!is_said_) {
    HORING_ASSIGN(is_said_, connections_.line.send(said_));
  }
  connections_.worker->progress();
  size_t bytes = 0;
  const ucs_status_t status = answered_.received(bytes);
  if (status == UCS_INPROGRESS) {
    if (is_said_ && !connections_.line.is_open()) {
      return Status(StatusCode::kPeerLost, "the other end is gone; see its log");
    }
    return false;
  }
  if (status != UCS_OK) {
    return ho::ucx::ucx_error("the other end's handshake", status);
  }
  HORING_ASSIGN(UcxHandshake theirs, decode_handshake(std::span(answer_).first(bytes)));
  if (theirs.nonce != handshake_.nonce) {
    return Status(StatusCode::kUnauthenticated,
                  "another process answered over UCX: its nonce is not that of this connection");
  }
  answered_.reset();
  connections_.line.set_peer(theirs.who);
  HORING_TRY(reach(connections_, std::move(theirs.address)));
  return true;
}

Result<std::unique_ptr<UcxSendComm>> UcxCall::step() {
  HORING_ASSIGN(const bool is_ready, ready(advance()));
  return is_ready ? std::make_unique<UcxSendComm>(std::move(connections_)) : nullptr;
}

Result<std::unique_ptr<UcxAnswer>> UcxAnswer::start(const UcxEnd& end, SideConnection line) {
  HORING_ASSIGN(UcxConnections connections, connections_of(end, std::move(line)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<UcxAnswer> answer(new UcxAnswer(std::move(connections)));
  answer->deadline_ns_ = deadline_of(end);
  answer->heard_.resize(kMaxHandshakeBytes);
  return answer;
}

Status UcxAnswer::answer(const UcxHandshake& handshake) {
  connections_.secret = handshake.secret;
  connections_.line.set_peer(handshake.who);
  HORING_TRY(reach(connections_, handshake.address));
  UcxHandshake mine;
  mine.nonce = handshake.nonce;
  mine.secret = handshake.secret;
  mine.who = who_am_i(connections_.device);
  HORING_ASSIGN(mine.address, connections_.worker->address());
  said_ = encode(mine);
  answered_ = connections_.worker->send_tagged(
      *connections_.peer, ucx_tag(handshake.secret, kHandshakeTag), said_);
  return {};
}

Result<bool> UcxAnswer::advance() {
  if (connections_.peer == nullptr) {
    HORING_ASSIGN(const size_t bytes, connections_.line.receive(heard_));
    if (bytes == 0) {
      return false;
    }
    HORING_ASSIGN(const UcxHandshake handshake, decode_handshake(std::span(heard_).first(bytes)));
    HORING_TRY(answer(handshake));
  }
  connections_.worker->progress();
  const ucs_status_t status =
      connections_.peer->failure() != UCS_OK ? connections_.peer->failure() : answered_.status();
  if (status != UCS_OK && status != UCS_INPROGRESS) {
    return ho::ucx::ucx_error("handshake " + connections_.line.peer(), status);
  }
  return status == UCS_OK;
}

Result<std::unique_ptr<UcxRecvComm>> UcxAnswer::step() {
  HORING_ASSIGN(const bool is_ready, ready(advance()));
  if (!is_ready) {
    return std::unique_ptr<UcxRecvComm>();
  }
  answered_.reset();
  return std::make_unique<UcxRecvComm>(std::move(connections_));
}

}  // namespace ho::plugin
