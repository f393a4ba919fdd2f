// The builtin network over UCX through the suite of all drivers, and what only it promises.
#include "core/ucx/ucx_net.hpp"

#include <array>
#include <filesystem>
#include <string>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "core/ucx/ucx_handshake.hpp"
#include "has.hpp"
#include "temporary_folder.hpp"

namespace ho::plugin::conformance {
namespace {

std::unique_ptr<NetDriver> make_ucx(const BuiltinCase& options) {
  auto config = builtin_config(options);
  auto made = UcxNet::create(std::move(config));
  INFO(made.status().message());
  return made.ok() ? std::unique_ptr<NetDriver>(*std::move(made)) : nullptr;
}

TEST_CASE("the UCX network passes the suite") {
  NetUnderTest under_test;
  under_test.make = [] { return make_ucx({}); };
  under_test.takes_both = true;
  run_suite(under_test);
}

TEST_CASE("the UCX network passes the suite with a job key") {
  BuiltinCase options;
  options.secret = "a secret of this test's own";
  NetUnderTest under_test;
  under_test.make = [options] { return make_ucx(options); };
  under_test.takes_both = true;
  run_suite(under_test);
}

// Neither end may wait for handshakes that never come.
TEST_CASE("ucx net: one end over TCP, the other over UCX, is refused at once") {
  const auto ucx = make_ucx({});
  const auto tcp = make_builtin({});
  NetDriver& listening = GENERATE(true, false) ? *ucx : *tcp;
  NetDriver& connecting = &listening == ucx.get() ? *tcp : *ucx;
  std::array<std::byte, kHandleBytes> handle{};
  void* listener = nullptr;
  REQUIRE(listening.listen(nullptr, 0, handle.data(), &listener) == Reply::kSuccess);
  void* comm = nullptr;
  REQUIRE(connecting.connect(nullptr, 0, kNoTrafficClass, handle.data(), &comm, nullptr) !=
          Reply::kSuccess);
  REQUIRE(comm == nullptr);
  REQUIRE(listening.close_listen(listener) == Reply::kSuccess);
}

TEST_CASE("ucx net: what cannot be paced is refused") {
  BuiltinCase options;
  options.pace_mbit = 100;
  const auto made = UcxNet::create(builtin_config(options));
  REQUIRE(made.status().code() == StatusCode::kUnsupported);
}

TEST_CASE("ucx net: rails that are addresses only are refused, with what to do") {
  auto config = builtin_config({});
  config.devices[0].rail.emulated = true;
  const Status refused = UcxNet::create(std::move(config)).status();
  CHECK(refused.code() == StatusCode::kUnsupported);
  CHECK(has(refused, "the rails are emulated (HORING_EMULATED_RAILS"));
  CHECK(has(refused, "run without --rails"));
}

TEST_CASE("ucx net: handshakes survive their encoding, cut or altered ones are refused") {
  UcxHandshake handshake;
  handshake.nonce[3] = std::byte{7};
  handshake.secret = kMaxSecret;
  handshake.who = "a host\n";
  handshake.address.assign(300, std::byte{9});
  const auto bytes = encode(handshake);
  const auto back = decode_handshake(bytes);
  REQUIRE(back.ok());
  REQUIRE(back->nonce == handshake.nonce);
  REQUIRE(back->secret == handshake.secret);
  REQUIRE(back->who == "a host?");
  REQUIRE(back->address == handshake.address);
  for (size_t size = 0; size <= 32 + handshake.who.size(); ++size) {
    REQUIRE_FALSE(decode_handshake(std::span(bytes).first(size)).ok());
  }
  for (const size_t at : {size_t{0}, size_t{11}, size_t{13}}) {
    auto altered = bytes;
    altered[at] ^= std::byte{0xff};
    REQUIRE_FALSE(decode_handshake(altered).ok());
  }
}

TEST_CASE("ucx net: an interface's devices have UCX's names") {
  const test::TemporaryFolder sysfs;
  std::filesystem::create_directories(sysfs.path("class/net/eth0/device/infiniband/mlx5_1"));
  std::filesystem::create_directories(sysfs.path("class/net/eth1"));
  REQUIRE(ucx_devices_of("eth0", sysfs.root()) == "eth0,mlx5_1:1");
  REQUIRE(ucx_devices_of("eth1", sysfs.root()) == "eth1");
}

}  // namespace
}  // namespace ho::plugin::conformance
