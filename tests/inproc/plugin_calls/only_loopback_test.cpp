// Where loopback is all that the plugin has, other hosts cannot be reached: it says so.
#include <string>

#include "../../support/scoped_variable.hpp"
#include "catch.hpp"
#include "caught_stderr.hpp"
#include "core/network.hpp"
#include "has.hpp"

using namespace ho::test;

TEST_CASE("a plugin that has loopback alone warns of it, and once of giving it to CollNet") {
  const ScopedVariable interfaces("HORING_SOCKET_IFNAME", "lo");
  CaughtStderr caught;
  const auto network = ho::plugin::network_from_environment();
  REQUIRE(network.ok());
  for (int i = 0; i < 2; ++i) {
    CHECK(network->rendezvous_address(0).ok());
  }
  const std::string said = caught.end();
  CHECK(has(said, "[warning] horing plugin: the only network device is lo, which no other host"));
  const std::string input = "[warning] horing plugin: CollNet is given lo, which no other host";
  CHECK(has(said, input));
  CHECK(said.find(input) == said.rfind(input));
}

TEST_CASE("rails that are emulated on loopback are meant, and warn of nothing") {
  const ScopedVariable rails("HORING_EMULATED_RAILS", "rail0=127.0.0.1");
  CaughtStderr caught;
  const auto network = ho::plugin::network_from_environment();
  REQUIRE(network.ok());
  CHECK(network->rendezvous_address(0).ok());
  CHECK(caught.end() == "");
}
