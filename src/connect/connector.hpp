// Opens one connection: connects from an interface, tries again with growing pauses while the peer
// is not there yet, then proves the key and says in a claim what the connection is for. Never
// blocks: its owner calls step() when the socket has an edge and at next_deadline_ns(), or again
// and again where there is no poller. One thread at a time.
//
// Hosts with several interfaces on one subnet may answer on another one than the connection is
// bound to, and such answers are lost. So where nothing answers for a while, or no route leads out
// of the interface, the connection is tried from the interface's address alone, and routing chooses
// the interface.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "connect/handshake_io.hpp"
#include "connect/rail_interface.hpp"
#include "connect/socket.hpp"
#include "os/socket.hpp"

namespace ho {

class Connector {
 public:
  struct Options {
    std::string name;  // whose connection this is, for messages: "rank 3, rail 0", "device eth0"
    SocketAddress to;
    RailInterface from;
    std::string purpose;  // of the handshake
    std::shared_ptr<const JobKey> key;
    // What this end says of itself, asked for once the connection stands.
    std::function<std::vector<std::byte>()> claim;
    int64_t deadline_ns = kNeverNs;
    // A peer that is reached but busy elsewhere answers when it looks: the deadline is for reaching
    // its host and port only.
    bool peer_may_be_busy = false;
    bool keeps_interface = false;  // never leaves it, as said above
    bool once = false;             // whatever fails is an error, nothing is tried again
    // At an address that may not be used without a key: lets the peer know who would have come, and
    // hears what it says to that. Goes no further whatever the answer is.
    bool asks_where_barred = false;
    Watch watch;  // sets the flags of the socket
  };

  explicit Connector(Options options);

  // The connection, ready for messages; null: not yet. Errors are final. kTimeout: the deadline has
  // passed, and what was wrong last; kConnection: the peer cannot be reached. All others, from this
  // host or the handshake, say it all.
  [[nodiscard]] Result<std::unique_ptr<Socket>> step(int64_t now_ns);
  // When to call step() at the latest.
  [[nodiscard]] int64_t next_deadline_ns() const;
  // Whether the last connection was taken, also if it ended before the peer had proven itself.
  [[nodiscard]] bool was_taken() const { return was_taken_; }
  // Whether the peer's host has said that nobody listens there.
  [[nodiscard]] bool was_refused() const { return was_refused_; }
  // For owners that sleep in poll(2), while there is a connection under way.
  [[nodiscard]] pollfd waits_for() const;

 private:
  enum class State : uint8_t { kPausing, kConnecting, kHandshaking };

  [[nodiscard]] Status open(int64_t now_ns);
  [[nodiscard]] Status finish_connect(int64_t now_ns);
  [[nodiscard]] Status connect_failed(int error, int64_t now_ns);
  [[nodiscard]] bool has_result() const;
  [[nodiscard]] Result<bool> run_handshake(int64_t now_ns);
  [[nodiscard]] Status retry(std::string reason, int64_t now_ns);
  void leave_interface(const std::string& reason);
  [[nodiscard]] bool may_go_on(int64_t now_ns) const;

  Options options_;
  Status barred_;  // not ok: the address may not be used without a key
  State state_ = State::kPausing;
  std::string last_reason_ = "no answer";
  int64_t retry_at_ns_ = 0;
  int64_t pause_ns_;
  int64_t dialled_at_ns_ = 0;
  bool was_taken_ = false;
  bool was_refused_ = false;
  uint32_t lost_handshakes_ = 0;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Handshake> handshake_;
};

}  // namespace ho
