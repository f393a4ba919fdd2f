#include "os/interface_bytes.hpp"

#include "catch.hpp"

using namespace ho;

TEST_CASE("counts of interfaces are read by their names") {
  const auto found = parse_interface_bytes(
      "Inter-|   Receive                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
      "    lo: 226019784340 42227821 1 2 3 4 5 6 226019784341 42227821 0 0 0 0 0 0\n"
      "ib0.8:18446744073709551615 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n"
      "  odd: 1 2 3\n");
  CHECK(found.size() == 2);
  CHECK(found.at("lo") == InterfaceBytes{.sent = 226019784341, .received = 226019784340});
  CHECK(found.at("ib0.8") == InterfaceBytes{.sent = 7, .received = UINT64_MAX});
}

TEST_CASE("the loopback interface of this process is counted") {
  CHECK(interface_bytes().contains("lo"));
}
