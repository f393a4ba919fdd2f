// Acceptor and connector against each other over loopback, without a poller and with a clock of the
// test's own. Their users' suites go through strangers, other keys and floods on their ports.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "catch.hpp"
#include "connect/acceptor.hpp"
#include "connect/connector.hpp"
#include "connect/refusals.hpp"
#include "has.hpp"
#include "os/clock.hpp"
#include "reserved_port.hpp"

using namespace ho;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Fd listener_at(const std::string& host) {
  return listen_on(SocketAddress::numeric(host, 0).value()).value();
}

// A port whose connections are delivered by name, and how they were refused.
struct Port {
  std::vector<SocketAddress> addresses;
  std::vector<std::string> delivered;
  std::unique_ptr<Acceptor> acceptor;

  explicit Port(size_t listener_count = 1,
                size_t max_handshakes = 8,
                const std::string& host = "127.0.0.1") {
    std::vector<Fd> listeners;
    for (size_t i = 0; i < listener_count; ++i) {
      listeners.push_back(listener_at(host));
      addresses.push_back(local_address(listeners.back().get()).value());
    }
    Acceptor::Options options;
    options.name = "port of a test";
    options.purpose = "test";
    options.key = JobKey::none(false);
    options.max_handshakes = max_handshakes;
    options.on_shortage = "a test takes them";
    options.refusals_at = LogLevel::kDebug;
    options.judge = [](const Acceptor::Arrival& arrival) -> Status {
      return as_text(arrival.claim) == "unwanted" ? Status(StatusCode::kMismatch, "not you")
                                                  : Status();
    };
    options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
      CHECK(socket->fd.get() == arrival.fd);
      delivered.emplace_back(as_text(arrival.claim));
    };
    acceptor = Acceptor::open(std::move(listeners), std::move(options)).value();
  }
};

Connector::Options options_to(const SocketAddress& address, std::string_view claim) {
  Connector::Options options;
  options.name = "a test";
  options.to = address;
  options.purpose = "test";
  options.key = JobKey::none(false);
  options.claim = [claim] { return bytes_of(claim); };
  return options;
}

Connector::Options options_to_from(const SocketAddress& address,
                                   std::string_view claim,
                                   const char* from) {
  Connector::Options options = options_to(address, claim);
  options.from.address = from;
  options.once = true;
  return options;
}

// Both ends in turns, until the connector knows.
Result<std::unique_ptr<Socket>> outcome(Port& port, Connector& connector) {
  for (const Deadline limit = deadline_after(std::chrono::seconds(30)); !passed(limit);) {
    port.acceptor->step(now_ns());
    auto connected = connector.step(now_ns());
    if (!connected.ok() || *connected != nullptr) {
      return connected;
    }
  }
  return Status(StatusCode::kInternal, "the test took too long");
}

Fd silent_connection(const SocketAddress& to, const std::string& from = {}) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!from.empty()) {
    const SocketAddress own = SocketAddress::numeric(from, 0).value();
    REQUIRE(::bind(fd.get(), own.get(), own.size_bytes()) == 0);
  }
  REQUIRE(::connect(fd.get(), to.get(), to.size_bytes()) == 0);
  return fd;
}

bool is_closed(const Fd& fd) {
  char byte = 0;
  const ssize_t got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

// No descriptor can be opened while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const Fd next(::fcntl(0, F_DUPFD_CLOEXEC, 0));
    tight_ = before_;
    tight_.rlim_cur = static_cast<rlim_t>(next.get());
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight_) == 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void allow_one_more() {
    ++tight_.rlim_cur;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight_) == 0);
  }

 private:
  rlimit before_{};
  rlimit tight_{};
};

}  // namespace

TEST_CASE("connect: who proves the key is delivered with its claim, or hears why not") {
  Port port(2);
  Connector wanted(options_to(port.addresses[1], "wanted"));
  CHECK(outcome(port, wanted).ok());
  Connector unwanted(options_to(port.addresses[0], "unwanted"));
  const Status refused = outcome(port, unwanted).status();
  CHECK(refused.code() == StatusCode::kMismatch);
  CHECK(has(refused.message(), "not you"));
  CHECK(port.delivered == std::vector<std::string>{"wanted"});
  CHECK(port.acceptor->refusals().text() ==
        "1 connection came and was sent away: 127.0.0.1: not you");
  CHECK_FALSE(port.acceptor->someone_waits());
}

