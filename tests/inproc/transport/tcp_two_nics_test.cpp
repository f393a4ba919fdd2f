// Connections between interfaces of one host. Hidden: two_nics makes nic0 (10.1.0.1), nic1
// (10.1.0.2) and nic2 (10.2.0.1) in a network namespace of their own and asks for these.
#include <net/if.h>
#include <poll.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <cstring>

#include "catch.hpp"
#include "conformance.hpp"
#include "connect/rail_interface.hpp"
#include "os/interface_events.hpp"
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

std::string accepted_on(const RailInterface& rail, const RailInterface& from) {
  const Fd listener = *listen_on(*SocketAddress::numeric(rail.address, 0));
  const auto dialled = dial(from, *local_address(listener.get()));
  REQUIRE(dialled.ok());
  pollfd comes{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&comes, 1, 60'000) == 1);
  const auto accepted = *accept_from(listener.get());
  REQUIRE(accepted.has_value());
  bind_accepted(accepted->fd.get(), rail);
  return bound_to(accepted->fd);
}

TEST_CASE("tcp: an accepted connection is bound to its NIC if it came in there", "[.two_nics]") {
  const RailInterface four{"nic0", "10.1.0.1"};
  CHECK(accepted_on(four, four) == "nic0");
  CHECK(accepted_on(four, {"nic1", "10.1.0.2"}).empty());  // of another NIC here
  CHECK(accepted_on({"", "10.1.0.1"}, four).empty());
  const RailInterface six{"nic0", "fd00:1::1"};
  CHECK(accepted_on(six, six) == "nic0");
  CHECK(accepted_on(six, {"nic2", "fd00:2::1"}).empty());
}

// Connections of this process that are bound to nic0.
int bound_connections() {
  constexpr int kMaxFds = 1024;
  int count = 0;
  for (int fd = 0; fd < kMaxFds; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    std::array<char, IFNAMSIZ> name{};
    auto name_size = static_cast<socklen_t>(name.size());
    const bool bound = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
                       ::getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.data(), &name_size) == 0;
    count += bound && std::string(name.data()) == "nic0" ? 1 : 0;
  }
  return count;
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

TEST_CASE("tcp: two ranks of one host, with a NIC or two, exchange messages", "[.two_nics]") {
  struct Peer {
    std::string nic;
    std::string zero;
    std::string one;
    int bound;  // ends of their connection
  };
  const auto peer = GENERATE(Peer{"nic0", "10.1.0.1", "10.1.0.1", 2},
                             Peer{"nic0", "fd00:1::1", "fd00:1::1", 2},
                             Peer{"nic1", "10.1.0.1", "10.1.0.2", 0},
                             Peer{"nic2", "10.1.0.1", "10.2.0.1", 0},
                             Peer{"nic2", "fd00:1::1", "fd00:2::1", 0},
                             Peer{"far0", "fe80::a:0", "fe80::b:0", 1});  // far0 has the other end
  INFO(peer.zero << " and " << peer.one);
  const UnderTest under_test = two_nics(peer.nic, peer.zero, peer.one);
  constexpr std::chrono::seconds kLimit{60};
  const auto data = pattern(7, 100'000);
  const Frame frame = frame_of(0, data.size());
  std::barrier both_are_through(2);
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
    std::vector<std::byte> buffer(data.size());
    const std::vector<Bytes> buffers{Bytes(buffer)};
    const auto receive = [&] { return link->try_recv(frame, buffers); };
    const Status ran = rank.run({send, receive}, kLimit);
    both_are_through.arrive_and_wait();
    const int bound = bound_connections();
    both_are_through.arrive_and_wait();
    HORING_TRY(ran);
    return bound == peer.bound ? check_pattern(7, buffer)
                               : Status(StatusCode::kInternal, std::to_string(bound) + " bound");
  };
  REQUIRE(run_ranks(under_test, 2, body) == "");
}

TEST_CASE("the kernel says when an interface goes down and when it comes back", "[.two_nics]") {
  const Fd events = open_interface_events();
  REQUIRE(events.valid());
  drain_interface_events(events.get());  // of how the interfaces were made
  for (const char* const change : {"ip link set nic1 down", "ip link set nic1 up"}) {
    REQUIRE(std::system(change) == 0);
    pollfd wait{events.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 10'000) == 1);
    CHECK(drain_interface_events(events.get()));
  }
}

}  // namespace
}  // namespace ho::conformance
