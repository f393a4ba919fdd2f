// How a lost control connection's peer is looked for: what proves that it is gone, who answers in
// its place, and hundreds that come back at once. The clock is the test's own.
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bootstrap/control/redial.hpp"
#include "bootstrap/control/sessions.hpp"
#include "connect/acceptor.hpp"
#include "must_have.hpp"
#include "peer_ends.hpp"
#include "planes.hpp"
#include "scoped_variable.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr int64_t kTickNs = 10'000'000;
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kJob = 77;

SocketAddress on_loopback(uint16_t port, const std::string& host = "127.0.0.1") {
  return SocketAddress::numeric(host, port).value();
}

// Where nobody takes what has come, the kernel answers no more.
class SilentHost {
 public:
  explicit SilentHost(const std::string& host = "127.0.0.1")
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const SocketAddress any = on_loopback(0, host);
    REQUIRE(::bind(listener_.get(), any.get(), any.size_bytes()) == 0);
    REQUIRE(::listen(listener_.get(), 0) == 0);
    for (int i = 0; i < 4; ++i) {
      waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)::connect(waiting_.back().get(), address().get(), address().size_bytes());
    }
  }
  [[nodiscard]] SocketAddress address() const { return local_address(listener_.get()).value(); }
  // The kernel sends a first packet again after a second.
  void answer() { (void)accept_from(listener_.get()); }

 private:
  Fd listener_;
  std::vector<Fd> waiting_;
};

wire::Addresses addresses_of(uint16_t port, std::vector<std::string> hosts = {}) {
  return {.port = port, .hosts = std::move(hosts)};
}

Redial::Setup setup_of(uint32_t rank, const ControlFailover& options = {}) {
  return {.options = options,
          .key = key_of(),
          .coordinator = "rank 0 (node0, pid 7)",
          .self = "rank " + std::to_string(rank),
          .who = {.job_id = kJob, .rank = rank}};
}

// A connection to 127.0.0.1, as the one that is lost.
struct Lost {
  Fd listener = listen_on(on_loopback(0)).value();
  Fd fd = raw_connection(local_address(listener.get()).value().port());
};

// What answers at a port of several addresses: an acceptor of `purpose` whose judge is the test's.
std::unique_ptr<Acceptor> acceptor_of(
    Fd listener,
    const std::string& purpose,
    const Status& judged,
    const std::function<void(std::unique_ptr<Socket>)>& deliver = [](auto) {}) {
  Acceptor::Options options;
  options.name = "a test";
  options.purpose = purpose;
  options.key = key_of();
  options.judge = [judged](const Acceptor::Arrival&) { return judged; };
  options.deliver = [deliver](const Acceptor::Arrival&, std::unique_ptr<Socket> socket) {
    deliver(std::move(socket));
  };
  std::vector<Fd> listeners;
  listeners.push_back(std::move(listener));
  return Acceptor::open(std::move(listeners), std::move(options)).value();
}

// A coordinator's sessions with ranks whose connections are socket pairs.
struct Coordinating {
  PeerEnds peers;
  std::unique_ptr<Sessions> sessions;
  wire::Addresses at;

  explicit Coordinating(uint32_t ranks) : peers(ranks) {
    Sessions::Setup setup;
    setup.options.on = true;
    setup.key = key_of();
    setup.job_id = kJob;
    setup.names.resize(ranks, "a rank");
    sessions = Sessions::open(std::move(setup), 0, peers.epoll.get(), peers.connections).value();
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      for (const wire::Message& message : peers.messages_at(rank)) {
        at = must_have(wire::decode<wire::Addresses>(message.body));
      }
      sessions->set_addresses(rank, addresses_of(at.port));
    }
  }
};

}  // namespace

TEST_CASE("a host is named only when the loss of a path to it may have been found") {
  const ScopedVariable detect("HORING_FAILOVER_DETECT_MS", "5000");
  const ControlFailover options = must_have(ControlFailover::from_environment());
  CHECK(options.silence == 5s);
  CHECK(options.notice == 6s);
}

