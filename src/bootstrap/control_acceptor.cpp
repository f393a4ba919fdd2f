#include "bootstrap/control_acceptor.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.hpp"
#include "bootstrap/rank_names.hpp"

namespace ho {

ControlAcceptor::ControlAcceptor(int epoll,
                                 std::vector<Fd> listeners,
                                 std::shared_ptr<const JobKey> key)
    : epoll_(epoll),
      listeners_(std::move(listeners)),
      key_(std::move(key)),
      spare_(listeners_.empty() ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      next_token_(kFirstToken + listeners_.size()) {}

Status ControlAcceptor::open() {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kFirstToken + i;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, listeners_[i].get(), &event) != 0) {
      return system_error("epoll_ctl for a listener of the rendezvous", errno);
    }
  }
  return {};
}

void ControlAcceptor::remark(std::string text) {
  if (const auto left_out = said_.take(now_ns())) {
    log_info("rendezvous: {}{}", text, LogQuota::note(*left_out));
  }
  constexpr size_t kMaxRemarks = 3;
  if (std::find(remarks_.begin(), remarks_.end(), text) == remarks_.end()) {
    remarks_.push_back(std::move(text));
  }
  if (remarks_.size() > kMaxRemarks) {
    remarks_.erase(remarks_.begin());
  }
}

void ControlAcceptor::remark(const Pending& pending, std::string_view what) {
  // Without the port: the same host's next try is the same remark.
  remark("a connection from " + pending.peer.host() + " was refused: " + std::string(what));
}

void ControlAcceptor::handle(uint64_t token, Deadline now, const Decisions& decisions) {
  const uint64_t index = token - kFirstToken;
  if (index < listeners_.size()) {
    if (const auto accepted = accept_all(listeners_[index].get(), now); !accepted.ok()) {
      accept_failed(accepted.status(), now);
    }
    return;
  }
  const auto place = pending_.find(token);
  if (place == pending_.end()) {
    return;
  }
  const Progress progress = advance(place->second, decisions);
  if (progress == Progress::kWaits) {
    return;
  }
  Pending pending = std::move(place->second);
  pending_.erase(place);
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, pending.fd.get(), nullptr);
  if (progress == Progress::kEnters) {
    decisions.enter(std::move(pending.fd), pending.who);
  }
}

// Whether somebody came.
Result<bool> ControlAcceptor::accept_all(int listener, Deadline now) {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    HORING_ASSIGN(auto accepted, accept_from(listener));
    if (!accepted.has_value()) {
      return i > 0;
    }
    stuck_due_ = Deadline::max();
    add(std::move(*accepted), now);
  }
  return true;
}

void ControlAcceptor::begin_turning_away() {
  spare_.reset();
}

bool ControlAcceptor::accept_waiting(Deadline now) {
  bool came = false;
  for (const Fd& fd : listeners_) {
    const Result<bool> accepted = accept_all(fd.get(), now);
    // Out of descriptors: somebody waits.
    came = came || !accepted.ok() || *accepted;
  }
  return came || !pending_.empty();
}

// Out of descriptors or memory: the connection stays in the backlog, so asking again at once would
// spin. Handshakes that are under way end within seconds and may give their descriptors back;
// without any, only this process can help itself.
void ControlAcceptor::accept_failed(const Status& why, Deadline now) {
  const Status full(why.code(),
                    "a rank has come and cannot be let in: " + why.message() +
                        "; rank 0 needs a file descriptor per rank beside its own");
  if (stuck_due_ == Deadline::max()) {
    stuck_due_ = now + kStuckTime;
    if (const auto left_out = stuck_said_.take(now_ns())) {
      log_warn("rendezvous: {}{}", full.message(), LogQuota::note(*left_out));
    }
  } else if (stuck_due_ <= now && pending_.empty()) {
    stuck_ = full;
  }
  remark(full.message());
  for (const Fd& fd : listeners_) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd.get(), nullptr);
  }
  accept_again_ = now + std::chrono::milliseconds(100);
}

