// One link: the message FIFOs to one peer over one connection (or several, message k using number
// k modulo their count), its opening, failing, and closing when idle.
//
// Closing (tcp_transport.cpp says why). A rank with more connections than it may keep closes idle
// links of which it is the lower rank (it opened them, and it will open them again; a link for the
// higher rank's messages has the ranks the other way round, here and below). It sends a
// CloseRequest that says how many messages it has sent and received. The peer agrees only when it
// has received and sent exactly as many and has nothing under way, so that no message can be lost;
// it answers CloseAccept and closes. Otherwise, because messages crossed the request, it answers
// CloseRefuse and all goes on. Either way the next use of the link on the lower rank opens it
// again; the higher rank's calls wait for that.
//
// A higher rank never begins, or two requests could cross. Where it is the one with too many
// connections (all send to it, say), it sends a CloseHint on an idle link. The lower rank then
// begins as soon as the link is not in use, unless a message passes first. A hint needs no answer:
// after the next message the higher rank may send another one.
//
// A close frame takes its place among the messages: it goes over the connection that the sender's
// next message will take, so the peer meets it after all earlier messages and before any later one.
// The requester's messages wait until it has met the answer, or a message that crossed the request.
// Then the answer will be a refusal, and they may follow the request at once. They must not wait
// for the refusal itself: it stands behind the message that crossed, and the caller may receive
// that only once its own message has left. So a message waits only until the peer has received all
// earlier ones, as it would in a connection that buffers nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "connect/connector.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/port_watch.hpp"
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
  // The kernel copies: a message is released when it is accepted.
  [[nodiscard]] uint64_t released() override { return sent_count_; }
  // After an error `parts` may hold bytes of a message that did not match.
  [[nodiscard]] Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override;
  [[nodiscard]] Result<std::optional<Frame>> try_peek(bool awaited) override;
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  void release_view() override { view_ready_ = false; }
  [[nodiscard]] std::string to_string() const override;
  [[nodiscard]] std::string trouble() const override;

  // For the transport.
  // Whether an event came that concerns a pending call, since the last call or the last asking.
  [[nodiscard]] bool take_unseen_event();
  // Moves opening and closing along; looks for close requests on links that are not in use.
  void advance();
  // About once a second: notices dead rails, peers that never connect where nobody else would say
  // so, and close requests that arrived between uses.
  void tick();
  // A connection that the peer opened. Refused when there is one already.
  [[nodiscard]] bool can_attach(uint8_t connection) const;
  void attach(uint8_t connection, std::unique_ptr<Socket> socket);
  // Whether closing may begin, and when the link was last used.
  [[nodiscard]] bool closable() const;
  // Whether it is the peer that may begin, and should be asked.
  [[nodiscard]] bool hintable() const;
  // It is likely to be closed soon: closing, or the peer has had a hint not long ago.
  [[nodiscard]] bool leaving() const { return state_ == State::kClosing || hint_ticks_ > 0; }
  [[nodiscard]] uint64_t last_used_turn() const { return last_used_turn_; }
  void begin_close();
  void send_hint();
  // Ends the output of its connections; true: a peer's host has not acknowledged all of it.
  [[nodiscard]] bool finish_output();
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  enum class State : uint8_t {
    kOpening,  // connecting, or waiting for the peer to
    kOpen,
    kClosing,  // lower rank: request sent; higher rank: acceptance being sent
    kClosed,   // by agreement; opens again
    kFailed,
  };

  [[nodiscard]] Status enter_call();
  [[nodiscard]] Result<std::optional<Frame>> peek_open();
  [[nodiscard]] Result<bool> receive(const Frame& expected, std::span<const Bytes> parts);
  [[nodiscard]] Result<bool> receive_header(const Frame& expected,
                                            std::span<const Bytes> parts,
                                            Connection& connection);
  // The connections that the next message takes, either way.
  [[nodiscard]] Connection& sending_connection() {
    return *connections_[sent_count_ % connections_.size()];
  }
  [[nodiscard]] Connection& receiving_connection() {
    return *connections_[received_count_ % connections_.size()];
  }
  // Whether the peer owes an answer to our close request, which stands before any message.
  [[nodiscard]] bool answer_due() const {
    return dials_ && (state_ == State::kClosing || refusal_due_);
  }
  [[nodiscard]] HeaderRead header_read(uint32_t payload_bytes) const;
  [[nodiscard]] Result<bool> write_message(Connection& connection,
                                           std::span<const ConstBytes> payload);
  [[nodiscard]] size_t pace(const RailPace& rate, size_t wanted_bytes);
  [[nodiscard]] Status start_connecting();
  [[nodiscard]] LinkClaim claim_of(size_t connection) const;
  [[nodiscard]] Status cannot_connect(const Status& why) const;
  void note_attached();
  [[nodiscard]] Status look_for_peer();
  [[nodiscard]] Status advance_opening();
  [[nodiscard]] Status advance_closing();
  [[nodiscard]] Status inspect();
  [[nodiscard]] Result<bool> inspect_hint();
  [[nodiscard]] bool idle() const;
  void note_message();
  [[nodiscard]] Status on_control(const Frame& frame, std::span<const Bytes> parts);
  [[nodiscard]] Status on_request(const Frame& frame);
  [[nodiscard]] Status on_hint();
  void note_data_ahead();
  void queue_control(Frame::Type type);
  [[nodiscard]] Result<bool> flush_control();
  void close_connections();
  [[nodiscard]] Status with_link(const Status& cause) const;
  Status fail(const Status& cause);
  [[nodiscard]] Status fail_sending(const Status& cause);
  [[nodiscard]] std::string path() const;

  Context& context_;
  const LinkKey key_;
  const bool dials_;  // the lower rank; for kHigherMessageChannel the higher
  State state_ = State::kOpening;
  Status error_;
  Status send_error_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connector>> connectors_;  // while this rank opens the link
  PortWatch peer_port_;                                 // while the peer is to, and nobody watches
  uint64_t last_used_turn_ = 0;
  bool event_ = false;

  // Sending: the head message.
  bool send_active_ = false;
  FrameBytes send_header_{};
  size_t send_offset_ = 0;
  size_t send_bytes_ = 0;
  uint64_t sent_count_ = 0;
  int64_t paced_from_ns_ = 0;
  size_t paced_bytes_ = 0;

  // Receiving.
  bool recv_active_ = false;
  bool head_checked_ = false;
  uint64_t received_count_ = 0;
  std::unique_ptr<std::byte[]> staging_;  // NOLINT: uninitialised on purpose, sized once
  size_t staging_bytes_ = 0;
  bool view_ready_ = false;
  size_t view_bytes_ = 0;

  // Close frames.
  std::vector<std::byte> control_;  // what has not been written: an answer, a hint before it
  bool refusal_due_ = false;        // a message crossed our request: a CloseRefuse will come
  bool hinted_ = false;             // higher rank: sent a hint, and no message has passed since
  uint32_t hint_ticks_ = 0;         // how long that counts as leaving: the peer may not look
  bool close_wanted_ = false;       // lower rank: the peer sent a hint, likewise
};

}  // namespace ho::tcp