TEST_CASE("connect: the oldest handshake makes room, and each has its time") {
  Port port(1, 2);
  const int64_t now = now_ns();
  std::vector<Fd> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(silent_connection(port.addresses[0]));
    port.acceptor->step(now);
  }
  CHECK(is_closed(silent[0]));
  CHECK_FALSE(is_closed(silent[1]));
  // A caller that was away is not polling: its handshakes are not late for that.
  port.acceptor->step(now + 100 * kSecond);
  CHECK_FALSE(is_closed(silent[1]));
  const int64_t due = port.acceptor->next_deadline_ns();
  CHECK(due == now + 105 * kSecond);
  for (int64_t step = now + 100 * kSecond; step < due; step += kSecond / 4) {
    port.acceptor->step(step);
  }
  CHECK_FALSE(is_closed(silent[1]));
  port.acceptor->step(due);
  CHECK(is_closed(silent[1]));
  CHECK(is_closed(silent[2]));
  const std::string text = port.acceptor->refusals().text();
  CHECK(has(text, "3 connections came and were sent away"));
  CHECK(has(text, "2 connections are in their handshake at once"));
  CHECK(has(text, "2 times, at last 127.0.0.1: it did not finish its handshake within 5000 ms"));
}

TEST_CASE("connect: who says nothing from one address makes room for others, at any rate") {
  constexpr size_t kMax = 8;
  Port port(1, kMax, "127.0.0.1");
  const int64_t now = now_ns();
  Connector slow(options_to_from(port.addresses[0], "slow", "127.0.0.2"));
  while (!port.acceptor->someone_waits()) {  // it has said who it is, and reads the answer later
    (void)slow.step(now_ns());
    port.acceptor->step(now);
  }
  std::vector<Fd> silent;
  for (size_t i = 0; i < 5 * kMax; ++i) {
    silent.push_back(silent_connection(port.addresses[0]));
    port.acceptor->step(now);
  }
  CHECK(is_closed(silent.front()));
  CHECK_FALSE(is_closed(silent.back()));
  Connector late(options_to_from(port.addresses[0], "late", "127.0.0.3"));
  CHECK(outcome(port, late).ok());
  CHECK(outcome(port, slow).ok());
  CHECK(port.delivered == std::vector<std::string>{"late", "slow"});
}

TEST_CASE("connect: where nobody makes room who comes waits, and is let in then") {
  constexpr size_t kMax = 16;
  Port port(1, kMax, "127.0.0.1");
  const int64_t now = now_ns();
  std::vector<Fd> silent;
  for (size_t i = 0; i < kMax; ++i) {  // two from each address
    silent.push_back(silent_connection(port.addresses[0], "127.0.0." + std::to_string(2 + i / 2)));
  }
  const Fd late = silent_connection(port.addresses[0], "127.0.0.1");
  port.acceptor->step(now);
  port.acceptor->step(now + kSecond / 8);
  for (const Fd& each : silent) {
    CHECK_FALSE(is_closed(each));
  }
  const int64_t due = port.acceptor->next_deadline_ns();
  CHECK(due == now + kSecond / 4);
  port.acceptor->step(due);
  CHECK(is_closed(silent[0]));
  CHECK_FALSE(is_closed(silent[1]));
  CHECK_FALSE(is_closed(late));
}

TEST_CASE(
    "connect: without descriptors somebody waits, at whichever listener, and is let in later") {
  Port port(2);
  const int64_t now = now_ns();
  const Fd comes = silent_connection(port.addresses[0]);
  {
    const NoDescriptors none;
    // The other listener, at which nobody waits, does not end the shortage.
    for (int64_t step = now; step < now + 3 * kSecond; step += kSecond / 2) {
      CHECK(port.acceptor->stuck(step).ok());
      port.acceptor->step(step);
      CHECK(port.acceptor->someone_waits());
    }
    const Status stuck = port.acceptor->stuck(now + 3 * kSecond);
    CHECK(stuck.code() == StatusCode::kSystem);
    CHECK(has(stuck.message(),
              "port of a test: a rank has come and cannot be let in: accept: Too many open files"));
    CHECK(has(stuck.message(), "a test takes them"));
    CHECK(port.acceptor->next_deadline_ns() < now + 4 * kSecond);
  }
  port.acceptor->step(now + 4 * kSecond);
  CHECK(port.acceptor->shortage().ok());
  CHECK(port.acceptor->someone_waits());  // in its handshake
  ::shutdown(comes.get(), SHUT_RDWR);
  port.acceptor->step(now + 5 * kSecond);
  CHECK_FALSE(port.acceptor->someone_waits());
}

TEST_CASE("connect: without descriptors there is no shortage while no connection waits") {
  Port port(2);
  const NoDescriptors none;
  port.acceptor->step(now_ns());
  CHECK(port.acceptor->shortage().ok());
  CHECK_FALSE(port.acceptor->someone_waits());
}

TEST_CASE("connect: a shortage in which one connection after the other is taken never ends a job") {
  constexpr size_t kConnections = 40;
  Port port(1, kConnections);
  const int64_t now = now_ns();
  std::vector<Fd> waiting;
  for (size_t i = 0; i < kConnections; ++i) {
    waiting.push_back(silent_connection(port.addresses[0]));
  }
  NoDescriptors few;
  for (int64_t step = now; step < now + 9 * kSecond; step += kSecond / 2) {
    few.allow_one_more();
    port.acceptor->step(step);
    CHECK_FALSE(port.acceptor->shortage().ok());
    CHECK(port.acceptor->stuck(step).ok());
  }
}