void ControlAcceptor::add(Accepted accepted, Deadline now) {
  if (pending_.size() >= kMaxPending) {
    // A rank's handshake takes milliseconds: the oldest is the least likely to be one.
    remark(pending_.begin()->second, "too many connections that prove nothing");
    pending_.erase(pending_.begin());
  }
  Pending pending;
  pending.fd = std::move(accepted.fd);
  pending.peer = accepted.peer;
  pending.handshake = Handshake::server(key_, "control");
  pending.deadline = now + kHandshakeTime;
  pending.address = key_->allows_address(accepted.peer.host());
  if (!set_no_delay(pending.fd.get()).ok()) {
    return;
  }
  const uint64_t token = next_token_++;
  epoll_event event{};
  // A handshake's few hundred bytes always fit a fresh socket's buffer: no need for EPOLLOUT.
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, pending.fd.get(), &event) == 0) {
    pending_.emplace(token, std::move(pending));
  }
}

bool ControlAcceptor::write(Pending& pending) {
  while (!pending.handshake->output().empty()) {
    const auto bytes = pending.handshake->output();
    const ssize_t sent =
        ::send(pending.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0) {
      return false;
    }
    pending.handshake->sent(static_cast<size_t>(sent));
  }
  return true;
}

// Who was refused for the key and said who he is can be named; others are remarks.
void ControlAcceptor::note_refused(const Pending& pending,
                                   const Status& why,
                                   const Decisions& decisions) {
  if (why.code() == StatusCode::kUnauthenticated) {
    const auto who = wire::decode_rank_claim(pending.handshake->unproven_claim());
    if (who.ok()) {
      decisions.key_refused(*who, pending.peer.host(), why);
      return;
    }
  }
  remark(pending, why.message());
}

void ControlAcceptor::decide(Pending& pending, const Decisions& decisions) {
  auto who = wire::decode_rank_claim(pending.handshake->claim());
  Status decision = pending.address;
  if (decision.ok()) {
    decision = who.ok() ? decisions.judge(*who) : who.status();
  }
  if (!decision.ok()) {
    pending.refused = true;
    pending.handshake->refuse(decision.message());
    note_refused(pending, decision, decisions);
    return;
  }
  pending.who = std::move(*who);
  pending.handshake->accept();
}

ControlAcceptor::Progress ControlAcceptor::read(Pending& pending, const Decisions& decisions) {
  std::array<std::byte, 1024> chunk{};
  const size_t wanted = std::min(pending.handshake->wanted(), chunk.size());
  const ssize_t got = ::recv(pending.fd.get(), chunk.data(), wanted, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Progress::kWaits;
  }
  if (got <= 0) {
    const Status closed(StatusCode::kConnection,
                        "it closed during the handshake (another job's key, or no rank at all)");
    note_refused(pending, pending.address.ok() ? closed : pending.address, decisions);
    return Progress::kEnds;
  }
  if (Status status = pending.handshake->consume(std::span(chunk).first(static_cast<size_t>(got)));
      !status.ok()) {
    note_refused(pending, status, decisions);
    (void)write(pending);  // the refusal; whether it arrives is the peer's concern
    return Progress::kEnds;
  }
  return Progress::kEnters;  // go on
}

ControlAcceptor::Progress ControlAcceptor::advance(Pending& pending, const Decisions& decisions) {
  while (true) {
    if (pending.handshake->needs_decision()) {
      decide(pending, decisions);
    }
    if (!write(pending) || pending.refused) {
      return Progress::kEnds;
    }
    if (pending.handshake->done()) {
      return Progress::kEnters;
    }
    const Progress progress = read(pending, decisions);
    if (progress != Progress::kEnters) {
      return progress;
    }
  }
}

void ControlAcceptor::expire(Deadline now) {
  for (auto place = pending_.begin(); place != pending_.end();) {
    if (place->second.deadline <= now) {
      remark(place->second, "it did not finish the handshake within 5 s");
      place = pending_.erase(place);  // closing takes it out of the epoll
    } else {
      ++place;
    }
  }
  if (accept_again_ <= now) {
    accept_again_ = Deadline::max();
    if (Status status = open(); !status.ok()) {
      remark(status.message());
    }
  }
}

Deadline ControlAcceptor::next_deadline() const {
  const Deadline oldest = pending_.empty() ? Deadline::max() : pending_.begin()->second.deadline;
  return std::min(oldest, accept_again_);
}

void ControlAcceptor::close() {
  pending_.clear();
  listeners_.clear();
}

}  // namespace ho
