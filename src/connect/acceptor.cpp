#include "connect/acceptor.hpp"

#include <poll.h>

#include <algorithm>
#include <map>

#include "connect/handshake_io.hpp"
#include "os/clock.hpp"

namespace ho {
namespace {

// In which descriptors may come free by themselves.
constexpr int64_t kShortageNs = 3'000'000'000;
constexpr int64_t kRetryNs = 20'000'000;
// Who may not enter whatever it proves: time to say who it is, and to hear why.
constexpr std::chrono::milliseconds kBarredTime{5000};
// Of those at once: they displace only each other.
constexpr ptrdiff_t kMaxBarred = 64;
// A rank says who it is as soon as it is connected, and its handshake takes milliseconds, also
// where hundreds come at once: one that is older is the least likely to be a rank's.
constexpr int64_t kSilentTimeNs = 250'000'000;
constexpr int64_t kOwnTimeNs = 1'000'000'000;
// A host with more than this part of all handshakes that have said nothing so far is a scanner's,
// or worse: whoever comes takes the place of one of those, however young.
constexpr size_t kLargeShare = 8;

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::open(std::vector<Fd> listeners, Options options) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Acceptor> made(new Acceptor(std::move(options)));
  for (Fd& fd : listeners) {
    Socket& listener = *made->listeners_.emplace_back(std::make_unique<Socket>(std::move(fd)));
    listener.readable = true;
    if (made->options_.watch) {
      HORING_TRY(made->options_.watch(listener));
    }
  }
  return made;
}

bool Acceptor::idle() const {
  return pending_.empty() &&
         std::ranges::none_of(listeners_, [](const auto& listener) { return listener->readable; });
}

void Acceptor::step(int64_t now_ns) {
  if (!options_.watch_sets_flags) {
    prepare_to_try_all(now_ns);
  }
  Status shortage;
  bool came = false;
  blocked_ = false;
  for (const auto& listener : listeners_) {
    if (Status failed = accept_all(*listener, now_ns, came); !failed.ok()) {
      shortage = std::move(failed);
    }
  }
  note_shortage(shortage, came, now_ns);
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    pending = advance(*pending, now_ns) ? pending_.erase(pending) : std::next(pending);
  }
}

void Acceptor::prepare_to_try_all(int64_t now_ns) {
  // A caller that looks less often than every few milliseconds is not polling: what waits for it is
  // not to blame.
  const int64_t pause = options_.watch ? 0 : pauses_.paused_ns(now_ns, 0);
  for (const auto& listener : listeners_) {
    listener->readable = true;
  }
  for (Pending& pending : pending_) {
    pending.socket->readable = true;
    pending.socket->writable = true;
    pending.came_ns += pause;
    pending.deadline_ns += pause;
  }
}

// Sets `came` where a connection was taken. An error: one waits in the backlog that cannot be
// taken.
Status Acceptor::accept_all(Socket& listener, int64_t now_ns, bool& came) {
  constexpr int kAtOnce = 64;
  for (int i = 0; listener.readable && i < kAtOnce; ++i) {
    if (is_full() && to_displace(now_ns) == pending_.end()) {
      blocked_ = true;
      return {};
    }
    Result<std::optional<Accepted>> accepted = accept_from(listener.fd.get());
    if (!accepted.ok()) {
      // accept4 takes a descriptor first: without one it fails also where no connection waits.
      pollfd waiting{listener.fd.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 0) == 0) {
        listener.readable = false;
        return {};
      }
      return accepted.status();
    }
    listener.readable = accepted->has_value();
    if (accepted->has_value()) {
      came = true;
      admit(*std::move(*accepted), now_ns);
    }
  }
  return {};
}

// Once nobody waits any more, or one of them could be let in, the next shortage has its own time.
void Acceptor::note_shortage(const Status& why, bool came, int64_t now_ns) {
  if (why.ok() || came) {
    shortage_ = Status();
  }
  if (why.ok()) {
    return;
  }
  retry_at_ns_ = now_ns + kRetryNs;
  if (!shortage_.ok()) {
    return;
  }
  short_since_ns_ = now_ns;
  shortage_ = Status(
      why.code(),
      "a rank has come and cannot be let in: " + why.message() + "; " + options_.on_shortage);
  if (const auto left_out = shortage_logged_.take(now_ns)) {
    log_warn("{}: {}{}", options_.name, shortage_.message(), LogQuota::note(*left_out));
  }
}

// Handshakes that are under way end within seconds and may give their descriptors back; without
// any, only this process can help itself.
Status Acceptor::stuck(int64_t now_ns) const {
  const int64_t grace = pending_.empty() ? kShortageNs : 2 * kShortageNs;
  const bool lasts = !shortage_.ok() && now_ns - short_since_ns_ >= grace;
  return lasts ? shortage_.with_context(options_.name) : Status();
}

Acceptor::PendingList::iterator Acceptor::to_displace(int64_t now_ns) {
  struct Silent {
    size_t count = 0;
    PendingList::iterator oldest{};
  };
  std::map<SocketAddress::HostBytes, Silent> hosts;
  Silent most;
  auto oldest = pending_.end();
  for (auto each = pending_.begin(); each != pending_.end(); ++each) {
    oldest = oldest == pending_.end() && now_ns >= own_until_ns(*each) ? each : oldest;
    if (is_silent(*each)) {
      Silent& of_host = hosts[each->peer.host_bytes()];
      of_host.oldest = of_host.count == 0 ? each : of_host.oldest;
      ++of_host.count;
      most = of_host.count > most.count ? of_host : most;
    }
  }
  return most.count > options_.max_handshakes / kLargeShare ? most.oldest : oldest;
}

