#include "relay.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "catch.hpp"

namespace ho::conformance {
namespace {

constexpr size_t kAtOnce = 65536;

uint64_t waiting(const Fd& fd, unsigned long what) {
  int bytes = 0;
  return ::ioctl(fd.get(), what, &bytes) == 0 ? static_cast<uint64_t>(bytes) : 0;
}

}  // namespace

Relay::Relay(const std::vector<std::string>& hosts, uint16_t port, Script script)
    : hosts_(hosts), target_(port), script_(std::move(script)) {
  std::vector<SocketAddress> addresses;
  addresses.reserve(hosts.size());
  for (const std::string& host : hosts) {
    addresses.push_back(*SocketAddress::numeric(host, 0));
  }
  auto listeners = listen_at_one_port(addresses, Families::kOwn);
  REQUIRE(listeners.ok());
  listeners_ = *std::move(listeners);
  port_ = local_address(listeners_.front().get())->port();
}

bool Relay::blocks(const std::string& host) const {
  return std::ranges::find(blocked_, host) != blocked_.end();
}

void Relay::refuse(const std::string& host) {
  const auto found = std::ranges::find(hosts_, host);
  REQUIRE(found != hosts_.end());
  listeners_.erase(listeners_.begin() + (found - hosts_.begin()));
  hosts_.erase(found);
}

void Relay::step() {
  accept_all();
  for (const auto& pipe : pipes_) {
    if (pipe->dead || blocks(pipe->host)) {
      continue;
    }
    // Both ways before a cut: what one end sent last is not lost for what the other one did.
    const bool to_listener = forward(pipe->dialler, pipe->listener, pipe->ways[0]);
    const bool to_dialler = forward(pipe->listener, pipe->dialler, pipe->ways[1]);
    if (!to_listener || !to_dialler) {
      cut(*pipe);
    }
  }
}

void Relay::cut_all() {
  for (const auto& pipe : pipes_) {
    cut(*pipe);
  }
}

void Relay::accept_all() {
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (blocks(hosts_[i])) {
      continue;
    }
    for (auto accepted = accept_from(listeners_[i].get()); accepted.ok() && accepted->has_value();
         accepted = accept_from(listeners_[i].get())) {
      auto pipe = std::make_unique<Pipe>();
      pipe->host = hosts_[i];
      pipe->dialler_port = (*accepted)->peer.port();
      pipe->dialler = std::move((*accepted)->fd);
      pipe->listener.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const SocketAddress to = *SocketAddress::numeric(hosts_[i], target_);
      const bool stands = ::connect(pipe->listener.get(), to.get(), to.size_bytes()) == 0;
      const Cut limits = script_(pipes_.size());
      pipe->ways[0].limit = limits.to_listener;
      pipe->ways[1].limit = limits.to_dialler;
      pipe->reset = limits.reset;
      if (stands) {
        pipe->listener_port = local_address(pipe->listener.get())->port();
      } else {
        cut(*pipe);
      }
      pipes_.push_back(std::move(pipe));
    }
  }
}

bool Relay::forward(const Fd& from, const Fd& to, Way& way) {
  while (way.passed < way.limit) {
    if (way.held.empty()) {
      way.held.resize(std::min<uint64_t>(kAtOnce, way.limit - way.passed));
      const ssize_t got = ::recv(from.get(), way.held.data(), way.held.size(), MSG_DONTWAIT);
      way.held.resize(got > 0 ? static_cast<size_t>(got) : 0);
      if (got <= 0) {
        way.ended = got == 0 || errno != EAGAIN;
        return !way.ended;
      }
    }
    const ssize_t sent =
        ::send(to.get(), way.held.data(), way.held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      return errno == EAGAIN;
    }
    way.held.erase(way.held.begin(), way.held.begin() + sent);
    way.passed += static_cast<uint64_t>(sent);
  }
  ++cuts_;
  return false;
}

void Relay::cut(Pipe& pipe) {
  for (Fd* fd : {&pipe.dialler, &pipe.listener}) {
    if (pipe.reset) {
      const linger now{1, 0};
      ::setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    fd->reset();
  }
  pipe.dead = true;
}

uint64_t Relay::on_the_way(const Fd& from, const Fd& to, const Way& way) {
  return waiting(from, FIONREAD) + way.held.size() + waiting(to, SIOCOUTQ);
}

std::optional<uint64_t> Relay::count_unacknowledged(int fd) const {
  const auto own = local_address(fd);
  const auto peer = peer_address(fd);
  if (!own.ok()) {
    return std::nullopt;
  }
  for (const auto& pipe : pipes_) {
    const bool dials = pipe->dialler_port == own->port();
    const bool listens = peer.ok() && pipe->listener_port == peer->port();
    if (!dials && !listens) {
      continue;
    }
    if (pipe->dead) {
      return UINT64_MAX;
    }
    int here = 0;
    ::ioctl(fd, SIOCOUTQ, &here);
    return static_cast<uint64_t>(here) +
           (dials ? on_the_way(pipe->dialler, pipe->listener, pipe->ways[0])
                  : on_the_way(pipe->listener, pipe->dialler, pipe->ways[1]));
  }
  return std::nullopt;
}

}  // namespace ho::conformance
