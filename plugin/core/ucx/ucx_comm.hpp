// The two ends of a comm whose data UCX moves. Their protocol is that of the builtin network: the
// receiver announces buffers, the sender takes them, so that nothing arrives before its place is
// known. Both are UCX's tagged messages, and no tag is used twice. The TCP connection on which the
// two ends found each other stays open: when it ends, the peer is gone.
//
// One thread at a time calls a comm; progress is made inside those calls.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/builtin/posted_receives.hpp"
#include "core/builtin/records.hpp"
#include "core/builtin/recv_comm.hpp"
#include "core/carried/carried_comm.hpp"
#include "core/carried/side_connection.hpp"
#include "core/driver/reply.hpp"
#include "transport/ucx/worker.hpp"

namespace ho::plugin {

class UcxComm;

struct UcxRequest : BasicRequest<UcxComm> {
  std::array<ho::ucx::Request, kMaxReceives> messages;
};

// Two ends that have met.
struct UcxConnections {
  std::string device;
  std::unique_ptr<ho::ucx::Worker> worker;
  std::unique_ptr<ho::ucx::Peer> peer;
  SideConnection line;
  uint32_t secret = 0;  // of all tags: what was sent on other comms fits nowhere
};

// Of messages that are no data; data has sequence 1 and more.
inline constexpr uint64_t kCreditTag = 0;
inline constexpr uint64_t kHandshakeTag = 1;
[[nodiscard]] ucp_tag_t ucx_tag(uint32_t secret, uint64_t number);

class UcxComm : public CarriedComm<UcxComm, UcxRequest> {
 public:
  // NetDriver's.
  [[nodiscard]] int progress_fd() const { return connections_.worker->event_fd(); }
  [[nodiscard]] bool has_pending() { return !failed() && !connections_.worker->arm(); }
  void look() { progress(); }

 protected:
  explicit UcxComm(UcxConnections connections) : connections_(std::move(connections)) {}

  // What arrived besides requests.
  [[nodiscard]] virtual Status advance() = 0;

  void progress();
  [[nodiscard]] Status lost(ucs_status_t status) const;
  [[nodiscard]] const UcxConnections& connections() const { return connections_; }
  [[nodiscard]] ho::ucx::Request send(uint64_t number, std::span<const std::byte> data);
  // The same, which ends once the peer has received it.
  [[nodiscard]] ho::ucx::Request deliver(uint64_t number, std::span<const std::byte> data);
  [[nodiscard]] ho::ucx::Request receive(uint64_t number, std::span<std::byte> into);
  // Before a derived class's requests go: nothing reads or writes their memory any more.
  void close(std::chrono::milliseconds flush_limit);

 private:
  void progress_unless_watched() override { progress(); }
  void release(UcxRequest& request) override;
  [[nodiscard]] std::string origin_text() const override;
  void set_ends(WatchedConnection& into) const override {
    into.device = connections_.device;
    into.peer = connections_.line.peer();
  }
  [[nodiscard]] Status check_peer();

  UcxConnections connections_;
  int64_t next_check_ns_ = 0;
  int64_t peer_left_ns_ = 0;  // 0: it is there
};

class UcxSendComm final : public UcxComm {
 public:
  explicit UcxSendComm(UcxConnections connections);
  UcxSendComm(const UcxSendComm&) = delete;
  UcxSendComm& operator=(const UcxSendComm&) = delete;
  // What was reported as sent has arrived.
  ~UcxSendComm() override { close(std::chrono::milliseconds(0)); }
  // A null request: no buffer with that tag yet, or kMaxRequests are under way.
  [[nodiscard]] Reply isend(std::span<const std::byte> data, int32_t tag, UcxRequest** request);

 private:
  struct Announced {
    std::array<std::byte, kMaxCreditBytes> bytes{};
    ho::ucx::Request request;
  };
  [[nodiscard]] Status advance() override;
  [[nodiscard]] Result<bool> is_done(UcxRequest& request, uint32_t message) override;
  void expect_credit(Announced& announced);

  PostedReceives book_;
  std::array<Announced, kMaxRequests> credits_;  // they arrive in order
  size_t next_credit_ = 0;
  std::array<UcxRequest, kMaxRequests> requests_;
  ho::ucx::Request too_long_;
};

class UcxRecvComm final : public UcxComm {
 public:
  explicit UcxRecvComm(UcxConnections connections) : UcxComm(std::move(connections)) {}
  UcxRecvComm(const UcxRecvComm&) = delete;
  UcxRecvComm& operator=(const UcxRecvComm&) = delete;
  // The sender waits for the acknowledgements of what arrived. A peer that is closing too may not
  // receive them any more.
  ~UcxRecvComm() override { close(std::chrono::milliseconds(100)); }
  // 1 to kMaxReceives buffers. A null request: kMaxRequests are under way.
  [[nodiscard]] Reply irecv(std::span<const RecvComm::Buffer> buffers, UcxRequest** request);

 private:
  struct Receives : UcxRequest {
    std::array<std::byte, kMaxCreditBytes> announcement{};
    ho::ucx::Request announced;
    std::array<uint64_t, kMaxReceives> capacities{};
  };
  [[nodiscard]] Status advance() override { return {}; }
  [[nodiscard]] Result<bool> is_done(UcxRequest& request, uint32_t message) override;

  uint64_t next_sequence_ = 1;
  std::array<Receives, kMaxRequests> requests_;
};

}  // namespace ho::plugin
