// The coordinator's connections to the ranks, and what is sent over them. One thread, which waits
// for them in an epoll instance: their user data there is the rank.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/control/control_connection.hpp"
#include "bootstrap/messages/wire.hpp"
#include "os/fd.hpp"

namespace ho {

class PeerConnections {
 public:
  using Body = ControlConnection::Body;
  // What a rank is owed is bounded by what it asks for and by what others do: one that asks for
  // ever more, and does not read it or does not count it, must not fill this process's memory.
  static constexpr size_t kMaxHeldBytes = size_t{64} << 20U;

  // `epoll` outlives this.
  PeerConnections(int epoll, uint32_t world_size) : epoll_(epoll), peers_(world_size) {}

  // Waits for a descriptor there.
  [[nodiscard]] static Status watch(
      int epoll, int operation, int fd, uint64_t token, uint32_t more_events = 0);

  // `keeps`: as ControlConnection.
  [[nodiscard]] Status add(uint32_t rank, Fd fd, bool keeps = false);
  // Its socket is lost. It keeps its connection, over another socket later.
  void lose(uint32_t rank);
  [[nodiscard]] Status resume(uint32_t rank, Fd fd, uint64_t counted);
  void drop(uint32_t rank);
  [[nodiscard]] uint32_t world_size() const { return static_cast<uint32_t>(peers_.size()); }
  // Ranks that have one.
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] bool has(uint32_t rank) const { return peers_[rank].connection != nullptr; }
  // Of a rank that has one.
  [[nodiscard]] ControlConnection& of(uint32_t rank) { return *peers_[rank].connection; }

  // To a rank that has no connection, or does not read, nothing is sent.
  void send(uint32_t rank, wire::Type type, uint64_t id, const Body& body);
  // All of them, however large they are together.
  void send(uint32_t rank, wire::Type type, uint64_t id, std::span<const Body> parts);
  // To the coordinator's own rank last: its process may end as soon as it hears a decision, and
  // this thread with it.
  void send_to_all(wire::Type type, const Body& body, uint64_t id = 0);
  // What is left out where much waits for the rank already: it helps, and nobody needs it.
  void send_if_read(uint32_t rank, wire::Type type, uint64_t id, const Body& body);
  // Not sent before flush_all().
  void queue(uint32_t rank, wire::Type type, uint64_t id, Body body);
  void flush(uint32_t rank);
  void flush_all();
  // From now on whoever has got everything is told that nothing more will come.
  void end_output();
  // Ranks that do not read what is sent to them, since the last call. Nothing is sent to them.
  [[nodiscard]] std::vector<uint32_t> take_overfull();

 private:
  struct Peer {
    std::unique_ptr<ControlConnection> connection;
    bool watches_output = false;
    bool overfull = false;
  };
  [[nodiscard]] bool takes_more(uint32_t rank);

  int epoll_;
  std::vector<Peer> peers_;
  std::vector<uint32_t> overfull_;
  uint32_t count_ = 0;
  bool ends_output_ = false;
};

}  // namespace ho
