#include "transport/tcp/port_watch.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ho::tcp {

Status PortWatch::check(const RailInterface& from, const SocketAddress& to) {
  constexpr uint32_t kLongestPause = 32;
  if (connecting_.valid()) {
    pollfd entry{connecting_.get(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) == 0) {
      return {};  // the kernel gives up in its own time
    }
    int error = 0;
    socklen_t size = sizeof error;
    const int outcome = ::getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    connecting_.reset();
    return judge(outcome == 0 ? error : errno, to);
  }
  if (checks_left_ > 0) {
    --checks_left_;
    return {};
  }
  checks_left_ = pause_checks_;
  pause_checks_ = std::min(2 * pause_checks_, kLongestPause);
  HORING_ASSIGN(Dialled dialled, dial(from, to));
  if (dialled.connect_errno != 0) {
    return judge(dialled.connect_errno, to);
  }
  connecting_ = std::move(dialled.fd);
  return {};
}

// What routers and interfaces report may pass; that nobody listens does not.
Status PortWatch::judge(int error, const SocketAddress& to) {
  constexpr uint32_t kMaxUnreached = 3;
  if (error == ECONNREFUSED) {
    return {StatusCode::kPeerLost,
            "it has not connected, and nobody listens at its address " + to.to_string() +
                " any more: it is gone (killed or crashed), or has left; see the output of that "
                "rank"};
  }
  unreached_ = error == 0 || error == ECONNRESET ? 0 : unreached_ + 1;
  if (unreached_ < kMaxUnreached) {
    return {};
  }
  return {StatusCode::kConnection,
          "it has not connected, and its address " + to.to_string() +
              " cannot be reached: " + system_error("connect", error).message() +
              "; its host is down, or a network on the way is"};
}

}  // namespace ho::tcp
