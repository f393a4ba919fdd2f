// A forwarded network is a network like any other: the suite of all drivers, over real plugins that
// move data over real sockets.
#include "core/forward/forward.hpp"

#include "catch.hpp"
#include "forwarded.hpp"
#include "net_conformance.hpp"

namespace ho::plugin::forward_test {
namespace {

conformance::NetUnderTest plugin_under_test(int version) {
  conformance::NetUnderTest under_test;
  under_test.tells_connections = false;
  under_test.make = [version] {
    auto made = forward::forward_to(plugin_of(version));
    return made.ok() ? *std::move(made) : nullptr;
  };
  return under_test;
}

TEST_CASE("a forwarded plugin whose sizes are int passes the network suite") {
  run_suite(plugin_under_test(8));
}

TEST_CASE("a forwarded plugin that is initialised once passes the network suite") {
  run_suite(plugin_under_test(10));
}

TEST_CASE("a forwarded plugin with a context per communicator passes the network suite") {
  run_suite(plugin_under_test(12));
}

TEST_CASE("a forwarded plugin's devices have its own names and its order") {
  for (const int version : {8, 9, 10, 11, 12}) {
    auto made = forward::forward_to(plugin_of(version));
    REQUIRE(made.ok());
    NetDriver& net = **made;
    REQUIRE(net.origin() == "net v" + std::to_string(version) + " of " + plugin_of(version));
    void* context = nullptr;
    REQUIRE(net.open({}, &context) == Reply::kSuccess);
    int32_t count = 0;
    REQUIRE(net.device_count(&count) == Reply::kSuccess);
    REQUIRE(count == 2);
    DeviceProperties properties;
    REQUIRE(net.properties(0, &properties) == Reply::kSuccess);
    REQUIRE(properties.name == "loop0");
    REQUIRE(net.properties(1, &properties) == Reply::kSuccess);
    REQUIRE(properties.name == "loop1");
    REQUIRE(properties.speed_mbps == 25000);
    REQUIRE(properties.max_recvs == 8);
    REQUIRE(properties.memory_kinds == kHostMemory);
    REQUIRE(net.properties(2, &properties) == Reply::kInvalidArgument);
    REQUIRE(net.progress_fd(nullptr) == -1);
    REQUIRE(net.close(context) == Reply::kSuccess);
  }
}

}  // namespace
}  // namespace ho::plugin::forward_test