TEST_CASE("a host that answers on no path is waited for only so long") {
  ControlFailover options;
  options.notice = 10ms;
  options.wait = 50ms;
  const SilentHost host;
  PeerPaths paths(options, "rank 5 (node1, pid 7)", addresses_of(host.address().port()), {});
  int64_t now = now_ns();
  paths.begin(host.address(), now, now);
  PeerPaths::Found found = PeerPaths::Found::kNothing;
  for (int i = 0; i < 1000 && found == PeerPaths::Found::kNothing; ++i) {
    found = paths.step(now += kTickNs);
  }
  CHECK(found == PeerPaths::Found::kTooLate);
  CHECK(paths.silent_for(now) >= options.wait);
}

TEST_CASE("a host is waited for until each path to it has been tried, whatever the time") {
  ControlFailover options;
  options.wait = 0ms;
  SilentHost host;
  PeerPaths paths(options, "rank 5 (node1, pid 7)", addresses_of(host.address().port()), {});
  const int64_t now = now_ns();
  paths.begin(host.address(), now - 3600 * kSecondNs, now);
  PeerPaths::Found found = paths.step(now);
  host.answer();
  for (const Deadline limit = deadline_after(kFar);
       !passed(limit) && found == PeerPaths::Found::kNothing;) {
    std::this_thread::sleep_for(PeerPaths::kStep);
    found = paths.step(now);
  }
  CHECK(found == PeerPaths::Found::kAnswer);
}

TEST_CASE("what happened on which path is said of a host where nobody listens on one of them") {
  ControlFailover options;
  options.notice = 10ms;
  options.wait = 50ms;
  const SilentHost host("127.0.0.2");
  const auto addresses = addresses_of(host.address().port(), {"127.0.0.2", "127.0.0.3"});
  PeerPaths paths(options, "rank 5 (node1, pid 7)", addresses, {});
  int64_t now = now_ns();
  paths.begin(host.address(), now, now);
  PeerPaths::Found found = PeerPaths::Found::kNothing;
  for (int i = 0; i < 1000 && found == PeerPaths::Found::kNothing; ++i) {
    found = paths.step(now += kTickNs);
  }
  CHECK(found == PeerPaths::Found::kTooLate);
  const std::string how = paths.how_silent(now);
  INFO(how);
  CHECK(how.find("127.0.0.2 did not answer, and 127.0.0.3 refused it, nobody listens there: the "
                 "process has ended, or another host has that address") != std::string::npos);
}

TEST_CASE("a rank whose host refuses over a path of another rank of that host has ended") {
  const bool same_host = GENERATE(true, false);
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  PeerConnections connections(epoll.get(), 3);
  const Fd listener = listen_on(on_loopback(0)).value();
  const std::vector<std::string> hosts{"127.0.0.2", "127.0.0.3"};
  std::vector<Fd> ends;
  for (uint32_t rank = 1; rank < 3; ++rank) {
    ends.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SocketAddress from = on_loopback(0, hosts[rank - 1]);
    const SocketAddress to = must_have(local_address(listener.get()));
    REQUIRE(::bind(ends.back().get(), from.get(), from.size_bytes()) == 0);
    REQUIRE(::connect(ends.back().get(), to.get(), to.size_bytes()) == 0);
    REQUIRE(
        connections.add(rank, std::move(must_have(accept_from(listener.get())).value().fd), true)
            .ok());
  }
  Sessions::Setup setup;
  setup.options.on = true;
  setup.key = key_of();
  setup.names.resize(3, "a rank");
  const ControlFailover options = setup.options;
  auto sessions = Sessions::open(std::move(setup), 0, epoll.get(), connections).value();
  const SilentHost silent("127.0.0.2");
  const uint16_t port = silent.address().port();
  sessions->set_addresses(1, addresses_of(port, hosts));
  sessions->set_addresses(
      2, addresses_of(port, same_host ? hosts : std::vector<std::string>{"127.0.0.3"}));
  REQUIRE(sessions->lost(1, "its path is lost"));
  const int64_t begin = now_ns();
  int64_t now = begin;
  std::vector<Sessions::Gone> gone;
  while (now < begin + 60 * kSecondNs && gone.empty()) {
    gone = sessions->step(Deadline(std::chrono::nanoseconds(now += kTickNs)));
  }
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].rank == 1);
  CHECK(gone[0].how.ok() == same_host);
  CHECK(now - begin >= ns_of(options.notice));
  CHECK((now - begin < ns_of(options.wait)) == same_host);
}

