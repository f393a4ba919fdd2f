// What a TCP transport refuses, and how it says so.
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>
#include <thread>

#include "base/log.hpp"
#include "base/log_quota.hpp"
#include "base/logger.hpp"
#include "catch.hpp"
#include "conformance.hpp"
#include "connect/handshake_io.hpp"
#include "has.hpp"
#include "os/socket.hpp"
#include "reserved_port.hpp"
#include "tcp_ranks.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/port_watch.hpp"

namespace ho::conformance {
namespace {

// Two ranks with differing settings; what rank 0 (which connects) gets, while rank 1 keeps going.
Status outcome_at_rank_0(const TcpCase& zero, const TcpCase& one) {
  Exchange exchange(2);
  std::atomic<bool> done = false;
  Status outcome(StatusCode::kInternal, "not run");
  const auto rank_1 = [&] {
    auto transport = TcpTransport::listen(options_of(one, GlobalRank(1), 2));
    if (!transport.ok() || !exchange_endpoints(**transport, 1, exchange).ok()) {
      return;
    }
    while (!done && (*transport)->progress().ok()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  std::thread other(rank_1);
  const auto rank_0 = [&]() -> Status {
    HORING_ASSIGN(auto transport, TcpTransport::listen(options_of(zero, GlobalRank(0), 2)));
    HORING_TRY(exchange_endpoints(*transport, 0, exchange));
    Rank rank;
    rank.world_size = 2;
    rank.transport = std::move(transport);
    HORING_ASSIGN(Link * link, rank.link(1));
    return rank.run({[&]() -> Result<bool> { return link->try_send(frame_of(0, 0), {}); }});
  };
  outcome = rank_0();
  done = true;
  other.join();
  return outcome;
}

bool says(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

std::string address_that_is_not_loopback() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return "";
  }
  std::string found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET) {
      const std::string text = SocketAddress(each->ifa_addr, sizeof(sockaddr_in)).host();
      found = text.rfind("127.", 0) == 0 ? found : text;
    }
  }
  ::freeifaddrs(all);
  return found;
}

Result<Fd> raw_connection(const std::string& host, uint16_t port) {
  HORING_ASSIGN(const SocketAddress to, SocketAddress::numeric(host, port));
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), to.get(), to.size_bytes()) != 0) {
    return system_error("connect", errno);
  }
  return fd;
}

