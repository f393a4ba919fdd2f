// The two ends of a comm whose data a link of libhoring's tcp transport moves, which goes on over
// another device when its own is lost. Their protocol is that of the builtin network: the receiver
// announces buffers, the sender takes them, so that nothing arrives before its place is known.
//
// One thread at a time calls a comm; progress is made inside those calls. Between them the process'
// LinkService makes progress: the link answers, and a peer that has gone is found.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "core/builtin/posted_receives.hpp"
#include "core/builtin/records.hpp"
#include "core/builtin/recv_comm.hpp"
#include "core/carried/carried_comm.hpp"
#include "core/driver/reply.hpp"
#include "core/links/link_messages.hpp"
#include "transport/link_service.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::plugin {

class LinkComm;

struct LinkRequest : BasicRequest<LinkComm> {
  struct Message {
    RecvComm::Buffer buffer;
    bool started = false;  // of a receive
    uint8_t halvings = 0;  // of its pieces, once started
    uint64_t pieces = 0;   // sent, or here
    uint64_t sent_as = 0;  // of a send, once all of it was accepted: how many pieces that makes
  };
  uint64_t sequence = 0;  // of the receives
  uint8_t slot = 0;       // of the send, in its group
  std::array<Message, kMaxReceives> messages;
};

// Two ends that have met.
struct LinkConnection {
  std::string device;
  std::string peer;
  std::unique_ptr<TcpTransport> transport;
  Link* link = nullptr;  // the transport's
};

class LinkComm : public CarriedComm<LinkComm, LinkRequest> {
 public:
  LinkComm(const LinkComm&) = delete;
  LinkComm& operator=(const LinkComm&) = delete;
  // Says that this end closes. What was reported as sent arrives, if the peer's host takes it in
  // time; where requests are left behind nothing is waited for.
  ~LinkComm() override;

  [[nodiscard]] Reply test(LinkRequest& request, int32_t* done, int32_t* sizes);
  // NetDriver's.
  void promise_order();
  [[nodiscard]] int progress_fd();
  [[nodiscard]] bool has_pending();
  void look();
  // The peer's process has ended or given up, without having said that it closes. Any thread.
  [[nodiscard]] bool peer_is_lost() const { return lost_.load(std::memory_order_acquire); }
  [[nodiscard]] const std::string& peer() const { return connection_.peer; }
  [[nodiscard]] uint64_t failovers();

 protected:
  // Bytes that one call moves at most, so that it ends.
  static constexpr size_t kTurnBytes = size_t{4} << 20U;

  explicit LinkComm(LinkConnection connection);

  // All these with the mutex held.
  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  [[nodiscard]] Link& link() const { return *connection_.link; }
  [[nodiscard]] virtual Status advance() = 0;
  // A message that is here, of another kind than kLeaving: where its payload goes.
  [[nodiscard]] virtual Result<Bytes> destination_of(LinkMessage kind, const Frame& frame) = 0;
  // A message is waited for.
  [[nodiscard]] virtual bool awaits() const { return active() > 0; }
  // It waits in the link for its receive, which announces nothing.
  [[nodiscard]] virtual bool is_early(const Frame& /*frame*/) const { return false; }
  // All of it is there.
  [[nodiscard]] virtual Status take(LinkMessage kind, const Frame& frame) = 0;
  void progress();
  void progress_unless_watched() override;
  // After something was begun: moves it, or leaves it to look() where there is a caller that looks.
  void progress_or_leave();
  // Takes the messages that are here.
  [[nodiscard]] Status receive();
  // Last in a derived class's constructor, and first in its destructor: LinkService calls between.
  void serve_from_now() {
    service_ = std::make_unique<LinkService::Member>(LinkService::of_process(),
                                                     [this] { return serve(); });
  }
  void end_service() { service_.reset(); }
  void note_more() { more_ = true; }
  void await_nothing() { connection_.transport->await_nothing(); }
  [[nodiscard]] bool peer_leaves() const { return peer_leaves_; }
  [[nodiscard]] bool ordered() const { return ordered_; }
  // An error of the calls, not of the link.
  [[nodiscard]] Status wrong(StatusCode code, const std::string& what) const;

 private:
  struct Head {
    Frame frame;
    LinkMessage kind{};
    Bytes to;
  };

