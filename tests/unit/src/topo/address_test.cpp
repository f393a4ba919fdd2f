#include "topo/address.hpp"

#include "catch.hpp"

using ho::natural_less;
using ho::parse_interface_address;

TEST_CASE("addresses give host and subnet") {
  CHECK(parse_interface_address("10.1.2.3/24")->host == "10.1.2.3");
  CHECK(parse_interface_address("10.1.2.3/24")->subnet == "10.1.2.0/24");
  CHECK(parse_interface_address("10.1.131.3/17")->subnet == "10.1.128.0/17");
  CHECK(parse_interface_address("10.1.2.3/0")->subnet == "0.0.0.0/0");
  CHECK(parse_interface_address("fd00:1::5/64")->subnet == "fd00:1::/64");
  CHECK(parse_interface_address("fd00:1::5/64")->ipv6);
  CHECK(parse_interface_address("10.1.2.3")->subnet.empty());
  CHECK(parse_interface_address("127.0.0.5/8")->loopback);
  CHECK(parse_interface_address("::1/128")->loopback);
  CHECK_FALSE(parse_interface_address("10.127.0.1/8")->loopback);
}

TEST_CASE("point-to-point prefixes name no shared network") {
  for (const char* text : {"10.0.0.1/32", "10.0.0.1/31", "fd00::1/128", "fd00::1/127"}) {
    CHECK(parse_interface_address(text)->subnet.empty());
  }
  CHECK(parse_interface_address("10.0.0.1/30")->subnet == "10.0.0.0/30");
}

TEST_CASE("what is no address is refused") {
  for (const char* text : {"",
                           "/",
                           "10.0.0",
                           "10.0.0.1/",
                           "10.0.0.1/33",
                           "10.0.0.1/-1",
                           "10.0.0.1/8x",
                           "node1/24",
                           "fd00::1/129",
                           "fd00:::1/64",
                           "10.0.0.1/24/24",
                           "10.0.0.1/99999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_interface_address(text).has_value());
  }
}

TEST_CASE("digits in names compare as numbers") {
  CHECK(natural_less("rail2", "rail10"));
  CHECK_FALSE(natural_less("rail10", "rail2"));
  CHECK(natural_less("eth0", "rail0"));
  CHECK(natural_less("eth", "eth0"));
  CHECK(natural_less("enp3s0f1", "enp3s0f2"));
  CHECK(natural_less("enp3s2", "enp10s1"));
  CHECK_FALSE(natural_less("eth1", "eth1"));
  CHECK(natural_less("eth01", "eth1") != natural_less("eth1", "eth01"));
  CHECK(natural_less("eth99999999999999999998", "eth99999999999999999999"));
}
