#include "bootstrap/control/redial.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "connect/answers.hpp"

namespace ho {
namespace {

// A coordinator that has taken a connection and does not answer may be stopped, or the path is lost
// again.
constexpr int64_t kMillisecond = 1'000'000;
constexpr int64_t kHandshakeNs = 5'000 * kMillisecond;
constexpr int64_t kFirstPauseNs = 50 * kMillisecond;

// From the other end, and not from this host or the way there.
bool is_an_answer(const Status& why) {
  return why.code() == StatusCode::kProtocol || why.code() == StatusCode::kUnauthenticated ||
         why.code() == StatusCode::kMismatch;
}

}  // namespace

Redial::Redial(Setup setup,
               const wire::Addresses& coordinator_at,
               const std::vector<SocketAddress>& own,
               int fd)
    : setup_(std::move(setup)), paths_(setup_.options, setup_.coordinator, coordinator_at, own) {
  if (const auto seen = peer_address(fd); seen.ok()) {
    seen_ = *seen;
  }
  answered_ns_ = now_ns();
  pauses_.restart(answered_ns_);
}

void Redial::note_pause(int64_t now_ns) {
  if (pauses_.paused_ns(now_ns, ns_of(PeerPaths::look_every(setup_.options))) > 0) {
    runs_since_ns_ = now_ns;
  }
  answered_ns_ = std::max(answered_ns_, runs_since_ns_);
}

Status Redial::look(int fd, int64_t now_ns) {
  const auto details = tcp::look_at_connection(fd);
  if (!details) {
    return {};
  }
  answered_ns_ = now_ns - int64_t{details->tcpi_last_ack_recv} * kMillisecond;
  note_pause(now_ns);
  return watch_.check(*details, setup_.options.silence);
}

void Redial::begin(const std::string& why, uint64_t received, int64_t now_ns) {
  setup_.who.received = received;
  connector_.reset();
  watch_ = {};
  if (!begun()) {
    why_ = why;
    begun_ns_ = now_ns;
    failed_ = 0;
    dial_due_ns_ = 0;
    note_pause(begun_ns_);
  } else {
    dial_failed({}, now_ns);  // the coordinator has not said what it has
  }
  paths_.begin(seen_, why.empty() ? now_ns : answered_ns_, now_ns);
}

void Redial::dial(const SocketAddress& to, int64_t now_ns) {
  ++setup_.who.attempt;
  ++tries_;
  dialled_ = to;
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
    return Status(
        StatusCode::kPeerLost,
        fmt::format("{}{}its host {}", why_, why_.empty() ? "" : "; ", paths_.how_silent(now_ns)));
  }
  if (connector_ == nullptr) {
    const auto to = now_ns < dial_due_ns_ ? std::nullopt : paths_.answering(tries_);
    if (!to) {
      return std::unique_ptr<Socket>();
    }
    dial(*to, now_ns);
  }
  auto socket = connector_->step(now_ns);
  if (socket.ok() && *socket == nullptr && now_ns < give_up_ns_) {
    return socket;
  }
  connector_.reset();
  if (socket.ok() && *socket != nullptr) {
    return socket;
  }
  dial_failed(socket.status(), now_ns);
  return std::unique_ptr<Socket>();
}

// Another service may have that port there, and another host that address: only rank 0 says what
// ends this rank, over a connection that it has taken.
void Redial::dial_failed(const Status& why, int64_t now_ns) {
  dial_due_ns_ = now_ns + jitter_.pause_ns(kFirstPauseNs, failed_++);
  if (is_an_answer(why) && paths_.note_other(dialled_)) {
    log_warn("{}: {} is not at {}, tried for a lost control connection: {}",
             setup_.self,
             setup_.coordinator,
             dialled_.to_string(),
             why.message());
  }
}

void Redial::went_on(int fd) {
  const auto own = local_address(fd);
  const auto peer = peer_address(fd);
  log_warn("{}: its control connection to {} {}; went on over {} -> {} after {} ms",
           setup_.self,
           setup_.coordinator,
           why_.empty() ? "closed" : "broke (" + why_ + ")",
           own.ok() ? own->host() : "?",
           peer.ok() ? peer->host() : "?",
           (now_ns() - begun_ns_) / kMillisecond);
  paths_.end();
  seen_ = peer.ok() ? *peer : seen_;
  answered_ns_ = now_ns();
  pauses_.restart(answered_ns_);
}

}  // namespace ho
