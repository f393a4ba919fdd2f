#include "bootstrap/control/peer_connections.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

namespace ho {

Status PeerConnections::watch(
    int epoll, int operation, int fd, uint64_t token, uint32_t more_events) {
  epoll_event event{};
  event.events = EPOLLIN | more_events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) {
    return system_error("epoll_ctl of the coordinator", errno);
  }
  return {};
}

Status PeerConnections::add(uint32_t rank, Fd fd, bool keeps) {
  Peer& peer = peers_[rank];
  peer.connection = std::make_unique<ControlConnection>(std::move(fd), keeps);
  ++count_;
  Status status = watch(epoll_, EPOLL_CTL_ADD, peer.connection->fd(), rank);
  if (!status.ok()) {
    drop(rank);
  }
  return status;
}

void PeerConnections::lose(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.connection->is_open()) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, peer.connection->fd(), nullptr);
    peer.connection->lose();
    peer.watches_output = false;
  }
}

Status PeerConnections::resume(uint32_t rank, Fd fd, uint64_t counted) {
  lose(rank);
  HORING_TRY(peers_[rank].connection->resume(std::move(fd), counted));
  HORING_TRY(watch(epoll_, EPOLL_CTL_ADD, peers_[rank].connection->fd(), rank));
  flush(rank);
  return {};
}

void PeerConnections::drop(uint32_t rank) {
  Peer& peer = peers_[rank];
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, peer.connection->fd(), nullptr);
  peer = Peer();
  --count_;
}

bool PeerConnections::takes_more(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.connection == nullptr || peer.overfull) {
    return false;
  }
  if (peer.connection->held_bytes() > kMaxHeldBytes) {
    peer.overfull = true;
    overfull_.push_back(rank);
  }
  return !peer.overfull;
}

std::vector<uint32_t> PeerConnections::take_overfull() {
  std::vector<uint32_t> taken = std::exchange(overfull_, {});
  std::erase_if(taken, [this](uint32_t rank) { return !peers_[rank].overfull; });
  return taken;
}

void PeerConnections::send(uint32_t rank, wire::Type type, uint64_t id, const Body& body) {
  send(rank, type, id, std::span(&body, 1));
}

void PeerConnections::send(uint32_t rank,
                           wire::Type type,
                           uint64_t id,
                           std::span<const Body> parts) {
  if (!takes_more(rank)) {
    return;
  }
  for (const Body& part : parts) {
    peers_[rank].connection->queue(type, id, part);
  }
  flush(rank);
}

void PeerConnections::send_to_all(wire::Type type, const Body& body, uint64_t id) {
  for (auto rank = static_cast<uint32_t>(peers_.size()); rank-- > 0;) {
    send(rank, type, id, body);
  }
}

void PeerConnections::send_if_read(uint32_t rank, wire::Type type, uint64_t id, const Body& body) {
  constexpr size_t kMuch = size_t{1} << 20U;
  if (has(rank) && peers_[rank].connection->unsent_bytes() < kMuch) {
    send(rank, type, id, body);
  }
}

void PeerConnections::queue(uint32_t rank, wire::Type type, uint64_t id, Body body) {
  if (takes_more(rank)) {
    peers_[rank].connection->queue(type, id, std::move(body));
  }
}

void PeerConnections::flush(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (!peer.connection->is_open()) {
    return;
  }
  // An error shows again when this connection is read, and is dealt with there.
  const bool broken = !peer.connection->send_some().ok();
  const bool wants = !broken && peer.connection->has_output();
  if (wants != peer.watches_output &&
      watch(epoll_, EPOLL_CTL_MOD, peer.connection->fd(), rank, wants ? EPOLLOUT : 0U).ok()) {
    peer.watches_output = wants;
  }
  if (ends_output_ && !wants) {
    peer.connection->end_output();
  }
}

void PeerConnections::flush_all() {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (has(rank) && peers_[rank].connection->has_output()) {
      flush(rank);
    }
  }
}

void PeerConnections::end_output() {
  ends_output_ = true;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (has(rank)) {
      flush(rank);
    }
  }
}

}  // namespace ho
