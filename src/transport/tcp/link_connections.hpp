// The way to one peer: one connection or several, over one rail or several. Dials them or takes
// those that the peer opens, closes them, opens them again, writes at the rails' pace, and notices
// a way that is dead. It knows nothing of what messages say: who numbers them (tcp_link.hpp) asks
// for the connection of message k (striping.hpp), and decides what an error ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/connector.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/paths.hpp"
#include "transport/tcp/port_watch.hpp"
#include "transport/tcp/rail_rate.hpp"
#include "transport/tcp/striping.hpp"

namespace ho::tcp {

// A message that leaves a few bytes at a time, and how far it has come.
struct OutgoingMessage {
  FrameBytes header{};
  size_t offset = 0;
  size_t bytes = 0;
};

// Of connections that may be replaced by others: over which rails they go, and who opens them.
struct Way {
  std::vector<Share> shares;  // by connection; the peer's claims say those of the peer's
  uint32_t epoch = 0;
  bool dials = false;
  bool news = true;  // for who reads the log
  std::chrono::milliseconds reach_within{0};
  bool keeps_interface = false;   // Connector's
  bool leaves_interface = false;  // from the beginning
};

class LinkConnections {
 public:
  // event: set with each edge of the sockets, and when the last of them stands. It outlives this.
  LinkConnections(Context& context, const LinkKey& key, bool& event);
  LinkConnections(Context& context, const LinkKey& key, bool& event, Way way);
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
  // While dialling: over which paths a host has said that nobody listens there.
  [[nodiscard]] std::vector<Path> refused() const;
  // Of those over which this end has tried, where no host has said anything.
  [[nodiscard]] std::vector<Path> unanswered_paths() const;
  // While open: one that this end has dialled is not bound to its rail's interface (Connector).
  [[nodiscard]] bool left_interface() const;
  // While not open: the paths of the connections that do not stand.
  [[nodiscard]] std::vector<Path> missing() const;
  // A connection that the peer opened. Refused when there is one already.
  [[nodiscard]] bool can_attach(const LinkClaim& claim) const;
  void attach(const LinkClaim& claim, std::unique_ptr<Socket> socket);
  void close();

  // These only while they are open.
  [[nodiscard]] size_t index_of_message(uint64_t number) const {
    return striping_->connection_of(number);
  }
  [[nodiscard]] Connection& of_message(uint64_t number) {
    return *connections_[index_of_message(number)];
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
  [[nodiscard]] Status ended();
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
  void await_nothing();
  // Of the connections, without this object.
  [[nodiscard]] uint64_t memory_bytes() const;

  // "tcp 10.1.0.1 (rail0) -> 10.1.0.2", with " and " before each further path, and with the part of
  // the messages that goes over each where that is not the same.
  [[nodiscard]] std::string path() const;
  // The same with what state it is in.
  [[nodiscard]] std::string to_string() const;
  // Not ok: what is wrong with this host's end of a rail as its kernel has it.
  [[nodiscard]] Status check_interfaces();
  // Link::trouble.
  [[nodiscard]] std::string trouble() const;
  // What the connections over that path, one at least, have done, and those over each other one.
  // messages: how many the link has sent.
  // Nothing where the kernel does not tell. That path's is the one of with_path then.
  [[nodiscard]] std::optional<RailLooks> look_at_rails(const Path& home, uint64_t messages);
  // Reading message `number` failed. The calls above that fail note their connection themselves.
  void note_failed(uint64_t number) { failed_ = index_of_message(number); }
  // Of the connection that failed last.
  [[nodiscard]] const Path& failed_path() const { return way_.shares.at(failed_).path; }
  // The error with peer, rail and the path that failed last.
  [[nodiscard]] Status with_path(const Status& cause) const;

 private:
  enum class State : uint8_t {
    kOpening,  // dialling, or waiting for the peer to
    kOpen,
    kClosed,
  };

  // What may leave from a time on, at the pace of its rail.
  struct Paced {
    int64_t from_ns = 0;
    size_t bytes = 0;
  };

  [[nodiscard]] const RailInterface& own_rail(const Path& path) const {
    return context_.options.rails[path.own.at()];
  }
  [[nodiscard]] const std::string& peer_address(const Path& path) const {
    static const std::string unknown = "an unknown address";  // of a peer that contradicts itself
    const auto& addresses = context_.peers.at(key_.peer.at()).rail_addresses;
    return path.peer.at() < addresses.size() ? addresses[path.peer.at()] : unknown;
  }
  [[nodiscard]] std::string path_text(const Path& path) const;
  [[nodiscard]] LinkClaim claim_of(size_t connection) const;
  [[nodiscard]] Result<std::unique_ptr<Connector>> connector_of(size_t connection);
  [[nodiscard]] Status cannot_connect(const Path& path, const Status& why) const;
  void take(size_t connection, std::unique_ptr<Socket> socket);
  [[nodiscard]] size_t pace(const RailPace& rate, Paced& paced, size_t wanted_bytes);

  Context& context_;
  const LinkKey key_;
  bool& event_;
  Way way_;
  State state_ = State::kOpening;
  std::optional<Striping> striping_;  // while open
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connector>> connectors_;  // while this rank dials
  PortWatch peer_port_;       // while the peer is to dial, and nobody else watches it
  std::vector<Paced> paced_;  // by connection
  size_t failed_ = 0;
};

}  // namespace ho::tcp
