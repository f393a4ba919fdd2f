// HORING_PORT_RANGE: where listeners go whose port nobody has named.
#include <sys/socket.h>

#include <latch>
#include <set>
#include <thread>

#include "base/env.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "os/socket.hpp"
#include "port_block.hpp"
#include "scoped_variable.hpp"

namespace {

using ho::Fd;
using ho::SocketAddress;
using ho::test::free_ports;
using ho::test::range_text;

const SocketAddress kAnywhere = SocketAddress::any(0).back();

uint16_t port_of(const Fd& listener) {
  return ho::local_address(listener.get())->port();
}

TEST_CASE("listeners take every port of the range, and an error names it when all are in use") {
  constexpr uint16_t kPorts = 4;
  const uint16_t first = free_ports(kPorts);
  const ho::test::ScopedVariable range("HORING_PORT_RANGE", range_text(first, kPorts));
  std::vector<Fd> listeners;
  std::set<uint16_t> ports;
  for (uint16_t i = 0; i < kPorts; ++i) {
    auto listener = ho::listen_on(kAnywhere);
    REQUIRE(listener.status().message() == "");
    ports.insert(port_of(*listener));
    listeners.push_back(*std::move(listener));
  }
  CHECK(ports.size() == kPorts);
  CHECK(*ports.begin() == first);
  CHECK(*ports.rbegin() == first + kPorts - 1);
  const auto none = ho::listen_on(kAnywhere);
  CHECK(has(none.status(),
            "HORING_PORT_RANGE=" + range_text(first, kPorts) + ": all 4 ports are in use"));
  CHECK(has(none.status(), "widen the range"));
  // One that is asked for by its number is not held to it.
  CHECK(ho::reserve_port(kAnywhere).ok());
  listeners.pop_back();
  CHECK(ho::listen_on(kAnywhere).ok());
}

TEST_CASE("those who begin at once share a range that has just enough ports") {
  constexpr uint16_t kThreads = 4;
  constexpr uint16_t kEach = 4;
  const uint16_t first = free_ports(kThreads * kEach);
  const ho::test::ScopedVariable range("HORING_PORT_RANGE", range_text(first, kThreads * kEach));
  std::vector<std::vector<Fd>> listeners(kThreads);
  std::vector<ho::Status> failures(kThreads);
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (uint16_t i = 0; i < kEach; ++i) {
        auto listener = ho::listen_on(kAnywhere);
        if (!listener.ok()) {
          failures[t] = listener.status();
          return;
        }
        listeners[t].push_back(*std::move(listener));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::set<uint16_t> ports;
  for (size_t t = 0; t < kThreads; ++t) {
    CHECK(failures[t].message() == "");
    for (const Fd& listener : listeners[t]) {
      ports.insert(port_of(listener));
    }
  }
  CHECK(ports.size() == size_t{kThreads} * kEach);
}

TEST_CASE("a port that is kept for a listener to come is left to it while others are free") {
  const uint16_t first = free_ports(2);
  for (int round = 0; round < 8; ++round) {  // whichever the search begins with
    const auto kept = ho::reserve_port(SocketAddress::any(first).back());
    REQUIRE(kept.ok());
    const ho::test::ScopedVariable range("HORING_PORT_RANGE", range_text(first, 2));
    const auto listener = ho::listen_on(kAnywhere);
    REQUIRE(listener.ok());
    CHECK(port_of(*listener) == first + 1);
    CHECK(ho::listen_on(SocketAddress::any(first).back()).ok());
  }
}

TEST_CASE("connections that an earlier listener has left do not use up its port") {
  const uint16_t port = free_ports(1);
  const ho::test::ScopedVariable range("HORING_PORT_RANGE", range_text(port, 1));
  for (int round = 0; round < 2; ++round) {
    auto listener = ho::listen_on(kAnywhere);
    REQUIRE(listener.status().message() == "");
    const auto address = SocketAddress::numeric("127.0.0.1", port).value();
    const Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), address.get(), address.size_bytes()) == 0);
    auto accepted = ho::accept_from(listener->get());
    REQUIRE((accepted.ok() && accepted->has_value()));
    // The end that closes first keeps the connection for a minute.
    (*accepted)->fd.reset();
    char none = 0;
    REQUIRE(::recv(client.get(), &none, 1, 0) == 0);
  }
}

TEST_CASE("one port is found for both families") {
  if (!ho::reserve_port(SocketAddress::numeric("::1", 0).value()).ok()) {
    WARN("skipped: no IPv6 here");
    return;
  }
  const uint16_t first = free_ports(2);
  const auto any = SocketAddress::any(0);
  const auto in_the_way = ho::listen_on(SocketAddress::any(first).front(), ho::Families::kOwn);
  REQUIRE(in_the_way.ok());
  const ho::test::ScopedVariable range("HORING_PORT_RANGE", range_text(first, 2));
  const auto both = ho::listen_at_one_port(any, ho::Families::kOwn);
  REQUIRE(both.status().message() == "");
  CHECK(port_of((*both)[0]) == first + 1);
  CHECK(port_of((*both)[1]) == first + 1);
}

TEST_CASE("what is no range of ports is refused by name") {
  for (const char* value : {"30000",
                            "30000-",
                            "-30000",
                            "30100-30000",
                            "0-10",
                            "65000-65536",
                            "a-b",
                            "30000-30100-30200",
                            "30000 - 30100",
                            "1-2,5-6"}) {
    const ho::test::ScopedVariable range("HORING_PORT_RANGE", value);
    CHECK(has(ho::listen_on(kAnywhere).status(),
              "HORING_PORT_RANGE=" + std::string(value) + ": takes FIRST-LAST"));
    CHECK(has(ho::env::check_numbers(), "HORING_PORT_RANGE="));
    CHECK_FALSE(ho::env::check_value(ho::env::kPortRange).ok());
  }
  const ho::test::ScopedVariable range("HORING_PORT_RANGE", "30000-30100");
  CHECK(ho::env::check_numbers().ok());
}

}  // namespace