// Drives the transport until the other end of `fd` is closed.
bool is_closed_by(TcpTransport& transport, const Fd& fd) {
  for (const Deadline limit = deadline_after(std::chrono::minutes(2)); !passed(limit);) {
    std::array<char, 1024> bytes{};
    const ssize_t got = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
      return true;
    }
    if (!transport.progress().ok()) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST_CASE("tcp: ranks of equal settings connect") {
  REQUIRE(outcome_at_rank_0({}, {}).ok());
}

TEST_CASE("tcp: another key is refused by name: the rank is probably gone") {
  TcpCase other;
  other.key = *JobKey::from_text("quite another key for the job");
  const Status status = outcome_at_rank_0({}, other);
  REQUIRE(status.code() == StatusCode::kUnauthenticated);
  REQUIRE(says(status, "rank 1, rail 0"));
  REQUIRE(says(status, "127.0.0.1"));
  const size_t gone = status.message().find("rank 1 is probably gone");
  REQUIRE(gone < status.message().find("keys differ"));
}

TEST_CASE("tcp: a rank without the key is refused") {
  TcpCase other;
  other.key = JobKey::none(false);
  REQUIRE(outcome_at_rank_0({}, other).code() == StatusCode::kUnauthenticated);
  REQUIRE(outcome_at_rank_0(other, {}).code() == StatusCode::kUnauthenticated);
  REQUIRE(outcome_at_rank_0(other, other).ok());  // loopback
}

TEST_CASE("tcp: another job is refused") {
  TcpCase other;
  other.job_id = 4712;
  const Status status = outcome_at_rank_0({}, other);
  REQUIRE(status.code() == StatusCode::kMismatch);
  REQUIRE(says(status, "another job"));
}

TEST_CASE("tcp: other stream counts are refused") {
  TcpCase other;
  other.connections_per_link = 2;
  const Status status = outcome_at_rank_0({}, other);
  REQUIRE(status.code() == StatusCode::kMismatch);
  REQUIRE(says(status, "HORING_TCP_STREAMS"));
}

TEST_CASE("tcp: without a key only loopback is reached and accepted") {
  const std::string address = address_that_is_not_loopback();
  if (address.empty()) {
    WARN("this host has loopback only: not tested");
    return;
  }
  TcpCase open;
  open.key = JobKey::none(false);
  open.address = address;
  const Status status = outcome_at_rank_0(open, open);
  REQUIRE(status.code() == StatusCode::kUnauthenticated);
  REQUIRE_FALSE(says(status, "gone"));

  auto transport = TcpTransport::listen(options_of(open, GlobalRank(1), 2));
  REQUIRE(transport.ok());
  auto stranger = raw_connection(address, (*transport)->endpoint().port);
  REQUIRE(stranger.ok());
  REQUIRE(is_closed_by(**transport, *stranger));

  open.key = JobKey::none(true);
  REQUIRE(outcome_at_rank_0(open, open).ok());
}

TEST_CASE("tcp: nobody listening is an error that names the way there") {
  TcpCase config;
  config.connect_timeout = std::chrono::milliseconds(200);
  auto transport = TcpTransport::listen(options_of(config, GlobalRank(0), 2));
  REQUIRE(transport.ok());
  const test::ReservedPort silent;  // nor does a stranger listen there meanwhile
  const uint16_t port = silent.port();
  (*transport)->set_peers({(*transport)->endpoint(), TcpEndpoint{{"127.0.0.1"}, port}});
  Rank rank;
  rank.world_size = 2;
  rank.transport = std::move(*transport);
  auto link = rank.link(1);
  REQUIRE(link.ok());
  const Status status =
      rank.run({[&]() -> Result<bool> { return (*link)->try_send(frame_of(0, 0), {}); }});
  REQUIRE(status.code() == StatusCode::kConnection);
  REQUIRE(says(status, "rank 1, rail 0"));
  REQUIRE(says(status, "127.0.0.1:" + std::to_string(port)));
  REQUIRE(says(status, "firewall"));
}

// Rank 1 waits for rank 0 to connect, and looks at its port meanwhile.
Status outcome_of_waiting_for(const TcpEndpoint& rank_0) {
  HORING_ASSIGN(auto transport, TcpTransport::listen(options_of({}, GlobalRank(1), 2)));
  transport->set_peers({rank_0, transport->endpoint()});
  transport->watch_unconnected_peers();
  Rank rank;
  rank.world_size = 2;
  rank.transport = std::move(transport);
  HORING_ASSIGN(Link * link, rank.link(0));
  return rank.run({[&]() -> Result<bool> { return link->try_recv(frame_of(0, 0), {}); }});
}

TEST_CASE("tcp: a peer that never connects is gone where nobody listens at its port") {
  const test::ReservedPort silent;
  const Status status = outcome_of_waiting_for(TcpEndpoint{{"127.0.0.1"}, silent.port()});
  REQUIRE(status.code() == StatusCode::kPeerLost);
  REQUIRE(says(status, "rank 0, rail 0"));
  REQUIRE(says(status, "nobody listens at its address 127.0.0.1:" + std::to_string(silent.port())));
}

TEST_CASE("tcp: who looks at the port of a living peer neither disturbs it nor takes it for gone") {
  std::ostringstream log;
  auto& sinks = logger().sinks();
  sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(log));
  auto transport = TcpTransport::listen(options_of({}, GlobalRank(0), 2));
  REQUIRE(transport.ok());
  tcp::PortWatch watch;
  const TcpOptions options = options_of({}, GlobalRank(1), 2);
  const auto to = SocketAddress::numeric("127.0.0.1", (*transport)->endpoint().port);
  REQUIRE(to.ok());
  for (int i = 0; i < 100; ++i) {
    CHECK(watch.check(options.rails.front(), *to).ok());
    CHECK((*transport)->progress().ok());
  }
  sinks.pop_back();
  CHECK(log.str().empty());
}

