// The builtin network between two interfaces of one host, as between two ranks whose shared memory
// is off. Hidden: tests/support/two_nics makes the interfaces and asks for it.
#include <array>
#include <string>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "caught_stderr.hpp"

namespace ho::plugin::conformance {
namespace {

TEST_CASE("builtin net: two NICs of one host are connected", "[.two_nics]") {
  struct Nic {
    std::string name;
    std::string address;
  };
  const auto listening =
      GENERATE(Nic{"nic1", "10.1.0.2"}, Nic{"nic2", "10.2.0.1"}, Nic{"far0", "fe80::b:0"});
  BuiltinConfig config = builtin_config({});
  config.key = *JobKey::from_text("a secret of this test's own");
  config.options.connections = 2;
  config.devices = {
      make_device("one", "a host", listening.address, listening.name),
      make_device("two", "a host", listening.name == "far0" ? "fe80::a:0" : "10.1.0.1", "nic0")};
  const auto net = BuiltinNet::create(std::move(config));
  REQUIRE(net.ok());
  Pair pair(**net);
  pair.connecting_device = 1;
  REQUIRE(pair.connect().message() == "");
  const auto data = pattern(8, 300'000);
  std::vector<std::byte> buffer(data.size());
  REQUIRE(
      run_both(
          [&]() -> Status {
            End end(**net, pair.send);
            HORING_ASSIGN(void* const request, end.send(data.data(), data.size(), 3));
            return end.finish(request).status();
          },
          [&]() -> Status {
            End end(**net, pair.receive);
            HORING_ASSIGN(void* const request, end.receive({{buffer.data(), buffer.size(), 3}}));
            return end.finish(request).status();
          }) == "");
  REQUIRE(check_pattern(8, buffer.data(), buffer.size()).message() == "");
}

TEST_CASE("builtin net: a peer's address that is this host's too is said to be", "[.two_nics]") {
  BuiltinConfig config = builtin_config({});
  config.options.connect_timeout = std::chrono::milliseconds(50);
  config.devices = {make_device("one", "a host", "10.1.0.1", "nic0")};
  const auto net = BuiltinNet::create(std::move(config));
  REQUIRE(net.ok());
  std::array<std::byte, kHandleBytes> handle{};
  void* listener = nullptr;
  REQUIRE((*net)->listen(nullptr, 0, handle.data(), &listener) == Reply::kSuccess);
  REQUIRE((*net)->close_listen(listener) == Reply::kSuccess);
  test::CaughtStderr caught;
  void* comm = nullptr;
  Reply reply = Reply::kSuccess;
  while (reply == Reply::kSuccess && comm == nullptr) {
    reply = (*net)->connect(nullptr, 0, kNoTrafficClass, handle.data(), &comm, nullptr);
  }
  const std::string said = caught.end();
  REQUIRE(reply != Reply::kSuccess);
  REQUIRE(said.find("10.1.0.1 is an address of this host too (nic0)") != std::string::npos);
  REQUIRE(said.find("firewall") == std::string::npos);
}

}  // namespace
}  // namespace ho::plugin::conformance
