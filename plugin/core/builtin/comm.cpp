#include "core/builtin/comm.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::plugin {
namespace {

constexpr int64_t kCheckNs = 1'000'000'000;
constexpr std::chrono::seconds kShutdown{1};
constexpr std::chrono::microseconds kShutdownPause{100};

// The peer's host has not taken all that was written.
bool has_unsent(const std::unique_ptr<NetConnection>& connection) {
  int bytes = 0;
  return ::ioctl(connection->socket().fd.get(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

}  // namespace

Result<ConnectionSet> make_connections(std::string device,
                                       std::string peer,
                                       std::vector<std::unique_ptr<Socket>> sockets) {
  ConnectionSet connections;
  connections.device = std::move(device);
  connections.peer = std::move(peer);
  HORING_ASSIGN(connections.poller, tcp::Poller::create());
  for (auto& socket : sockets) {
    HORING_TRY(connections.poller->add(*socket));
    connections.all.push_back(std::make_unique<NetConnection>(std::move(socket)));
  }
  return connections;
}

Comm::Comm(ConnectionSet connections) : connections_(std::move(connections)) {}

Reply Comm::test(Request& request, int32_t* done, int32_t* sizes) {
  *done = 0;
  if (request.state != Request::State::kComplete && !watched_) {
    progress();
  }
  if (request.state == Request::State::kComplete) {
    *done = 1;
    request.hand_over(sizes);
    note_news();
  }
  return *done == 0 && failed() ? failure() : Reply::kSuccess;
}

int Comm::progress_fd() {
  if (!watched_) {
    watched_ = true;
    // Whatever happened before is found by the first look.
    has_pending_ = true;
  }
  return connections_.poller->fd();
}

void Comm::look() {
  more_ = false;
  progress();
  // The caller repeats all that it waits for now.
  has_pending_ = more_;
}

bool Comm::is_open() {
  progress();
  return !failed();
}

void Comm::progress() {
  if (failed()) {
    // Edges that nobody takes in would keep the descriptor readable, and its sleeper awake.
    static_cast<void>(connections_.poller->poll());
    return;
  }
  const Result<bool> timer = connections_.poller->poll();
  Status status = timer.status();
  if (status.ok() && *timer) {
    status = tick();
  }
  if (status.ok()) {
    status = advance();
  }
  if (!status.ok()) {
    fail(status);
  } else if (watched_ && check_due_) {
    connections_.poller->wake_at(next_check_ns_);  // does nothing where that is set already
  }
}

void Comm::progress_or_leave() {
  if (watched_) {
    has_pending_ = true;
  } else {
    progress();
  }
}

Status Comm::tick() {
  if (!check_due_) {
    return {};
  }
  const int64_t now = now_ns();
  if (now < next_check_ns_) {
    return {};
  }
  check_due_ = active_ > 0;
  next_check_ns_ = now + kCheckNs;
  return check_due_ ? check(now) : Status();
}

Status Comm::check(int64_t /*now_ns*/) {
  for (const auto& connection : connections_.all) {
    HORING_TRY(connection->tcp().check_alive(tcp::look_at_connection));
  }
  return {};
}

void Comm::begin(Request& request, uint64_t bytes) {
  request.comm = this;
  request.begun_bytes = bytes;
  counts_.begin(bytes);
  request.state = Request::State::kActive;
  ++active_;
  if (!check_due_) {
    check_due_ = true;
    next_check_ns_ = now_ns() + kCheckNs;
  }
}

void Comm::complete(Request& request) {
  request.state = Request::State::kComplete;
  counts_.end(request.begun_bytes, request.bytes());
  --active_;
  has_pending_ = true;
}

void Comm::fail(const Status& status) {
  std::string what = oldest();
  if (!what.empty()) {
    what.insert(0, ", ");
  }
  failure_ = status.with_context(
      fmt::format("device {}, peer {}{}", connections_.device, connections_.peer, what));
  counts_.fail();
  // The peer is to notice soon, after what is on its way already.
  for (const auto& connection : connections_.all) {
    ::shutdown(connection->socket().fd.get(), SHUT_WR);
  }
  if (active_ > 0) {
    static_cast<void>(failure());
  }
  has_pending_ = true;
}

Reply Comm::failure() {
  if (!logged_) {
    logged_ = true;
    log_error("{}", failure_.message());
  }
  return reply_of(failure_.code());
}

void Comm::finish() {
  // After a mismatch the notice of it is still on its way.
  if (!failure_.ok() && failure_.code() != StatusCode::kMismatch) {
    return;
  }
  // A caller that leaves requests behind gives up: then the kernel does what it can. So it does
  // where only the word that this end closes is on its way: a peer's host that is gone costs
  // nothing.
  const bool waits = active_ == 0 && std::ranges::any_of(connections_.all, has_unsent);
  const Deadline deadline = deadline_after(waits ? kShutdown : std::chrono::seconds(0));
  say_leaving(deadline);
  const auto unacknowledged = [](const auto& connection) {
    return connection->tcp().finish_output();
  };
  // All of them at once first, none waits for the others' answers.
  while (std::ranges::count_if(connections_.all, unacknowledged) > 0) {
    if (passed(deadline)) {
      log_at(waits ? LogLevel::kWarn : LogLevel::kDebug,
             "device {}, peer {}: closed before the peer's host took all that was sent",
             connections_.device,
             connections_.peer);
      return;
    }
    std::this_thread::sleep_for(kShutdownPause);
  }
}

void Comm::say_leaving(Deadline deadline) {
  if (failed() || active_ > 0) {
    return;
  }
  LeavingBytes bytes{};
  std::span<const std::byte> left = std::span(bytes).first(encode_leaving(bytes));
  const int fd = connections_.all.front()->socket().fd.get();
  while (true) {
    const ssize_t sent = ::send(fd, left.data(), left.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    left = left.subspan(sent > 0 ? static_cast<size_t>(sent) : 0);
    // The buffer is full where much was sent last.
    if (left.empty() || (sent < 0 && errno != EAGAIN) || passed(deadline)) {
      return;
    }
    std::this_thread::sleep_for(kShutdownPause);
  }
}

// Looks into the kernel only, for the comm's own state is its callers'. An end of the connection
// says nothing yet: what came last before it may be waiting there.
bool Comm::peer_is_lost() const {
  pollfd looked_at{connections_.all.front()->socket().fd.get(), POLLRDHUP, 0};
  if (::poll(&looked_at, 1, 0) != 1 || peer_leaves_.load(std::memory_order_acquire)) {
    return false;
  }
  std::array<std::byte, tcp::kAheadBytes> waiting;  // NOLINT: filled by recv
  const ssize_t got = ::recv(looked_at.fd, waiting.data(), waiting.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) {
    return errno != EAGAIN && errno != EINTR;
  }
  // More than that is no idle connection's: who reads it finds the end.
  return static_cast<size_t>(got) < waiting.size() &&
         !is_leaving(std::span(waiting).first(static_cast<size_t>(got)));
}

}  // namespace ho::plugin
