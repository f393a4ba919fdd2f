#include "bootstrap/control/peer_paths.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"
#include "connect/rail_interface.hpp"

namespace ho {
namespace {

constexpr int64_t kMs = 1'000'000;
// A connection that is not taken by then is tried again: its first packet may be lost.
constexpr int64_t kTakenWithinNs = 1'500 * kMs;
constexpr int64_t kPauseNs = 300 * kMs;
// The kernel closes what a process that ends has open, one after the other. A process that lives
// closes it too, again and again.
constexpr int64_t kEndedPauseNs = 20 * kMs;
// By then a path that is lost has been found so, and others have been tried.
constexpr std::chrono::milliseconds kNoticeMargin{1000};

int64_t ms_of(int64_t ns) {
  return ns / kMs;
}

}  // namespace

Result<ControlFailover> ControlFailover::from_environment() {
  ControlFailover options;
  HORING_ASSIGN(options.on, env::flag(env::kFailover));
  HORING_ASSIGN(const uint64_t silence_ms, env::number(env::kFailoverDetectMs));
  HORING_ASSIGN(const uint64_t notice_ms, env::number(env::kFailoverNoticeMs));
  HORING_ASSIGN(const uint64_t wait_ms, env::number(env::kFailoverWaitMs));
  options.silence = std::chrono::milliseconds(silence_ms);
  options.notice = std::max(std::chrono::milliseconds(notice_ms), options.silence + kNoticeMargin);
  options.wait = std::chrono::milliseconds(wait_ms);
  return options;
}

Result<ListeningAt> ListeningAt::open() {
  ListeningAt here;
  HORING_ASSIGN(here.listener, listen_anywhere(0));
  HORING_ASSIGN(const SocketAddress own, local_address(here.listener.get()));
  HORING_ASSIGN(here.own, interface_addresses(own.port()));
  here.addresses.port = own.port();
  for (const SocketAddress& address : here.own) {
    here.addresses.hosts.push_back(address.host());
  }
  return here;
}

void ask_often(int fd) {
  constexpr int kForLong = 127;  // who looks decides when it is over
  if (const Status status = set_keep_alive(fd, {1, 1, kForLong}); !status.ok()) {
    log_warn("control plane: {}", status.message());
  }
}

PeerPaths::PeerPaths(const ControlFailover& options,
                     std::string name,
                     const wire::Addresses& addresses,
                     const std::vector<SocketAddress>& own)
    : options_(options), name_(std::move(name)), port_(addresses.port) {
  for (const std::string& host : addresses.hosts) {
    const auto address = SocketAddress::numeric(host, port_);
    // Networks of containers have the same addresses on many hosts.
    if (address.ok() && std::ranges::none_of(own, [&](const SocketAddress& each) {
          return each.same_host(*address);
        })) {
      paths_.push_back({.address = *address});
    }
  }
}

void PeerPaths::begin(const SocketAddress& seen, int64_t answered_ns, int64_t now_ns) {
  SocketAddress address = seen;
  address.set_port(port_);
  auto path = std::ranges::find_if(
      paths_, [&](const Path& each) { return each.address.same_host(address); });
  if (path == paths_.end() && seen.size_bytes() > 0) {  // or it was reset before it was looked at
    path = paths_.insert(path, {.address = address});
  }
  if (path != paths_.end()) {
    path->seen = true;
  }
  if (!begun()) {
    begun_ns_ = now_ns;
    answered_ns_ = answered_ns;
    noticed_ = false;
    pauses_.restart(begun_ns_);
  }
}

void PeerPaths::end() {
  begun_ns_ = 0;
  for (Path& path : paths_) {
    path = {.address = path.address, .seen = path.seen};
  }
}

std::chrono::milliseconds PeerPaths::silent_for(int64_t now_ns) const {
  return std::chrono::milliseconds(ms_of(now_ns - answered_ns_));
}

void PeerPaths::proves_host(const SocketAddress& address) {
  for (Path& path : paths_) {
    path.proven = path.proven || path.address.same_host(address);
  }
}

std::string PeerPaths::how_silent(int64_t now_ns) const {
  std::string silent;
  std::string refused;
  for (const Path& path : paths_) {
    std::string& list = path.refused ? refused : silent;
    if (!path.other) {
      list += (list.empty() ? "" : ", ") + path.address.host();
    }
  }
  const auto ms = silent_for(now_ns).count();
  if (refused.empty()) {
    return fmt::format("has answered on no path for {} ms: it is down, or cut off", ms);
  }
  return fmt::format(
      "has taken no connection for {} ms: {}{}{} refused it, nobody listens there: the process has "
      "ended, or another host has that address",
      ms,
      silent,
      silent.empty() ? "" : " did not answer, and ",
      refused);
}

// A new round of tries, and only what this process has seen counts.
void PeerPaths::note_pause(int64_t now_ns) {
  const int64_t paused_ns = pauses_.paused_ns(now_ns, ns_of(kStep));
  if (paused_ns == 0) {
    return;
  }
  answered_ns_ += paused_ns;
  for (Path& path : paths_) {
    path.tried = false;
    if (!path.answers) {
      path.fd.reset();
      path.due_ns = now_ns;
    }
  }
}

PeerPaths::Found PeerPaths::step(int64_t now_ns) {
  note_pause(now_ns);
  bool answers = false;
  bool all_tried = true;
  for (Path& path : paths_) {
    if (step(path, now_ns) && path.seen) {
      return Found::kNobodyListens;
    }
    answers = answers || (path.answers && !path.other);
    all_tried = all_tried && (path.tried || path.other);
  }
  if (answers) {
    if (noticed_) {
      log_warn("control plane: {} answers again after {} ms", name_, silent_for(now_ns).count());
      noticed_ = false;
    }
    answered_ns_ = now_ns;
    return Found::kAnswer;
  }
  if (!all_tried) {
    return Found::kNothing;
  }
  const bool late = silent_for(now_ns) >= options_.notice;
  // A firewall refuses too; but a process that lives would have come back over that path by now.
  const bool would_be_back = late && now_ns - begun_ns_ >= ns_of(options_.notice);
  if (would_be_back &&
      std::ranges::any_of(paths_, [](const Path& p) { return p.refused && p.proven; })) {
    return Found::kNobodyListens;
  }
  if (late && !noticed_) {
    noticed_ = true;
    log_error("control plane: the host of {} {}; waiting {} ms for it in all",
              name_,
              how_silent(now_ns),
              options_.wait.count());
  }
  return silent_for(now_ns) >= options_.wait ? Found::kTooLate : Found::kNothing;
}

bool PeerPaths::step(Path& path, int64_t now_ns) {
  if (!path.fd.valid()) {
    if (now_ns < path.due_ns) {
      return false;
    }
    Result<Dialled> dialled = dial({}, path.address);
    if (!dialled.ok() || dialled->connect_errno != 0) {
      return ended(path, now_ns, dialled.ok() ? dialled->connect_errno : ENETDOWN);
    }
    path.fd = std::move(dialled->fd);
    path.due_ns = now_ns + kTakenWithinNs;
  }
  pollfd entry{path.fd.get(), static_cast<short>(path.answers ? POLLIN : POLLOUT), 0};
  if (::poll(&entry, 1, 0) == 0) {
    const bool waits = path.answers ? still_answers(path, now_ns) : now_ns < path.due_ns;
    return !waits && ended(path, now_ns, ETIMEDOUT);
  }
  int error = 0;
  socklen_t size = sizeof error;
  (void)::getsockopt(path.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0 || path.answers) {  // nobody writes to it: it has ended
    return ended(path, now_ns, error != 0 ? error : ECONNRESET);
  }
  path.answers = true;
  path.refused = false;
  path.look_ns = now_ns;
  path.watch = {};
  ask_often(path.fd.get());
  return false;
}

// It was taken, and is kept: a process that is stopped says nothing more.
bool PeerPaths::still_answers(Path& path, int64_t now_ns) const {
  if (now_ns < path.look_ns) {
    return true;
  }
  path.look_ns = now_ns + ns_of(look_every(options_));
  const auto details = tcp::look_at_connection(path.fd.get());
  return details && path.watch.check(*details, options_.silence).ok();
}

bool PeerPaths::ended(Path& path, int64_t now_ns, int error) {
  path.fd.reset();
  if (std::exchange(path.answers, false)) {
    path.due_ns = now_ns + jitter_.pause_ns(kEndedPauseNs, path.ends++);
  } else {
    path.due_ns = now_ns + jitter_.pause_ns(kPauseNs);
    path.tried = true;
  }
  path.refused = error == ECONNREFUSED;
  return path.refused;
}

bool PeerPaths::note_other(const SocketAddress& address) {
  const auto path = std::ranges::find_if(
      paths_, [&](const Path& each) { return each.address.same_host(address); });
  return path != paths_.end() && !std::exchange(path->other, true);
}

std::optional<SocketAddress> PeerPaths::answering(size_t from) const {
  for (const bool other : {false, true}) {
    for (size_t i = 0; i < paths_.size(); ++i) {
      const Path& path = paths_[(from + i) % paths_.size()];
      if (path.answers && path.other == other) {
        return path.address;
      }
    }
  }
  return {};
}

}  // namespace ho
