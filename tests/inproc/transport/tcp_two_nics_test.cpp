// Connections between interfaces of one host. Hidden: two_nics makes nic0 (10.1.0.1), nic1
// (10.1.0.2) and nic2 (10.2.0.1) in a network namespace of their own and asks for these.
#include <net/if.h>

#include <array>
#include <cstring>

#include "catch.hpp"
#include "conformance.hpp"
#include "connect/rail_interface.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance {
namespace {

std::string bound_to(const Fd& fd) {
  std::array<char, IFNAMSIZ> name{};
  auto size = static_cast<socklen_t>(name.size());
  REQUIRE(::getsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, name.data(), &size) == 0);
  return {name.data(), size == 0 ? 0 : size - 1};
}

std::string dialled_on(const RailInterface& rail, const std::string& to) {
  const auto dialled = dial(rail, *SocketAddress::numeric(to, 9));
  REQUIRE(dialled.ok());
  return bound_to(dialled->fd);
}

TEST_CASE("tcp: a connection is bound to its NIC unless another NIC of this host has the peer",
          "[.two_nics]") {
  const RailInterface four{"nic0", "10.1.0.1"};
  CHECK(dialled_on(four, "10.1.0.77") == "nic0");  // elsewhere, in the subnet
  CHECK(dialled_on(four, "10.9.0.1") == "nic0");
  CHECK(dialled_on(four, "10.1.0.1") == "nic0");  // itself
  CHECK(dialled_on(four, "10.1.0.2").empty());
  CHECK(dialled_on(four, "10.2.0.1").empty());
  const RailInterface six{"nic0", "fd00:1::1"};
  CHECK(dialled_on(six, "fd00:1::77") == "nic0");
  CHECK(dialled_on(six, "fd00:2::1").empty());
}

// Rank 0's rail is nic0, rank 1's the other one.
UnderTest two_nics(const std::string& nic, const std::string& zero, const std::string& one) {
  UnderTest under_test;
  under_test.make = [=](GlobalRank self,
                        uint32_t world_size,
                        Exchange& exchange) -> Result<std::unique_ptr<Transport>> {
    TcpOptions options = options_of({}, self, world_size);
    options.rails = {self.value() == 0 ? RailInterface{"nic0", zero} : RailInterface{nic, one}};
    HORING_ASSIGN(auto transport, TcpTransport::listen(options));
    const uint16_t port = transport->endpoint().port;
    HORING_ASSIGN(const auto ports,
                  exchange.exchange(self.value(), std::as_bytes(std::span(&port, 1))));
    std::vector<TcpEndpoint> peers;
    for (const auto& blob : ports) {
      TcpEndpoint peer{{peers.empty() ? zero : one}, 0};
      std::memcpy(&peer.port, blob.data(), sizeof peer.port);
      peers.push_back(peer);
    }
    transport->set_peers(std::move(peers));
    return std::unique_ptr<Transport>(std::move(transport));
  };
  return under_test;
}

TEST_CASE("tcp: two ranks of one host with different NICs exchange messages", "[.two_nics]") {
  struct Peer {
    std::string nic;
    std::string zero;
    std::string one;
  };
  const auto peer = GENERATE(Peer{"nic1", "10.1.0.1", "10.1.0.2"},
                             Peer{"nic2", "10.1.0.1", "10.2.0.1"},
                             Peer{"nic2", "fd00:1::1", "fd00:2::1"});
  INFO(peer.zero << " and " << peer.one);
  const UnderTest under_test = two_nics(peer.nic, peer.zero, peer.one);
  constexpr std::chrono::seconds kLimit{60};
  const auto data = pattern(7, 100'000);
  const Frame frame = frame_of(0, data.size());
  const auto body = [&](Rank& rank) -> Status {
    HORING_ASSIGN(Link* const link, rank.link(1 - rank.self.value()));
    const std::vector<ConstBytes> parts{ConstBytes(data)};
    bool sent = false;
    const auto send = [&]() -> Result<bool> {
      if (!sent) {
        HORING_ASSIGN(sent, link->try_send(frame, parts));
      }
      return sent && link->released() > 0;
    };
    std::vector<std::byte> room(data.size());
    const std::vector<Bytes> rooms{Bytes(room)};
    const auto receive = [&] { return link->try_recv(frame, rooms); };
    HORING_TRY(rank.run({send, receive}, kLimit));
    return check_pattern(7, room);
  };
  REQUIRE(run_ranks(under_test, 2, body) == "");
}

}  // namespace
}  // namespace ho::conformance
