// The conformance suite over UCX. UCX_TLS comes from the environment (meson.build): once the
// network's way of UCX, once its shared memory, which cannot report lost peers.
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/bytes.hpp"
#include "base/logger.hpp"
#include "catch.hpp"
#include "conformance.hpp"
#include "scoped_variable.hpp"
#include "transport/network_setup.hpp"
#include "transport/ucx/envelope.hpp"
#include "transport/ucx/ucx_transport.hpp"

namespace ho {

Result<MakeNetwork> ucx_network();  // as the table of networks names it

}  // namespace ho

namespace ho::conformance {
namespace {

std::shared_ptr<const JobKey> test_key() {
  auto key = JobKey::from_text("a key for the tests of the transport");
  return key.ok() ? *key : nullptr;
}

UnderTest ucx_under_test() {
  const char* tls = std::getenv("UCX_TLS");
  const bool reports =
      tls == nullptr || std::string_view(tls).find("tcp") != std::string_view::npos;
  UnderTest under_test;
  under_test.reports_lost_peer = reports;
  under_test.make = [reports](GlobalRank self,
                              uint32_t world_size,
                              Exchange& exchange) -> Result<std::unique_ptr<Transport>> {
    UcxOptions options;
    options.self = self;
    options.world_size = world_size;
    options.job_id = 4711;
    options.key = test_key();
    options.report_lost_peers = reports;
    HORING_ASSIGN(auto transport, UcxTransport::create(options));
    HORING_ASSIGN(auto blobs, exchange.exchange(self.value(), transport->endpoint()));
    HORING_TRY(transport->set_peers(std::move(blobs)));
    return std::unique_ptr<Transport>(std::move(transport));
  };
  return under_test;
}

TEST_CASE("ucx passes the suite of transports") {
  run_suite(ucx_under_test());
}

TEST_CASE("ucx: without a key it is refused") {
  UcxOptions options;
  options.key = JobKey::none(false);
  REQUIRE(UcxTransport::create(options).status().code() == StatusCode::kUnauthenticated);
}

TEST_CASE("ucx: that its links do not fail over is said once a process") {
  std::ostringstream log;
  logger().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(log));
  NetworkSetup setup;
  setup.key = JobKey::none(false);
  const auto make = [&setup] {
    const auto network = ucx_network();
    REQUIRE(network.ok());
    CHECK_FALSE((*network)(setup).ok());
  };
  make();
  CHECK(log.str().empty());  // nobody has set it
  const test::ScopedVariable failover("HORING_FAILOVER", "1");
  make();
  make();
  logger().sinks().pop_back();
  const std::string text = log.str();
  CHECK(text.find("HORING_FAILOVER=1 does nothing for links of HORING_TRANSPORT=ucx") !=
        std::string::npos);
  CHECK(std::ranges::count(text, '\n') == 1);
}

TEST_CASE("ucx: tokens differ by key, link, direction and nonces") {
  const auto key = test_key();
  const LinkKey link{GlobalRank(1), RailIndex(0), 0, 0};
  ucx::TokenScope scope;
  scope.to = GlobalRank(2);
  const ucx::Token token = ucx::token_for(*key, link, scope);
  REQUIRE(equal_secrets(token, ucx::token_for(*key, link, scope)));
  LinkKey other = link;
  other.channel = 1;
  REQUIRE_FALSE(equal_secrets(token, ucx::token_for(*key, other, scope)));
  ucx::TokenScope fresh = scope;
  fresh.receiver_nonce[3] = std::byte{1};
  REQUIRE_FALSE(equal_secrets(token, ucx::token_for(*key, link, fresh)));
  const auto another = JobKey::from_text("another key for the tests of ucx");
  REQUIRE_FALSE(equal_secrets(token, ucx::token_for(**another, link, scope)));
}

TEST_CASE("ucx: envelopes survive their encoding, other bytes are refused") {
  ucx::Envelope envelope;
  envelope.kind = ucx::Envelope::Kind::kCredit;
  envelope.index = 0x01020304;
  envelope.consumed = 0x05060708;
  envelope.from = GlobalRank(70000);
  envelope.rail = RailIndex(3);
  envelope.communicator = 0x1234;
  envelope.channel = 2;
  const auto bytes = ucx::encode(envelope);
  const auto decoded = ucx::decode_envelope(bytes);
  REQUIRE(decoded.ok());
  REQUIRE(ucx::encode(*decoded) == bytes);
  REQUIRE(decoded->consumed == envelope.consumed);
  for (size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE_FALSE(ucx::decode_envelope(std::span(bytes).first(size)).ok());
  }
}

}  // namespace
}  // namespace ho::conformance
