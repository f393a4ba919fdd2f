#include "core/ucx/meeting.hpp"

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

Result<UcxWires> wires_of(const UcxEnd& end, MeetingLine line) {
  UcxWires wires;
  wires.device = end.device;
  wires.line = std::move(line);
  HORING_ASSIGN(wires.worker, ho::ucx::Worker::create(end.context));
  return wires;
}

Status reach(UcxWires& wires, std::vector<std::byte> address) {
  wires.peer = std::make_unique<ho::ucx::Peer>(*wires.worker, std::move(address), true);
  return wires.peer->connect();
}

Status timed_out() {
  return {StatusCode::kTimeout,
          "the other end said nothing over UCX in time; check UCX_TLS and UCX_NET_DEVICES on both "
          "hosts, and that their networks reach each other"};
}

}  // namespace

Result<std::unique_ptr<UcxCall>> UcxCall::start(const UcxEnd& end, MeetingLine line) {
  HORING_ASSIGN(UcxWires wires, wires_of(end, std::move(line)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<UcxCall> call(new UcxCall(std::move(wires)));
  call->deadline_ns_ = deadline_of(end);
  UcxHello& hello = call->hello_;
  HORING_TRY(fill_random(hello.nonce));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&hello.secret, 1))));
  hello.secret &= kMostSecret;
  hello.who = who_am_i(end.device);
  HORING_ASSIGN(hello.address, call->wires_.worker->address());
  call->wires_.secret = hello.secret;
  call->said_ = encode(hello);
  call->answer_.resize(kMostHelloBytes);
  call->answered_ =
      call->wires_.worker->receive_tagged(ucx_tag(hello.secret, kHelloTag), call->answer_);
  return call;
}

Result<bool> UcxCall::advance() {
  if (!is_said_) {
    HORING_ASSIGN(is_said_, wires_.line.send(said_));
  }
  wires_.worker->progress();
  size_t bytes = 0;
  const ucs_status_t status = answered_.received(bytes);
  if (status == UCS_INPROGRESS) {
    if (is_said_ && !wires_.line.is_open()) {
      return Status(StatusCode::kPeerLost, "the other end has gone; look at its log");
    }
    return false;
  }
  if (status != UCS_OK) {
    return ho::ucx::ucx_error("the other end's greeting", status);
  }
  HORING_ASSIGN(UcxHello theirs, decode_hello(std::span(answer_).first(bytes)));
  if (theirs.nonce != hello_.nonce) {
    return Status(StatusCode::kUnauthenticated, "somebody else answered over UCX");
  }
  answered_.reset();
  wires_.line.set_peer(theirs.who);
  HORING_TRY(reach(wires_, std::move(theirs.address)));
  return true;
}

Result<std::unique_ptr<UcxSendComm>> UcxCall::step() {
  const Result<bool> ready = advance();
  HORING_TRY(ready.status().with_context("device " + wires_.device + " (UCX)"));
  if (*ready) {
    return std::make_unique<UcxSendComm>(std::move(wires_));
  }
  if (now_ns() > deadline_ns_) {
    return timed_out().with_context("device " + wires_.device + " (UCX)");
  }
  return std::unique_ptr<UcxSendComm>();
}

Result<std::unique_ptr<UcxAnswer>> UcxAnswer::start(const UcxEnd& end, MeetingLine line) {
  HORING_ASSIGN(UcxWires wires, wires_of(end, std::move(line)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<UcxAnswer> answer(new UcxAnswer(std::move(wires)));
  answer->deadline_ns_ = deadline_of(end);
  answer->heard_.resize(kMostHelloBytes);
  return answer;
}

Status UcxAnswer::answer(const UcxHello& hello) {
  wires_.secret = hello.secret;
  wires_.line.set_peer(hello.who);
  HORING_TRY(reach(wires_, hello.address));
  UcxHello mine;
  mine.nonce = hello.nonce;
  mine.secret = hello.secret;
  mine.who = who_am_i(wires_.device);
  HORING_ASSIGN(mine.address, wires_.worker->address());
  said_ = encode(mine);
  answered_ = wires_.worker->send_tagged(*wires_.peer, ucx_tag(hello.secret, kHelloTag), said_);
  return {};
}

Result<bool> UcxAnswer::advance() {
  if (wires_.peer == nullptr) {
    HORING_ASSIGN(const size_t bytes, wires_.line.receive(heard_));
    if (bytes == 0) {
      return false;
    }
    HORING_ASSIGN(const UcxHello hello, decode_hello(std::span(heard_).first(bytes)));
    HORING_TRY(answer(hello));
  }
  wires_.worker->progress();
  const ucs_status_t status =
      wires_.peer->failure() != UCS_OK ? wires_.peer->failure() : answered_.status();
  if (status != UCS_OK && status != UCS_INPROGRESS) {
    return ho::ucx::ucx_error("greeting " + wires_.line.peer(), status);
  }
  return status == UCS_OK;
}

Result<std::unique_ptr<UcxRecvComm>> UcxAnswer::step() {
  const Result<bool> ready = advance();
  HORING_TRY(ready.status().with_context("device " + wires_.device + " (UCX)"));
  if (*ready) {
    answered_.reset();
    return std::make_unique<UcxRecvComm>(std::move(wires_));
  }
  if (now_ns() > deadline_ns_) {
    return timed_out().with_context("device " + wires_.device + " (UCX)");
  }
  return std::unique_ptr<UcxRecvComm>();
}

}  // namespace ho::plugin
