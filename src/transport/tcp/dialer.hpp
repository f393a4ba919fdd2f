// Opens one connection of a link: connects from the rail's interface, tries again with growing
// pauses while the peer is not there yet, then proves the key and claims the link.
//
// Hosts with several interfaces on one subnet may answer on another one than the connection is
// bound to, and such answers are lost. So where nothing answers for a while the connection is tried
// from the rail's address alone, and routing chooses the interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/transport.hpp"

namespace ho::tcp {

class Dialer {
 public:
  Dialer(Context& context, const LinkKey& key, uint8_t stream, TcpLink* owner);

  // The connection, ready for messages; nullptr: not yet. An error is final: refused by the peer,
  // or not reached within options.connect_timeout.
  //
  // Only reaching the peer's host and port is bounded here. A peer that is reached but busy
  // elsewhere answers when it next drives its transport; the operation's deadline covers that.
  [[nodiscard]] Result<std::unique_ptr<Socket>> step();

 private:
  enum class State : uint8_t { kPausing, kConnecting, kHandshaking };

  [[nodiscard]] Status start();
  [[nodiscard]] Status finish_connect(int64_t now);
  [[nodiscard]] Status await_answer(int64_t now);
  [[nodiscard]] Status run_handshake();
  [[nodiscard]] Status retry(const std::string& reason);
  [[nodiscard]] Status unreachable(const std::string& reason) const;

  Context& context_;
  LinkKey key_;
  uint8_t stream_;
  TcpLink* owner_;
  State state_ = State::kPausing;
  int64_t retry_at_ns_ = 0;
  int64_t pause_ns_;
  int64_t deadline_ns_;
  bool bound_ = true;  // to the rail's interface
  int64_t dialled_at_ns_ = 0;
  uint32_t lost_handshakes_ = 0;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Handshake> handshake_;
  bool ready_ = false;
};

}  // namespace ho::tcp