// two_nics gives this host the address 10.1.0.1.
TEST_CASE("connect: hosts that may not enter without a key displace only each other",
          "[.two_nics]") {
  constexpr size_t kMaxBarred = 64;
  constexpr size_t kTooMany = 6;
  Port port(1, 2 * kMaxBarred, "0.0.0.0");
  const auto at = [&](const char* host) {
    return SocketAddress::numeric(host, port.addresses[0].port()).value();
  };
  const int64_t now = now_ns();
  const Fd permitted = silent_connection(at("127.0.0.1"));
  std::vector<Fd> barred;
  for (size_t i = 0; i < kMaxBarred + kTooMany; ++i) {
    barred.push_back(silent_connection(at("10.1.0.1")));
  }
  port.acceptor->step(now);
  port.acceptor->step(now);
  CHECK_FALSE(is_closed(permitted));
  for (size_t i = 0; i < barred.size(); ++i) {
    CAPTURE(i);
    CHECK(is_closed(barred[i]) == (i < kTooMany));
  }
}

TEST_CASE("connect: where nobody listens it is tried again until the deadline, or once") {
  const test::ReservedPort silent;
  const auto address = SocketAddress::numeric("127.0.0.1", silent.port()).value();
  Connector::Options options = options_to(address, "wanted");
  const int64_t now = now_ns();
  options.deadline_ns = now + kSecond;
  Connector patient(options);
  int64_t step = now;
  int tries = 0;
  Status ended;
  for (; ended.ok() && tries < 100; ++tries) {
    ended = patient.step(step).status();
    step = std::max(step + 1, patient.next_deadline_ns());
  }
  CHECK(ended.code() == StatusCode::kTimeout);
  CHECK(has(ended.message(), "Connection refused"));
  CHECK(tries > 5);  // 5 ms, 10, 20, ...
  CHECK(tries < 20);
  options.once = true;
  Connector hasty(options);
  Status refused = hasty.step(now).status();
  for (int i = 0; refused.ok() && i < 1000; ++i) {
    refused = hasty.step(now).status();
  }
  CHECK(refused.code() == StatusCode::kConnection);
}

TEST_CASE(
    "connect: a peer that takes the connection and is busy is waited for, where that is right") {
  const Fd listener = listener_at("127.0.0.1");
  const int64_t now = now_ns();
  for (const bool busy : {false, true}) {
    Connector::Options options = options_to(local_address(listener.get()).value(), "wanted");
    options.deadline_ns = now + kSecond;
    options.peer_may_be_busy = busy;
    Connector connector(options);
    CHECK(connector.step(now).ok());
    const Status late = connector.step(now + 2 * kSecond).status();
    CHECK(late.code() == (busy ? StatusCode::kOk : StatusCode::kTimeout));
    CHECK((busy || has(late.message(), "it took the connection and did not answer")));
  }
}

// A restart explains a few lost handshakes, nothing explains many.
TEST_CASE("connect: a busy peer that drops every handshake is given up in the end") {
  constexpr int kTooMany = 20;
  const Fd listener = listener_at("127.0.0.1");
  const int64_t now = now_ns();
  Connector::Options options = options_to(local_address(listener.get()).value(), "wanted");
  options.deadline_ns = now + kSecond;
  options.peer_may_be_busy = true;
  Connector connector(options);
  int64_t step = now;  // of the connector's clock: it is late when the first handshake is lost
  Status ended;
  int dropped = 0;
  for (const Deadline limit = deadline_after(std::chrono::seconds(30));
       ended.ok() && dropped < kTooMany && !passed(limit);) {
    ended = connector.step(step).status();
    if (accept_from(listener.get()).value().has_value()) {
      ++dropped;
      step += 2 * kSecond;
    } else if (const int64_t pause_ends = connector.next_deadline_ns();
               pause_ends < step + kSecond) {
      step = std::max(step, pause_ends);
    }
  }
  CHECK(dropped < kTooMany);
  CHECK(ended.code() == StatusCode::kTimeout);
  CHECK(has(ended.message(), "the peer closed the connection during the handshake"));
}

TEST_CASE("connect: an address that needs a key is not reached without one") {
  const auto elsewhere = SocketAddress::numeric("192.0.2.1", 4000).value();
  Connector connector(options_to(elsewhere, "wanted"));
  CHECK(connector.step(now_ns()).status().code() == StatusCode::kUnauthenticated);
}

TEST_CASE("connect: refusals are counted by reason, so many and no more") {
  Refusals refusals;
  CHECK(refusals.text().empty());
  for (const char* why : {"one", "two", "three", "four", "five", "one", "six"}) {
    refusals.note(std::string("host of ") + why, why);
  }
  CHECK(
      refusals.text() ==
      "7 connections came and were sent away: 2 times, at last host of one: one; host of two: two; "
      "host of three: three; host of six: six; 2 for other reasons");
  refusals.clear();
  CHECK(refusals.text().empty());
}
