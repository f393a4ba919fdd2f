// One link over active messages.
//
// UCX buffers what arrives before it is asked for, without bound. So a link has a bound: at most
// kMaxUnderWay are on their way or waiting at the receiver. The count of consumed messages
// travels back with the other direction's messages, or alone when there are none. Small payloads
// arrive with the message and are read where UCX put them; larger ones are announced and fetched
// straight into their destination (rendezvous), so this bounds the memory too.
//
// UCX does not promise that small and large messages arrive in the order they were sent; the
// envelope's index restores it.
#pragma once

#include <ucp/api/ucp.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/envelope.hpp"
#include "transport/ucx/worker.hpp"

namespace ho::ucx {

inline constexpr unsigned kMessageId = 7;
inline constexpr uint32_t kMaxUnderWay = 32;
inline constexpr size_t kEagerBytes = 8192;

// What a link is and proves.
struct LinkIdentity {
  LinkKey key;
  GlobalRank self;
  Token send_token{};
  Token receive_token{};
};

class UcxLink final : public Link {
 public:
  UcxLink(Worker& worker, const LinkIdentity& identity);
  ~UcxLink() override;
  UcxLink(const UcxLink&) = delete;
  UcxLink& operator=(const UcxLink&) = delete;

  [[nodiscard]] Result<bool> try_send(const Frame& frame,
                                      std::span<const ConstBytes> payload) override;
  [[nodiscard]] uint64_t released() override;
  [[nodiscard]] Result<bool> try_recv(const Frame& expected, std::span<const Bytes> parts) override;
  [[nodiscard]] Result<std::optional<Frame>> try_peek(bool awaited) override;
  [[nodiscard]] Result<ConstBytes> try_view(const Frame& expected) override;
  void release_view() override;
  [[nodiscard]] std::string to_string() const override;

  // For the transport.
  void connect(Peer* peer) { peer_ = peer; }
  [[nodiscard]] bool connected() const { return peer_ != nullptr; }
  [[nodiscard]] bool accepts(const Token& token) const {
    return equal_secrets(token, identity_.receive_token);
  }
  // A message whose token was accepted. Returns what the UCX handler shall.
  [[nodiscard]] ucs_status_t deliver(const Envelope& envelope,
                                     ConstBytes data,
                                     const ucp_am_recv_param_t& param);
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  struct Outgoing {
    EnvelopeBytes header{};
    std::vector<ucp_dt_iov_t> parts;
    Request request;
    bool is_message = true;
  };
  struct Arrival {
    FrameBytes frame{};
    ConstBytes data;             // what UCX holds for us, or `copy`; of a rendezvous only the size
    void* descriptor = nullptr;  // to be released or fetched
    bool rendezvous = false;
    std::vector<std::byte> copy;
  };

  [[nodiscard]] Status check_usable();
  [[nodiscard]] Result<bool> head_matches(const Frame& expected);
  [[nodiscard]] Result<bool> fetch(std::span<const Bytes> parts);
  void start_fetch(std::span<const Bytes> parts);
  [[nodiscard]] Status finish_head();
  [[nodiscard]] Status post(Outgoing& outgoing, Envelope envelope, size_t payload_bytes);
  [[nodiscard]] Status return_credit();
  [[nodiscard]] Status take_acknowledged(uint32_t consumed);
  void drop(Arrival& arrival);
  Status fail(const Status& cause);
  ucs_status_t violation(const std::string& text);

  Worker& worker_;
  const LinkIdentity identity_;
  Peer* peer_ = nullptr;  // nullptr: this rank has not asked for the link yet
  Status error_;

  std::deque<Outgoing> outgoing_;  // front is the oldest that is not complete
  uint32_t sent_ = 0;
  uint32_t acknowledged_ = 0;
  uint64_t released_ = 0;

  std::map<uint32_t, Arrival> arrivals_;  // by index
  uint32_t received_ = 0;
  uint32_t announced_ = 0;  // of received_, what has been reported to the peer
  bool head_checked_ = false;
  bool fetching_ = false;
  Request fetch_;
  std::vector<ucp_dt_iov_t> fetch_parts_;
  std::vector<std::byte> staging_;
  ConstBytes view_;
};

}  // namespace ho::ucx
