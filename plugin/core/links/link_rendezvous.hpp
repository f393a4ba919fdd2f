// A comm over a link in the making. Neither end blocks: step() is called until there is a comm or
// an error. On the TCP connection on which both have proved what they have to prove, the connecting
// end says where all its devices can be reached, and a secret of this comm. The accepting end opens
// the link, and says over it where its own devices can be reached.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "connect/rail_interface.hpp"
#include "core/carried/side_connection.hpp"
#include "core/driver/handle_secret.hpp"
#include "core/links/link_comm.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::plugin {

struct LinkEnd {
  std::string device;
  std::vector<RailInterface> rails;  // all devices, the comm's own first
  std::shared_ptr<const JobKey> job;
  FailoverOptions failover;
  uint32_t connections = 1;
  std::chrono::milliseconds timeout{60000};
};

// What the connecting end says.
struct LinkHandshake {
  uint8_t connections = 1;
  HandleSecret secret{};
  TcpEndpoint endpoint;
};
inline constexpr size_t kMaxLinkRails = 64;
inline constexpr size_t kMaxLinkHandshakeBytes = 8192;
[[nodiscard]] std::vector<std::byte> encode(const LinkHandshake& handshake);
[[nodiscard]] Result<LinkHandshake> decode_link_handshake(std::span<const std::byte> bytes);

// What both ends have.
class LinkHandshaking {
 protected:
  LinkHandshaking(const LinkEnd& end, SideConnection line);
  // The transport of the end with that rank.
  [[nodiscard]] Status listen(const LinkEnd& end, const LinkHandshake& handshake, uint32_t rank);
  [[nodiscard]] Status open_link(uint32_t peer);
  [[nodiscard]] Result<bool> ready(const Result<bool>& advanced) const;
  [[nodiscard]] LinkConnection take();

  LinkEnd end_;
  SideConnection line_;
  int64_t deadline_ns_;
  std::unique_ptr<TcpTransport> transport_;
  Link* link_ = nullptr;
};

class LinkCall : LinkHandshaking {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LinkCall>> start(const LinkEnd& end,
                                                               SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<LinkSendComm>> step();

 private:
  using LinkHandshaking::LinkHandshaking;
  [[nodiscard]] Result<bool> advance();
  [[nodiscard]] Result<bool> hear_endpoint();

  std::vector<std::byte> sent_;
  bool is_sent_ = false;
  std::optional<Frame> endpoint_;
  std::vector<std::byte> received_;
  int64_t left_ns_ = 0;  // 0: the other end is there
};

class LinkAnswer : LinkHandshaking {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LinkAnswer>> start(const LinkEnd& end,
                                                                 SideConnection line);
  [[nodiscard]] Result<std::unique_ptr<LinkRecvComm>> step();

 private:
  using LinkHandshaking::LinkHandshaking;
  [[nodiscard]] Result<bool> advance();

  std::vector<std::byte> received_;
  std::vector<std::byte> endpoint_;
};

}  // namespace ho::plugin
