// Whether a peer's process is there, and over which of its host's addresses, while the control
// connection to it is lost or silent. Connects to where it listens and sends nothing: kernels
// answer, also for a process that is stopped. Its owner calls step() every kStep. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/messages/wire.hpp"
#include "connect/answers.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "os/socket.hpp"

namespace ho {

// How a control connection outlives its path. All ranks or none.
struct ControlFailover {
  // HORING_FAILOVER and what begins so.
  [[nodiscard]] static Result<ControlFailover> from_environment();

  bool on = false;
  std::chrono::milliseconds silence{1000};  // of a connection, after which it is lost
  std::chrono::milliseconds notice{3000};   // of a host on all paths, after which that is logged
  std::chrono::milliseconds wait{30000};    // and after which it is not waited for any more
};

// Where this process can be found: a port of all its addresses.
struct ListeningAt {
  [[nodiscard]] static Result<ListeningAt> open();
  Fd listener;
  wire::Addresses addresses;
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

  // `name`: the peer's, for messages.
  PeerPaths(const ControlFailover& options, std::string name, const wire::Addresses& addresses);

  // The connection to the peer at `seen` is lost or silent; its host answered then for the last
  // time. Where nobody listens at that address any more, the process is gone: other addresses may
  // lead to other hosts.
  void begin(const SocketAddress& seen, int64_t answered_ns);
  [[nodiscard]] bool begun() const { return begun_ns_ != 0; }
  void end();
  enum class Found : uint8_t { kNothing, kAnswer, kNobodyListens, kTooLate };
  // kAnswer: some path answers now. kTooLate: none has for as long as it is waited for.
  [[nodiscard]] Found step(int64_t now_ns);
  // An address that answers, the `from`-th or one behind it.
  [[nodiscard]] std::optional<SocketAddress> answering(size_t from) const;
  // How long no path has answered.
  [[nodiscard]] std::chrono::milliseconds silent_for(int64_t now_ns) const;

 private:
  struct Path {
    SocketAddress address;
    bool seen = false;
    Fd fd{};  // connected, or about to be
    bool answers = false;
    int64_t due_ns = 0;  // to connect again, or to be given up
    int64_t look_ns = 0;
    tcp::AnswerWatch watch{};
  };
  // Whether nobody listens there.
  [[nodiscard]] bool step(Path& path, int64_t now_ns) const;
  [[nodiscard]] bool ended(Path& path, int64_t now_ns, int error) const;
  [[nodiscard]] bool still_answers(Path& path, int64_t now_ns) const;

  ControlFailover options_;
  std::string name_;
  uint16_t port_;
  std::vector<Path> paths_;
  int64_t begun_ns_ = 0;
  int64_t answered_ns_ = 0;
  bool noticed_ = false;
};

}  // namespace ho