  [[nodiscard]] std::string origin_text() const override { return "device " + connection_.device; }
  void set_ends(WatchedConnection& into) const override {
    into.device = connection_.device;
    into.peer = connection_.peer;
  }
  void on_failure() override;
  // LinkService's; true: again soon.
  [[nodiscard]] bool serve();
  // The header of the message that is here; the peer's word that it closes is taken.
  [[nodiscard]] Result<std::optional<Frame>> peek(bool awaited);
  [[nodiscard]] Result<bool> begin_head();
  void say_leaving(Deadline deadline);

  std::mutex mutex_;
  LinkConnection connection_;
  std::optional<Head> head_;  // being received
  bool peer_leaves_ = false;  // it has said so
  std::atomic<bool> lost_{false};
  bool ordered_ = false;  // both ends have promised it
  bool watched_ = false;  // progress_fd() has been asked for
  bool more_ = false;     // though no descriptor will say so
  bool served_ = false;   // it is LinkService that calls
  std::unique_ptr<LinkService::Member> service_;
};

class LinkSendComm final : public LinkComm {
 public:
  explicit LinkSendComm(LinkConnection connection) : LinkComm(std::move(connection)) {
    serve_from_now();
  }
  LinkSendComm(const LinkSendComm&) = delete;
  LinkSendComm& operator=(const LinkSendComm&) = delete;
  ~LinkSendComm() override { end_service(); }
  // A null request: no buffer with that tag yet, or kMaxRequests are under way.
  [[nodiscard]] Reply isend(std::span<const std::byte> data, int32_t tag, LinkRequest** request);

 private:
  [[nodiscard]] Status advance() override;
  [[nodiscard]] Result<Bytes> destination_of(LinkMessage kind, const Frame& frame) override;
  [[nodiscard]] Status take(LinkMessage kind, const Frame& frame) override;
  [[nodiscard]] Result<bool> is_done(LinkRequest& request, uint32_t message) override;
  [[nodiscard]] std::optional<PostedReceives::Slot> take_slot(int32_t tag);
  [[nodiscard]] Status write();

  PostedReceives posted_;       // of what is not ordered()
  uint64_t next_sequence_ = 1;  // of what is
  std::array<std::byte, kMaxCreditBytes> credit_{};
  std::array<LinkRequest, kMaxRequests> requests_;
  // Those that are not all written yet, oldest first: a ring.
  std::array<LinkRequest*, kMaxRequests> queue_{};
  size_t queue_begin_ = 0;
  size_t queued_ = 0;
  uint64_t accepted_ = 0;  // pieces
};

class LinkRecvComm final : public LinkComm {
 public:
  explicit LinkRecvComm(LinkConnection connection) : LinkComm(std::move(connection)) {
    serve_from_now();
  }
  LinkRecvComm(const LinkRecvComm&) = delete;
  LinkRecvComm& operator=(const LinkRecvComm&) = delete;
  ~LinkRecvComm() override { end_service(); }
  // 1 to kMaxReceives buffers. A null request: kMaxRequests are under way.
  [[nodiscard]] Reply irecv(std::span<const RecvComm::Buffer> buffers, LinkRequest** request);

 private:
  [[nodiscard]] Status advance() override;
  [[nodiscard]] Result<Bytes> destination_of(LinkMessage kind, const Frame& frame) override;
  [[nodiscard]] bool awaits() const override { return missing_ > 0; }
  [[nodiscard]] bool is_early(const Frame& frame) const override;
  [[nodiscard]] Status take(LinkMessage kind, const Frame& frame) override;
  [[nodiscard]] Result<bool> is_done(LinkRequest& request, uint32_t message) override;
  [[nodiscard]] Status announce();
  [[nodiscard]] bool waits_long() const;
  [[nodiscard]] LinkRequest* find(uint32_t sequence);

  std::array<LinkRequest, kMaxRequests> requests_;
  uint64_t next_sequence_ = 1;
  uint64_t announced_ = 0;
  size_t missing_ = 0;         // messages, of all requests
  int64_t idle_since_ns_ = 0;  // none is
  int64_t was_idle_ns_ = 0;    // for so long, before that
  // Of the longest message since the comm was idle, and before.
  uint64_t longest_bytes_ = 0;
  uint64_t were_longest_bytes_ = 0;
  // Of receive announced_ + 1, while it is being sent.
  std::array<std::byte, kMaxCreditBytes> credit_{};
  size_t credit_bytes_ = 0;
};

}  // namespace ho::plugin
