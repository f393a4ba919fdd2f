// A place to meet on loopback, for tests: its port is this test's while the object lives, so that
// nobody takes it before rank 0 listens there. Nobody listens there until then.
#pragma once

#include <cstdint>
#include <string>

#include "os/socket.hpp"

namespace ho::test {

class ReservedPort {
 public:
  ReservedPort() : held_(reserve_port(SocketAddress::numeric("127.0.0.1", 0).value()).value()) {}

  [[nodiscard]] uint16_t port() const { return local_address(held_.get())->port(); }
  [[nodiscard]] std::string text() const { return "tcp://127.0.0.1:" + std::to_string(port()); }

 private:
  Fd held_;
};

}  // namespace ho::test
