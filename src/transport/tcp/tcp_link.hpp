// One link: the numbered messages to and from one peer. It knows what has been sent and received,
// in which order and on which of the connections (message k on number k modulo their count), and
// compares each header with what is expected. How the peer is reached is LinkConnections' job, what
// both ends say before an idle link is closed is IdleClose's. With failover the connections are
// those of Failover, which replaces them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/tcp/connection.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/failover.hpp"
#include "transport/tcp/idle_close.hpp"
#include "transport/tcp/link_connections.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

class TcpLink final : public Link {
 public:
  TcpLink(Context& context, const LinkKey& key);
  ~TcpLink() override;
  TcpLink(const TcpLink&) = delete;
  TcpLink& operator=(const TcpLink&) = delete;

  [[nodiscard]] Result<bool> try_send(const Frame& frame,
                                      std::span<const ConstBytes> payload) override;
  // The kernel copies: a message is released when it is accepted. With failover a large one once it
  // has arrived or was copied.
  [[nodiscard]] uint64_t released() override {
    return failover_ == nullptr ? sent_count_ : failover_->released();
  }
  // A peer that has ended after all had arrived concerns only who uses the link again.
  [[nodiscard]] Status went_wrong() const override {
    const Status& cause = error_.ok() ? send_error_ : error_;
    return lends() ? cause : Status();
  }
  // After an error `parts` may hold bytes of a message that did not match.
  [[nodiscard]] Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override;
  [[nodiscard]] Result<std::optional<Frame>> try_peek(bool awaited) override;
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  void release_view() override { view_ready_ = false; }
  [[nodiscard]] size_t rails() const override {
    return failover_ == nullptr ? 1 : failover_->rails();
  }
  [[nodiscard]] std::string to_string() const override;
  [[nodiscard]] std::string trouble() const override { return connections().trouble(); }

  // For the transport.
  // Whether an event came that concerns a pending call, since the last call or the last asking.
  [[nodiscard]] bool take_unseen_event();
  // Moves opening and closing along; looks for close frames on links that are not in use.
  void advance();
  // About once a second: notices dead rails, peers that never connect where nobody else would say
  // so, and close frames that arrived between uses.
  void tick();
  // Whether it takes a connection that the peer opened, for attach().
  [[nodiscard]] bool can_attach(const LinkClaim& claim) const;
  void attach(const LinkClaim& claim, std::unique_ptr<Socket> socket);
  // Ends the output; true: the peer's host has not acknowledged all of it.
  [[nodiscard]] bool finish_output() { return connections().finish_output(); }
  // What was accepted is with the peer's host, or will never be: true without failover.
  [[nodiscard]] bool all_arrived();
  // TcpTransport::await_nothing.
  void await_nothing();
  // Its connections are being replaced.
  [[nodiscard]] bool mending() const { return failover_ != nullptr && failover_->mending(); }
  // Failover::release_lent.
  bool release_lent() { return failover_ != nullptr && failover_->release_lent(); }
  // It may still read the memory of messages that were accepted.
  [[nodiscard]] bool lends() const { return failover_ != nullptr && failover_->lends(); }
  // Whether closing may begin, here or with a hint to the peer, and when the link was last used.
  [[nodiscard]] bool may_begin_close() const;
  void begin_close();
  [[nodiscard]] bool likely_to_close() const {
    return idle_close_.likely() && (failover_ == nullptr || failover_->flows());
  }
  [[nodiscard]] uint64_t last_used_turn() const { return last_used_turn_; }
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  [[nodiscard]] Status enter_call();
  [[nodiscard]] Result<bool> receive(const Frame& expected,
                                     std::span<const Bytes> parts,
                                     Connection& connection);
  [[nodiscard]] Result<bool> receive_header(const Frame& expected,
                                            std::span<const Bytes> parts,
                                            Connection& connection);
  [[nodiscard]] Result<std::optional<Frame>> peek_open(bool awaited);
  [[nodiscard]] LinkConnections& connections() {
    return failover_ == nullptr ? connections_ : failover_->connections();
  }
  [[nodiscard]] const LinkConnections& connections() const {
    return failover_ == nullptr ? connections_ : failover_->connections();
  }
  // The connection that is being read is none of those in use: it was replaced.
  [[nodiscard]] bool reads_replaced() const {
    return failover_ != nullptr && receiving_epoch_ != failover_->epoch();
  }
  // Null: there is none to be read now.
  [[nodiscard]] Connection* receiving_connection();
  [[nodiscard]] bool recently_used() const;
  [[nodiscard]] HeaderRead header_read(uint32_t payload_bytes) const;
  [[nodiscard]] bool messages_flow() const {
    const bool open = failover_ == nullptr ? connections_.open() : failover_->flows();
    return open && !idle_close_.closing() && error_.ok();
  }

  // Close frames, which take their place among the messages.
  [[nodiscard]] IdleClose::Messages messages() const;
  void note_message_here();
  // How long the answer to a request to close is missing.
  void note_closing(int64_t now);
  [[nodiscard]] Status on_close_frame(const Frame& frame,
                                      std::span<const Bytes> parts,
                                      Connection& connection);
  [[nodiscard]] bool may_inspect();
  [[nodiscard]] Status inspect();
  [[nodiscard]] Result<bool> inspect_one();
  [[nodiscard]] Result<bool> write_close_frames();
  [[nodiscard]] Status advance_closing();

  void close_idle();
  void close();
  Status fail(const Status& cause);
  // The cause names the path.
  Status fail_with_path(const Status& cause);
  [[nodiscard]] Status fail_sending(const Status& cause);
  // Reading failed. ok: other connections will take over.
  [[nodiscard]] Status fail_receiving(const Status& cause);
  [[nodiscard]] Status fail_ended();
  void note_epoch();
  void advance_failover();
  [[nodiscard]] Status advance_open();
  // Close frames are to be written or awaited.
  [[nodiscard]] bool closes() const;

  Context& context_;
  const LinkKey key_;
  bool event_ = false;
  LinkConnections connections_;
  IdleClose idle_close_;
  std::unique_ptr<Failover> failover_;  // null: an error of its connections is the link's
  Status error_;                        // of the link; each call returns it
  Status send_error_;
  uint64_t last_used_turn_ = 0;
  bool rests_ = false;  // with failover: it was closed while idle, and has not been used since

  // Sending: the head message.
  bool send_active_ = false;
  OutgoingMessage outgoing_;
  uint64_t sent_count_ = 0;
  int64_t closing_since_ns_ = 0;  // an answer is missing since; 0: none is
  uint32_t closing_epoch_ = 0;    // of the connections that close frames speak of
  uint32_t sending_epoch_ = 0;    // of the connections that have the head's beginning

  // Receiving.
  bool recv_active_ = false;
  bool head_checked_ = false;
  uint32_t receiving_epoch_ = 0;
  uint64_t received_count_ = 0;
  std::unique_ptr<std::byte[]> staging_;  // NOLINT: uninitialised on purpose, sized once
  size_t staging_bytes_ = 0;
  bool view_ready_ = false;
  size_t view_bytes_ = 0;
};

}  // namespace ho::tcp