TEST_CASE("time in which this process did not run does not count against a host") {
  ControlFailover options;
  options.wait = 20s;
  const SilentHost host;
  PeerPaths paths(options, "rank 5 (node1, pid 7)", addresses_of(host.address().port()), {});
  const int64_t begin = now_ns();
  int64_t now = begin;
  paths.begin(host.address(), now, now);
  while (now < begin + 5 * kSecondNs) {
    REQUIRE(paths.step(now += kTickNs) == PeerPaths::Found::kNothing);
  }
  const int64_t stopped = now;
  now += 3600 * kSecondNs;
  const int64_t goes_on = now;
  while (now < goes_on + 14 * kSecondNs) {
    REQUIRE(paths.step(now) == PeerPaths::Found::kNothing);
    now += kTickNs;
  }
  while (now < goes_on + 25 * kSecondNs && paths.step(now) == PeerPaths::Found::kNothing) {
    now += kTickNs;
  }
  CHECK((stopped - begin) + (now - goes_on) < 21 * kSecondNs);
}

TEST_CASE("a rank that was stopped while its connection broke waits as long as any other") {
  ControlFailover options;
  options.wait = 20s;
  const SilentHost host;
  const Lost lost;
  Redial redial(setup_of(1, options), addresses_of(host.address().port()), {}, lost.fd.get());
  const int64_t begin = now_ns();
  REQUIRE(redial.look(lost.fd.get(), begin).ok());
  int64_t now = begin + 60 * kSecondNs;
  redial.begin("Connection reset by peer", 0, now);
  while (now < begin + 79 * kSecondNs) {
    REQUIRE(redial.step(now += kTickNs).ok());
  }
  Status status;
  while (now < begin + 82 * kSecondNs && status.ok()) {
    status = redial.step(now += kTickNs).status();
  }
  CHECK(has(status, "its host has answered on no path for 20"));
}

TEST_CASE("another service or another job's rank 0 at an address ends no rank") {
  const std::vector<SocketAddress> each{SocketAddress::numeric("127.0.0.2", 0).value(),
                                        SocketAddress::numeric("127.0.0.3", 0).value(),
                                        SocketAddress::numeric("127.0.0.4", 0).value(),
                                        on_loopback(0)};
  auto listeners = listen_at_one_port(each, Families::kOwn).value();
  const uint16_t port = local_address(listeners[0].get()).value().port();
  const Fd service = std::move(listeners[0]);
  const std::vector<std::unique_ptr<Acceptor>> others = [&] {
    std::vector<std::unique_ptr<Acceptor>> made;
    made.push_back(acceptor_of(std::move(listeners[1]),
                               Redial::kPurpose,
                               Status(StatusCode::kMismatch, "another job's control plane")));
    made.push_back(acceptor_of(std::move(listeners[2]), "data", {}));
    made.push_back(acceptor_of(std::move(listeners[3]), Redial::kPurpose, {}));
    return made;
  }();
  const Lost lost;
  Redial redial(setup_of(1),
                addresses_of(port, {"127.0.0.2", "127.0.0.3", "127.0.0.4"}),
                {on_loopback(0)},
                lost.fd.get());
  redial.begin("its path is lost", 0, now_ns());
  std::vector<Fd> callers;
  for (const Deadline limit = deadline_after(kFar); !passed(limit);) {
    for (auto caller = must_have(accept_from(service.get())); caller.has_value();
         caller = must_have(accept_from(service.get()))) {
      (void)::send(caller->fd.get(), "220 mail ready\r\n", 16, MSG_NOSIGNAL);
      callers.push_back(std::move(caller->fd));
    }
    for (const auto& other : others) {
      other->step(now_ns());
    }
    auto socket = redial.step(now_ns());
    REQUIRE(socket.ok());
    if (*socket != nullptr) {
      CHECK(must_have(peer_address((*socket)->fd.get())).host() == "127.0.0.1");
      return;
    }
  }
  FAIL("it did not come back");
}

