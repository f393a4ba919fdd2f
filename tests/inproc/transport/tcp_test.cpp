// The conformance suite over TCP in its configurations.
#include "catch.hpp"
#include "conformance.hpp"
#include "os/socket.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance {
namespace {

TEST_CASE("tcp passes the suite over loopback") {
  run_suite(tcp_under_test({}));
}

TEST_CASE("tcp passes the suite over IPv6 loopback") {
  if (!reserve_port(SocketAddress::numeric("::1", 0).value()).ok()) {
    WARN("this host has no IPv6 loopback");
    return;
  }
  TcpCase options;
  options.address = "::1";
  run_suite(tcp_under_test(options));
}

TEST_CASE("tcp passes the suite with three streams per link") {
  TcpCase options;
  options.connections_per_link = 3;
  run_suite(tcp_under_test(options));
}

TEST_CASE("tcp passes the suite with paced rails") {
  TcpCase options;
  options.pace_mbit = 20000;
  run_suite(tcp_under_test(options));
}

TEST_CASE("tcp passes the suite with fewer connections than links") {
  TcpCase options;
  options.max_connections = 2;
  options.fails_over = GENERATE(false, true);
  run_suite(tcp_under_test(options));
}

TEST_CASE("tcp passes the suite with links that fail over") {
  TcpCase options;
  options.fails_over = true;
  options.connections_per_link = GENERATE(1U, 3U);
  run_suite(tcp_under_test(options));
}

TEST_CASE("tcp passes the suite with links that fail over and paced rails") {
  TcpCase options;
  options.fails_over = true;
  options.pace_mbit = 20000;
  run_suite(tcp_under_test(options));
}

}  // namespace
}  // namespace ho::conformance
