// Whether a peer's process is there, and over which of its host's addresses, while the control
// connection to it is lost or silent. Connects to where it listens and sends nothing: kernels
// answer, also for a process that is stopped. Its owner calls step() every kStep. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "connect/answers.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/pause_watch.hpp"
#include "os/socket.hpp"

namespace ho {

// How a control connection outlives its path. All ranks or none.
struct ControlFailover {
  // HORING_FAILOVER and what begins so.
  [[nodiscard]] static Result<ControlFailover> from_environment();

  bool on = false;
  std::chrono::milliseconds silence{1000};  // of a connection, after which it is lost
  // Of a host on all paths, after which that is logged, and after which it is not waited for any
  // more: once each path has been tried, and not counting time in which this process did not run.
  std::chrono::milliseconds notice{3000};
  std::chrono::milliseconds wait{30000};
};

// Where this process can be found: a port of all its addresses.
struct ListeningAt {
  [[nodiscard]] static Result<ListeningAt> open();
  Fd listener;  // its owner's CloseOnFork has it: a child that listens would stand for the process
  wire::Addresses addresses;
  std::vector<SocketAddress> own;  // the same
};

// Those who lost one peer at the same time come back to it at different times.
class Jitter {
 public:
  // Between a half and the whole of a pause that doubles, so many times in a row now, up to
  // 64-fold.
  [[nodiscard]] int64_t pause_ns(int64_t first_ns, uint32_t in_a_row = 0) {
    constexpr uint32_t kMaxDoublings = 6;
    const int64_t whole_ns = first_ns << std::min(in_a_row, kMaxDoublings);
    return std::uniform_int_distribution<int64_t>(whole_ns / 2, whole_ns)(random_);
  }

 private:
  std::minstd_rand random_{std::random_device{}()};
};

// The peer's kernel is asked whether it is there after each second without a word.
void ask_often(int fd);

class PeerPaths {
 public:
  static constexpr std::chrono::milliseconds kStep{10};
  // Between two looks at a connection.
  [[nodiscard]] static std::chrono::milliseconds look_every(const ControlFailover& options) {
    return options.silence / 4;
  }

  // `name`: the peer's, for messages. `own`: addresses of this host, which lead to no other one.
  PeerPaths(const ControlFailover& options,
            std::string name,
            const wire::Addresses& addresses,
            const std::vector<SocketAddress>& own);

  // The connection to the peer at `seen` is lost or silent; its host answered then for the last
  // time. Where nobody listens at that address any more, the process is gone: other addresses may
  // lead to other hosts.
  void begin(const SocketAddress& seen, int64_t answered_ns, int64_t now_ns);
  [[nodiscard]] bool begun() const { return begun_ns_ != 0; }
  void end();
  // Another process of the peer's host has a connection over this address: it leads to that host.
  // Where nobody listens there and the peer has not come back in `notice` since begin(), its
  // process is gone.
  void proves_host(const SocketAddress& address);
  enum class Found : uint8_t { kNothing, kAnswer, kNobodyListens, kTooLate };
  // kAnswer: some path answers now. kTooLate: none has for as long as it is waited for, and each
  // has been tried.
  [[nodiscard]] Found step(int64_t now_ns);
  // An address that answers, the `from`-th or one behind it. One at which somebody else answered
  // comes last.
  [[nodiscard]] std::optional<SocketAddress> answering(size_t from) const;
  // Who answers there is not the peer: that does not count as an answer any more. Whether that is
  // news.
  bool note_other(const SocketAddress& address);
  // Whether a path was refused the last time.
  [[nodiscard]] bool refused() const {
    return std::ranges::any_of(paths_, [](const Path& path) { return path.refused; });
  }
  // How long no path has answered.
  [[nodiscard]] std::chrono::milliseconds silent_for(int64_t now_ns) const;
  // That, and what happened on which path, as what follows "the host of rank 5 ".
  [[nodiscard]] std::string how_silent(int64_t now_ns) const;

 private:
  struct Path {
    SocketAddress address;
    bool seen = false;
    bool proven = false;  // leads to the peer's host, as another process of it shows
    bool other = false;   // not the peer answers there
    Fd fd{};              // connected, or about to be
    bool answers = false;
    bool tried = false;    // in vain, since the connection was lost or this process went on
    bool refused = false;  // the last time: nobody listens there
    uint32_t ends = 0;     // of connections that were taken
    int64_t due_ns = 0;    // to connect again, or to be given up
    int64_t look_ns = 0;
    tcp::AnswerWatch watch{};
  };
  // Whether nobody listens there.
  [[nodiscard]] bool step(Path& path, int64_t now_ns);
  [[nodiscard]] bool ended(Path& path, int64_t now_ns, int error);
  [[nodiscard]] bool still_answers(Path& path, int64_t now_ns) const;
  void note_pause(int64_t now_ns);

  ControlFailover options_;
  std::string name_;
  uint16_t port_;
  std::vector<Path> paths_;
  int64_t begun_ns_ = 0;
  int64_t answered_ns_ = 0;
  bool noticed_ = false;
  PauseWatch pauses_;
  Jitter jitter_;
};

}  // namespace ho