TEST_CASE("hundreds of ranks that come back at once displace nobody") {
  rlimit files{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  const auto ranks = static_cast<uint32_t>(std::min<rlim_t>(300, files.rlim_cur / 20));
  Coordinating world(ranks);
  const Lost lost;
  std::vector<std::unique_ptr<Redial>> redials;
  int64_t now = now_ns();
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    redials.push_back(
        std::make_unique<Redial>(setup_of(rank),
                                 addresses_of(world.at.port, {"127.0.0.2", "127.0.0.3"}),
                                 std::vector<SocketAddress>{},
                                 lost.fd.get()));
    redials.back()->begin("its path is lost", 0, now);
  }
  std::vector<std::unique_ptr<Socket>> sockets(redials.size());
  size_t back = 0;
  size_t turn = 0;
  int64_t before = now_ns();
  for (const Deadline limit = deadline_after(kFar); !passed(limit) && back < redials.size();) {
    // As the clock goes, and no faster than these take turns.
    now += std::clamp<int64_t>(now_ns() - before, 0, kTickNs);
    before = now_ns();
    // Each has one turn in so many: on its host it is not alone, and the way there takes its time.
    constexpr size_t kTurns = 16;
    ++turn;
    for (size_t i = turn % kTurns; i < redials.size(); i += kTurns) {
      if (sockets[i] == nullptr) {
        sockets[i] = must_have(redials[i]->step(now));
        back += sockets[i] != nullptr ? 1U : 0U;
      }
    }
    (void)world.sessions->step(Deadline(std::chrono::nanoseconds(now)));
  }
  CHECK(back == redials.size());
  CHECK(std::ranges::all_of(redials, [](const auto& each) { return each->attempts() == 1; }));
}

TEST_CASE("a rank that was given up hears so from rank 0 when it comes back") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  Fd listener = listen_on(on_loopback(0)).value();
  Fd sessions = listen_on(on_loopback(0)).value();
  const uint16_t port = local_address(listener.get()).value().port();
  const auto addresses = addresses_of(local_address(sessions.get()).value().port());
  const auto welcome = wire::Welcome{
      .job_id = kJob, .coordinator = "rank 0 (node0, pid 7)", .coordinator_address = {}};
  std::unique_ptr<ControlConnection> lost;
  const auto entry =
      acceptor_of(std::move(listener), "control", {}, [&](std::unique_ptr<Socket> socket) {
        lost = std::make_unique<ControlConnection>(std::move(socket->fd), true);
        lost->queue(wire::Type::kWelcome, 0, ControlConnection::body_of(welcome));
        lost->queue(wire::Type::kAddresses, 0, ControlConnection::body_of(addresses));
        REQUIRE(lost->send_some().ok());
        lost->end_output();
      });
  const auto again =
      acceptor_of(std::move(sessions), Redial::kPurpose, {}, [](std::unique_ptr<Socket> socket) {
        ControlConnection::refuse(std::move(socket->fd), Status(StatusCode::kPeerLost, "given up"));
      });
  auto plane = std::async(std::launch::async, [&] {
    return ControlPlane::create(
        at("tcp://127.0.0.1:" + std::to_string(port), 1, 2), key_of(), deadline_after(kFar));
  });
  const Deadline limit = deadline_after(kFar);
  while (plane.wait_for(1ms) != std::future_status::ready && !passed(limit)) {
    entry->step(now_ns());
  }
  Ear ear;
  const auto rank = plane.get().value();
  ear.listen(*rank);
  while (ear.count() == 0 && !passed(limit)) {
    again->step(now_ns());
  }
  CHECK(has(ear.heard(), "given up"));
}