TEST_CASE("tcp: keys of links that cannot be are refused") {
  auto transport = TcpTransport::listen(options_of({}, GlobalRank(0), 2));
  REQUIRE(transport.ok());
  (*transport)->set_peers({(*transport)->endpoint(), (*transport)->endpoint()});
  LinkKey key{GlobalRank(1), RailIndex(0), 0, 0};
  REQUIRE((*transport)->link(key).ok());
  for (const LinkKey& bad : {LinkKey{GlobalRank(0), RailIndex(0), 0, 0},
                             LinkKey{GlobalRank(2), RailIndex(0), 0, 0},
                             LinkKey{GlobalRank(1), RailIndex(1), 0, 0},
                             LinkKey{GlobalRank(1), RailIndex(0), 1, 0},
                             LinkKey{GlobalRank(1), RailIndex(0), 0, kLinkChannelCount}}) {
    REQUIRE((*transport)->link(bad).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("tcp: more rails than a claim can name are refused where links fail over") {
  TcpOptions options = options_of({}, GlobalRank(0), 2);
  options.rails.resize(257, options.rails.front());
  CHECK(TcpTransport::listen(options).ok());
  options.failover.on = true;
  const Status status = TcpTransport::listen(options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(has(status, "at most 256 rails, there are 257"));
  options.rails.pop_back();
  CHECK(TcpTransport::listen(options).ok());
}

TEST_CASE("tcp: garbage on the data port is dropped and disturbs nobody") {
  Exchange exchange(2);
  auto one = TcpTransport::listen(options_of({}, GlobalRank(1), 2));
  REQUIRE(one.ok());
  const uint16_t port = (*one)->endpoint().port;
  for (const size_t size : {size_t{1}, size_t{32}, size_t{5000}}) {
    auto stranger = raw_connection("127.0.0.1", port);
    REQUIRE(stranger.ok());
    const std::vector<std::byte> bytes = pattern(size, size);
    REQUIRE(::send(stranger->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(size));
    if (size < 8) {
      ::shutdown(stranger->get(), SHUT_WR);
    }
    REQUIRE(is_closed_by(**one, *stranger));
  }
  REQUIRE((*one)->open_connections() == 0);
}

// What rank 0 hears that connects to `host` of rank 1 and says that this is rail `rail`.
Status answer_to_claim(TcpTransport& transport,
                       const TcpOptions& options,
                       const std::string& host,
                       RailIndex rail) {
  HORING_ASSIGN(Fd fd, raw_connection(host, transport.endpoint().port));
  tcp::LinkClaim claim;
  claim.from = GlobalRank(0);
  claim.to = options.self;
  claim.rail = rail;
  claim.connection_count = static_cast<uint8_t>(options.connections_per_link);
  claim.job_id = options.job_id;
  const auto handshake = Handshake::client(options.key, "data", encode(claim));
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return system_error("fcntl", errno);
  }
  Socket socket(std::move(fd));
  for (const Deadline limit = deadline_after(std::chrono::minutes(2)); !passed(limit);) {
    HORING_TRY(transport.progress());
    socket.readable = true;  // no poller says so
    socket.writable = true;
    HORING_ASSIGN(const HandshakeState state, advance_handshake(socket, *handshake));
    if (state == HandshakeState::kDone) {
      return {};
    }
    if (state == HandshakeState::kLost) {
      return {StatusCode::kConnection, "closed without a word"};
    }
  }
  return {StatusCode::kTimeout, "no answer"};
}

TEST_CASE("tcp: a connection that comes to another rail's address is refused") {
  TcpOptions options = options_of({}, GlobalRank(1), 2);
  options.rails = {RailInterface{"", "127.0.0.1"}, RailInterface{"", "127.0.0.2"}};
  auto transport = TcpTransport::listen(options);
  REQUIRE(transport.ok());
  for (const uint32_t rail : {0U, 1U}) {
    const std::string other = options.rails.at(1 - rail).address;
    const Status refused = answer_to_claim(**transport, options, other, RailIndex(rail));
    INFO(refused.message());
    CHECK(refused.code() == StatusCode::kMismatch);
    CHECK(says(refused, "the connection came to " + other));
    CHECK(says(refused,
               "rail " + std::to_string(rail) + " of rank 1 is " + options.rails.at(rail).address));
  }
  for (const uint32_t rail : {0U, 1U}) {
    const std::string host = options.rails.at(rail).address;
    CHECK(answer_to_claim(**transport, options, host, RailIndex(rail)).ok());
  }
}

// Sleeps as a rank does, until something is to be done, and true once the other end of `fd` is
// closed. false: the transport slept on, or did not close it.
bool is_closed_by_sleeper(TcpTransport& transport, const Fd& fd) {
  constexpr int kLongMs = 120'000;
  for (const Deadline limit = deadline_after(std::chrono::minutes(2)); !passed(limit);) {
    std::array<char, 1024> bytes{};
    if (::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) == 0) {
      return true;
    }
    pollfd waiting{transport.wait_fd(), POLLIN, 0};
    if (::poll(&waiting, 1, kLongMs) != 1 || !transport.progress().ok()) {
      return false;
    }
  }
  return false;
}

TEST_CASE("tcp: a connection that does not finish its handshake in time is dropped") {
  std::ostringstream log;
  auto& sinks = logger().sinks();
  sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(log));
  TcpCase hasty;
  hasty.connect_timeout = std::chrono::milliseconds(50);
  auto transport = TcpTransport::listen(options_of(hasty, GlobalRank(1), 2));
  REQUIRE(transport.ok());
  for (const std::string begun : {"", "HORING\r\n"}) {
    auto silent = raw_connection("127.0.0.1", (*transport)->endpoint().port);
    REQUIRE(silent.ok());
    REQUIRE(::send(silent->get(), begun.data(), begun.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(begun.size()));
    CHECK(is_closed_by_sleeper(**transport, *silent));
  }
  sinks.pop_back();
  const std::string text = log.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("refused a connection from 127.0.0.1: it did not finish its handshake within 50 "
                  "ms") != std::string::npos);
  CHECK((*transport)->open_connections() == 0);
}

TEST_CASE("tcp: a connection may finish its handshake late, but before its deadline") {
  TcpCase patient;
  patient.connect_timeout = std::chrono::minutes(10);
  auto transport = TcpTransport::listen(options_of(patient, GlobalRank(1), 2));
  REQUIRE(transport.ok());
  auto silent = raw_connection("127.0.0.1", (*transport)->endpoint().port);
  REQUIRE(silent.ok());
  for (int turn = 0; turn < 100; ++turn) {
    REQUIRE((*transport)->progress().ok());
  }
  std::array<char, 1> byte{};
  CHECK(::recv(silent->get(), byte.data(), byte.size(), MSG_DONTWAIT) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("tcp: garbage on the data port does not fill the log") {
  std::ostringstream log;
  auto& sinks = logger().sinks();
  sinks.push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(log));
  auto one = TcpTransport::listen(options_of({}, GlobalRank(1), 2));
  REQUIRE(one.ok());
  for (uint32_t i = 0; i < 4 * LogQuota::kFirst; ++i) {
    auto stranger = raw_connection("127.0.0.1", (*one)->endpoint().port);
    REQUIRE(stranger.ok());
    const std::vector<std::byte> bytes = pattern(i, 64);
    REQUIRE(::send(stranger->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == 64);
    REQUIRE(is_closed_by(**one, *stranger));
  }
  sinks.pop_back();
  const std::string text = log.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == LogQuota::kFirst);
}

}  // namespace
}  // namespace ho::conformance
