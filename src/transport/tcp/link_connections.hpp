// The way to one peer: one connection on one rail, or several. Dials them or takes those that the
// peer opens, closes them, opens them again, writes at the rail's pace, and notices a way that is
// dead. It knows nothing of what messages say: who numbers them (tcp_link.hpp) asks for the
// connection of message k, which is number k modulo their count, and decides what an error ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "connect/connector.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/paths.hpp"
#include "transport/tcp/port_watch.hpp"

namespace ho::tcp {

// A message that leaves a few bytes at a time, and how far it has come.
struct OutgoingMessage {
  FrameBytes header{};
  size_t offset = 0;
  size_t bytes = 0;
};

// Of connections that may be replaced by others: over which rails they go, and who opens them.
struct Way {
  Path path;
  uint32_t epoch = 0;
  bool dials = false;
  std::chrono::milliseconds reach_within{0};
  bool keeps_interface = false;  // Connector's
};

class LinkConnections {
 public:
  // event: set with each edge of the sockets, and when the last of them stands. It outlives this.
  LinkConnections(Context& context, const LinkKey& key, bool& event);
  LinkConnections(Context& context, const LinkKey& key, bool& event, const Way& way);
  ~LinkConnections();
  LinkConnections(const LinkConnections&) = delete;
  LinkConnections& operator=(const LinkConnections&) = delete;

  [[nodiscard]] const Way& way() const { return way_; }
  // This rank opens the link: the lower one; for kHigherMessageChannel the higher.
  [[nodiscard]] bool dials() const { return way_.dials; }
  // All stand.
  [[nodiscard]] bool open() const { return state_ == State::kOpen; }
  // This rank is opening them.
  [[nodiscard]] bool dialling() const { return way_.dials && state_ == State::kOpening; }
  // They were closed, and this rank may dial again.
  [[nodiscard]] bool may_dial_again() const { return way_.dials && state_ == State::kClosed; }

  // Begins to dial, or goes on. An error ends the attempt.
  [[nodiscard]] Status dial();
  // While dialling: the peer's host has said that nobody listens there.
  [[nodiscard]] bool refused() const;
  // A connection that the peer opened. Refused when there is one already.
  [[nodiscard]] bool can_attach(uint8_t connection) const;
  void attach(uint8_t connection, std::unique_ptr<Socket> socket);
  void close();

  // These only while they are open.
  [[nodiscard]] Connection& of_message(uint64_t number) {
    return *connections_[number % connections_.size()];
  }
  // Writes message `number` on from where it is, as fast as the rail's pace allows; true: all of it
  // has left.
  [[nodiscard]] Result<bool> write(uint64_t number,
                                   OutgoingMessage& message,
                                   std::span<const ConstBytes> payload);
  // By connection, what the peer's host has acknowledged of what was written.
  [[nodiscard]] std::vector<uint64_t> acknowledged() const;
  // Reads all that is there and closes the sockets: how many messages, from `number` on, are whole.
  [[nodiscard]] uint64_t drain(uint64_t number);
  // Nothing of a message has been read on any.
  [[nodiscard]] bool at_message_start() const;
  // Not ok: one of them has ended or is broken.
  [[nodiscard]] Status ended() const;
  // Nothing is left to be read on any but this one.
  [[nodiscard]] bool others_at_end(const Connection& connection) const;

  // About once a second, while open: an error once the peer's host no longer answers. awaited: a
  // message is, so bytes below the low-water mark are looked for and are an event.
  [[nodiscard]] Status look(bool awaited);
  // About once a second, while not open: a peer that is to open the link and never has closes no
  // connection here. wanted: a call waits for it.
  [[nodiscard]] Status look_for_peer(bool wanted);

  // Ends the output of all; true: a peer's host has not acknowledged all of it.
  [[nodiscard]] bool finish_output();
  // Of the connections, without this object.
  [[nodiscard]] uint64_t memory_bytes() const;

  // "tcp 10.1.0.1 (rail0) -> 10.1.0.2".
  [[nodiscard]] std::string path() const;
  // The same with what state it is in.
  [[nodiscard]] std::string to_string() const;
  // What is wrong with this host's end of the rail as its kernel has it, or "".
  [[nodiscard]] std::string interface_trouble() const;
  // Link::trouble.
  [[nodiscard]] std::string trouble() const;
  // The error with peer, rail and path.
  [[nodiscard]] Status with_path(const Status& cause) const;

 private:
  enum class State : uint8_t {
    kOpening,  // dialling, or waiting for the peer to
    kOpen,
    kClosed,
  };

  [[nodiscard]] const RailInterface& rail() const {
    return context_.options.rails[way_.path.own.at()];
  }
  [[nodiscard]] const std::string& peer_address() const {
    return context_.peers.at(key_.peer.at()).rail_addresses.at(way_.path.peer.at());
  }
  [[nodiscard]] LinkClaim claim_of(size_t connection) const;
  [[nodiscard]] Status start_dialling();
  [[nodiscard]] Status cannot_connect(const Status& why) const;
  [[nodiscard]] size_t pace(const RailPace& rate, size_t wanted_bytes);

  Context& context_;
  const LinkKey key_;
  bool& event_;
  const Way way_;
  State state_ = State::kOpening;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connector>> connectors_;  // while this rank dials
  PortWatch peer_port_;  // while the peer is to dial, and nobody else watches it
  int64_t paced_from_ns_ = 0;
  size_t paced_bytes_ = 0;
};

}  // namespace ho::tcp
