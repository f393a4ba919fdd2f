#include "bootstrap/control/redial.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "base/log.hpp"
#include "connect/answers.hpp"

namespace ho {
namespace {

// A coordinator that has taken a connection and does not answer may be stopped, or the path is lost
// again.
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kHandshakeNs = 5'000 * kMillisecond;

}  // namespace

Redial::Redial(Setup setup, const wire::Addresses& coordinator_at, int fd)
    : setup_(std::move(setup)), paths_(setup_.options, setup_.coordinator, coordinator_at) {
  if (const auto seen = peer_address(fd); seen.ok()) {
    seen_ = *seen;
  }
  answered_ns_ = now_ns();
}

Status Redial::look(int fd) {
  const auto details = tcp::look_at_connection(fd);
  if (!details) {
    return {};
  }
  answered_ns_ = now_ns() - int64_t{details->tcpi_last_ack_recv} * kMillisecond;
  return watch_.check(*details, setup_.options.silence);
}

void Redial::begin(const std::string& why, uint64_t received) {
  setup_.who.received = received;
  connector_.reset();
  watch_ = {};
  if (!begun()) {
    why_ = why;
    begun_ns_ = now_ns();
  }
  paths_.begin(seen_, why.empty() ? now_ns() : answered_ns_);
}

void Redial::dial(const SocketAddress& to, int64_t now_ns) {
  ++setup_.who.attempt;
  ++tries_;
  give_up_ns_ = now_ns + kHandshakeNs;
  Connector::Options options;
  options.name = setup_.coordinator;
  options.to = to;
  options.purpose = kPurpose;
  options.key = setup_.key;
  options.claim = [this] { return wire::encode(setup_.who); };
  options.once = true;
  connector_ = std::make_unique<Connector>(std::move(options));
}

Result<std::unique_ptr<Socket>> Redial::step(int64_t now_ns) {
  const PeerPaths::Found found = paths_.step(now_ns);
  if (found == PeerPaths::Found::kNobodyListens) {
    return Status(StatusCode::kPeerLost, why_);
  }
  if (found == PeerPaths::Found::kTooLate) {
    return Status(StatusCode::kPeerLost,
                  fmt::format("{}{}its host has answered on no path for {} ms",
                              why_,
                              why_.empty() ? "" : "; ",
                              paths_.silent_for(now_ns).count()));
  }
  if (connector_ == nullptr) {
    const auto to = paths_.answering(tries_);
    if (!to) {
      return std::unique_ptr<Socket>();
    }
    dial(*to, now_ns);
  }
  auto socket = connector_->step(now_ns);
  const bool goes_on = socket.ok() && *socket == nullptr && now_ns < give_up_ns_;
  if (!goes_on) {
    connector_.reset();
  }
  if (!socket.ok() && socket.status().code() == StatusCode::kConnection) {
    return std::unique_ptr<Socket>();
  }
  return socket;
}

void Redial::went_on(int fd) {
  const auto own = local_address(fd);
  const auto peer = peer_address(fd);
  log_warn("rank {}: its control connection to {} {}; went on over {} -> {} after {} ms",
           setup_.who.rank,
           setup_.coordinator,
           why_.empty() ? "closed" : "broke (" + why_ + ")",
           own.ok() ? own->host() : "?",
           peer.ok() ? peer->host() : "?",
           (now_ns() - begun_ns_) / kMillisecond);
  paths_.end();
  seen_ = peer.ok() ? *peer : seen_;
  answered_ns_ = now_ns();
}

}  // namespace ho