bool Acceptor::is_silent(const Pending& pending) {
  return pending.handshake->unproven_claim().empty();
}

int64_t Acceptor::own_until_ns(const Pending& pending) {
  return pending.came_ns + (is_silent(pending) ? kSilentTimeNs : kOwnTimeNs);
}

void Acceptor::free_descriptor(const Status& barred, int64_t now_ns) {
  const auto is_barred = [](const Pending& each) { return !each.barred.ok(); };
  if (!barred.ok() && std::ranges::count_if(pending_, is_barred) >= kMaxBarred) {
    const auto oldest = std::ranges::find_if(pending_, is_barred);
    note_refused(*oldest, oldest->barred);
    pending_.erase(oldest);
  }
  if (!is_full()) {
    return;
  }
  if (const auto oldest = to_displace(now_ns); oldest != pending_.end()) {
    note_refused(
        *oldest,
        {StatusCode::kTimeout,
         fmt::format("{} connections are in their handshake at once, and one that is old, or "
                     "whose host has many that say nothing, makes room",
                     options_.max_handshakes)});
    pending_.erase(oldest);
  }
}

void Acceptor::admit(Accepted accepted, int64_t now_ns) {
  Status barred = options_.key->allows_address(accepted.peer.host());
  free_descriptor(barred, now_ns);
  Pending pending;
  pending.socket = std::make_unique<Socket>(std::move(accepted.fd));
  pending.peer = accepted.peer;
  pending.handshake = Handshake::server(options_.key, options_.purpose);
  pending.barred = std::move(barred);
  pending.came_ns = now_ns;
  pending.deadline_ns =
      now_ns + ns_of(pending.barred.ok() ? options_.handshake_time
                                         : std::min(options_.handshake_time, kBarredTime));
  // What came with the connection was there before the first edge.
  pending.socket->readable = true;
  pending.socket->writable = true;
  if (!options_.watch || options_.watch(*pending.socket).ok()) {
    pending_.push_back(std::move(pending));
  }
}

bool Acceptor::advance(Pending& pending, int64_t now_ns) {
  Result<HandshakeState> state = advance_handshake(*pending.socket, *pending.handshake);
  const Arrival arrival{pending.socket->fd.get(), pending.peer, pending.handshake->claim()};
  if (state.ok() && *state == HandshakeState::kDecide) {
    const Status decision = pending.barred.ok() ? options_.judge(arrival) : pending.barred;
    if (decision.ok()) {
      pending.handshake->accept();
      state = advance_handshake(*pending.socket, *pending.handshake);
    } else {
      pending.handshake->refuse(decision.message());
      state = decision;
    }
  }
  if (!state.ok()) {
    note_refused(pending, state.status());
    flush_refusal(*pending.socket, *pending.handshake);
    return true;
  }
  if (*state == HandshakeState::kDone) {
    options_.deliver(arrival, std::move(pending.socket));
    return true;
  }
  Status over;
  if (*state == HandshakeState::kLost) {
    over = {StatusCode::kConnection,
            "it closed before its handshake was over (another job's key, or no rank at all)"};
  } else if (now_ns >= pending.deadline_ns) {
    over = {StatusCode::kTimeout,
            fmt::format("it did not finish its handshake within {} ms",
                        options_.handshake_time.count())};
  } else {
    return false;
  }
  note_refused(pending, pending.barred.ok() ? over : pending.barred);
  return true;
}

void Acceptor::note_refused(const Pending& pending, const Status& why) {
  const Arrival arrival{
      pending.socket->fd.get(), pending.peer, pending.handshake->unproven_claim()};
  if (options_.refused && options_.refused(arrival, why)) {
    return;
  }
  const std::string from = options_.claim_text ? options_.claim_text(arrival) : pending.peer.host();
  refusals_.note(from, why.message());
  // Whoever looks whether a port is open goes away at once, and is no news.
  if (why.code() == StatusCode::kConnection) {
    log_debug("{}: a connection from {}: {}", options_.name, from, why.message());
  } else if (const auto left_out = refused_logged_.take(now_ns())) {
    log_at(options_.refusals_at,
           "{}: refused a connection from {}: {}{}",
           options_.name,
           from,
           why.message(),
           LogQuota::note(*left_out));
  }
}

int64_t Acceptor::next_deadline_ns() const {
  int64_t next = kNeverNs;
  int64_t displaces = kNeverNs;
  for (const Pending& pending : pending_) {
    next = std::min(next, pending.deadline_ns);
    displaces = std::min(displaces, own_until_ns(pending));
  }
  for (const auto& listener : listeners_) {
    // More wait than were taken at once, than there are descriptors for, or than may come in.
    if (listener->readable) {
      const int64_t in_turn = blocked_ && is_full() ? displaces : 0;
      next = std::min(next, shortage_.ok() ? in_turn : retry_at_ns_);
    }
  }
  return next;
}

void Acceptor::close() {
  pending_.clear();
  listeners_.clear();
  shortage_ = Status();
}

}  // namespace ho
