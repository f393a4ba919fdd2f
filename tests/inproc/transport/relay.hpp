// Stands between ranks: connections to its port go on to a rank's, until the script cuts them.
// Driven by the test's own thread, so that a run is the same every time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/fd.hpp"
#include "os/socket.hpp"

namespace ho::conformance {

class Relay {
 public:
  // What is let through of a connection, in either direction; then both its ends are closed.
  struct Cut {
    uint64_t to_listener = UINT64_MAX;
    uint64_t to_dialler = UINT64_MAX;
    bool reset = false;  // else closed as by a process that ends
  };
  // Of the n-th connection that comes, from 0.
  using Script = std::function<Cut(size_t n)>;

  // At one port of every address in `hosts`; each connection goes on to that address' `port`.
  Relay(const std::vector<std::string>& hosts, uint16_t port, Script script);

  [[nodiscard]] uint16_t port() const { return port_; }
  // Connections to those hosts are not taken, and those there are carry nothing more.
  void block(const std::vector<std::string>& hosts) { blocked_ = hosts; }
  // Nobody listens there any more: its host refuses connections.
  void refuse(const std::string& host);
  void step();
  [[nodiscard]] bool blocks(const std::string& host) const;
  // Every connection that there is.
  void cut_all();
  [[nodiscard]] size_t connections() const { return pipes_.size(); }
  [[nodiscard]] size_t cuts() const { return cuts_; }
  // Bytes that went through the n-th connection.
  [[nodiscard]] uint64_t to_listener(size_t n) const { return pipes_.at(n)->ways[0].passed; }
  [[nodiscard]] uint64_t to_dialler(size_t n) const { return pipes_.at(n)->ways[1].passed; }
  // Of what a rank has written to `fd`, one end of a connection through here, what the other rank's
  // host has not got. Nothing: it does not go through here.
  [[nodiscard]] std::optional<uint64_t> count_unacknowledged(int fd) const;

 private:
  struct Way {
    std::vector<std::byte> held;
    uint64_t passed = 0;
    uint64_t limit = 0;
    bool ended = false;
  };
  struct Pipe {
    Fd dialler;
    Fd listener;
    uint16_t dialler_port = 0;   // of the rank's own end
    uint16_t listener_port = 0;  // of the end here
    std::string host;
    std::array<Way, 2> ways;  // to the listener, to the dialler
    bool reset = false;
    bool dead = false;
  };

  void accept_all();
  // false: it is over.
  [[nodiscard]] bool forward(const Fd& from, const Fd& to, Way& way);
  void cut(Pipe& pipe);
  [[nodiscard]] static uint64_t on_the_way(const Fd& from, const Fd& to, const Way& way);

  std::vector<Fd> listeners_;
  std::vector<std::string> hosts_;
  uint16_t port_ = 0;
  uint16_t target_;
  Script script_;
  std::vector<std::string> blocked_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  size_t cuts_ = 0;
};

}  // namespace ho::conformance
