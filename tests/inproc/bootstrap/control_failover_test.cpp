// Control connections that are lost and go on: at every byte, both ways, again and again; and the
// processes behind them that end or are stopped meanwhile.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "bootstrap/control/control_connection.hpp"
#include "must_have.hpp"
#include "planes.hpp"
#include "rank_process.hpp"
#include "scoped_variable.hpp"

using namespace ho;
using namespace ho::test;
using namespace std::chrono_literals;

namespace {

std::pair<Fd, Fd> pair_of_sockets() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

// A coordinator's connection and a rank's, over sockets that let only so much through.
class CutConnections {
 public:
  CutConnections() {
    auto [dialled, dialled_far] = pair_of_sockets();
    auto [dialler, dialler_far] = pair_of_sockets();
    ends_[0] = std::make_unique<ControlConnection>(std::move(dialled), true);
    ends_[1] = std::make_unique<ControlConnection>(std::move(dialler), true);
    far_ = {std::move(dialled_far), std::move(dialler_far)};
  }
  ControlConnection& end(size_t which) { return *ends_[which]; }
  // Lets so many bytes through to each end, and then loses both sockets. What came by then is
  // appended to `came`. False: all had come before.
  bool run(const std::array<size_t, 2>& limits, std::array<std::vector<uint64_t>, 2>& came) {
    std::array<size_t, 2> left = limits;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t to = 0; to < 2; ++to) {
        (void)ends_[1 - to]->send_some();
        std::vector<std::byte> bytes(std::min<size_t>(left[to], 7));
        const ssize_t got = ::recv(far_[1 - to].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got > 0) {
          REQUIRE(::send(far_[to].get(), bytes.data(), static_cast<size_t>(got), 0) == got);
          left[to] -= static_cast<size_t>(got);
          moved = true;
        }
        take(to, came[to]);
      }
    }
    const bool cut = left[0] == 0 || left[1] == 0;
    if (cut) {
      lose();
    }
    return cut;
  }

 private:
  void take(size_t at, std::vector<uint64_t>& came) {
    REQUIRE(ends_[at]->read_some().ok());
    for (auto message = ends_[at]->next(); message.ok() && message->has_value();
         message = ends_[at]->next()) {
      CHECK((*message)->body.size() == (*message)->header.id % 5);
      came.push_back((*message)->header.id);
    }
  }
  void lose() {
    auto [dialled, dialled_far] = pair_of_sockets();
    auto [dialler, dialler_far] = pair_of_sockets();
    ends_[0]->lose();
    ends_[1]->lose();
    const Status first = ends_[0]->resume(std::move(dialled), ends_[1]->received());
    const Status second = ends_[1]->resume(std::move(dialler), std::nullopt);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    far_ = {std::move(dialled_far), std::move(dialler_far)};
  }

  std::array<std::unique_ptr<ControlConnection>, 2> ends_;
  std::array<Fd, 2> far_;
};

void queue_all(CutConnections& connections, const std::vector<uint64_t>& ids) {
  for (const uint64_t id : ids) {
    for (size_t end = 0; end < 2; ++end) {
      connections.end(end).queue(
          wire::Type::kReport, id, ControlConnection::body_of(wire::Buffer(id % 5)));
    }
  }
}

std::vector<uint64_t> up_to(uint64_t count) {
  std::vector<uint64_t> all(count);
  for (uint64_t i = 0; i < count; ++i) {
    all[i] = i;
  }
  return all;
}

std::vector<int> descriptors_of_this_process() {
  std::vector<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    all.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return all;
}

// Every TCP connection of this process, as when its path is lost: closed, or reset. Its threads use
// them meanwhile, which TSan would take for a race between two calls with one descriptor: so these
// are the bare system calls.
size_t cut_connections(bool reset) {
  size_t cut = 0;
  for (const int fd : descriptors_of_this_process()) {
    if (const auto peer = peer_address(fd); !peer.ok() || peer->family() == AF_UNIX) {
      continue;
    }
    const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
    const bool done = reset ? ::syscall(SYS_connect, fd, &none, sizeof none) == 0
                            : ::syscall(SYS_shutdown, fd, SHUT_RDWR) == 0;
    cut += done ? 1 : 0;
  }
  return cut;
}

// Where this process listens for TCP, as a rank of its own host reaches it.
std::vector<SocketAddress> listening_at() {
  std::vector<SocketAddress> all;
  for (const int fd : descriptors_of_this_process()) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
      continue;
    }
    if (const auto own = local_address(fd); own.ok() && own->family() != AF_UNIX) {
      all.push_back(SocketAddress::numeric("127.0.0.1", own->port()).value());
    }
  }
  return all;
}

// The other end of a TCP connection of this process.
SocketAddress peer_of_this_process() {
  for (const Deadline limit = deadline_after(kFar); !passed(limit);) {
    for (const int fd : descriptors_of_this_process()) {
      if (const auto peer = peer_address(fd); peer.ok() && peer->family() != AF_UNIX) {
        return *peer;
      }
    }
  }
  return {};
}

Fd connection_to(const SocketAddress& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)::connect(fd.get(), address.get(), address.size_bytes());
  return fd;
}

// Whether the kernel takes it for whoever listens there.
bool is_taken(const Fd& connection, int within_ms) {
  pollfd entry{.fd = connection.get(), .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, within_ms) == 1 && (entry.revents & POLLERR) == 0;
}

// What a rank's process forks, as a data loader does: it lives until its end of this is closed.
class ForkedChild {
 public:
  ForkedChild() : ends_(pair_of_sockets()) {}
  // In the rank's process.
  void fork_it() {
    if (::fork() == 0) {
      ends_.first.reset();
      pollfd entry{.fd = ends_.second.get(), .events = POLLIN, .revents = 0};
      const bool sent = ::send(ends_.second.get(), "x", 1, 0) == 1;
      ::_exit(sent && ::poll(&entry, 1, -1) == 1 ? 0 : 1);
    }
  }
  [[nodiscard]] bool is_there() const {
    pollfd entry{.fd = ends_.first.get(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kFar).count())) == 1;
  }

 private:
  std::pair<Fd, Fd> ends_;
};

}  // namespace

TEST_CASE("control messages pass once and in order wherever a connection is cut") {
  const std::vector<uint64_t> all = up_to(7);
  constexpr size_t kMoreThanAll = 400;
  for (size_t direction = 0; direction < 2; ++direction) {
    for (size_t limit = 1; limit < kMoreThanAll; ++limit) {
      CutConnections connections;
      queue_all(connections, all);
      std::array<std::vector<uint64_t>, 2> came;
      std::array<size_t, 2> limits{SIZE_MAX, SIZE_MAX};
      limits.at(direction) = limit;
      if (connections.run(limits, came)) {
        REQUIRE_FALSE(connections.run({SIZE_MAX, SIZE_MAX}, came));
      }
      INFO("cut after byte " << limit << " to end " << direction);
      REQUIRE(came[0] == all);
      REQUIRE(came[1] == all);
    }
  }
}

TEST_CASE("control messages pass once and in order over many cut connections in a row") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::vector<uint64_t> all = up_to(100);  // more than are counted at once
    CutConnections connections;
    queue_all(connections, all);
    std::array<std::vector<uint64_t>, 2> came;
    // From less than a header, to more than there is.
    while (connections.run({1 + random() % 900, 1 + random() % 900}, came)) {
    }
    INFO("seed " << seed);
    REQUIRE(came[0] == all);
    REQUIRE(came[1] == all);
  }
}

TEST_CASE("a peer that counts messages which were never sent is refused") {
  auto [near, far] = pair_of_sockets();
  ControlConnection connection(std::move(near), true);
  connection.queue(wire::Type::kReport);
  REQUIRE(connection.send_some().ok());
  connection.lose();
  auto [again, again_far] = pair_of_sockets();
  const Status refused = connection.resume(std::move(again), 2);
  CHECK(refused.code() == StatusCode::kProtocol);
}

TEST_CASE("gathers go on while all control connections are cut again and again") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  std::array<Ear, 4> ears;
  const auto planes = world(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ears.at(rank).listen(*planes[rank]);
  }
  constexpr size_t kRounds = 40;
  size_t cut = 0;
  // After a gather all ranks know where the others are found.
  std::vector<std::future<Gathered>> up;
  up.reserve(planes.size());
  for (const Plane& plane : planes) {
    up.push_back(gather(*plane, "up", ""));
  }
  for (auto& one : up) {
    REQUIRE(one.get().ok());
  }
  for (size_t round = 0; round < kRounds; ++round) {
    std::vector<std::future<Gathered>> pending;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      pending.push_back(gather(*planes[rank],
                               std::to_string(round),
                               std::string(size_t{rank} * 20'000, static_cast<char>('a' + rank))));
    }
    cut += cut_connections(round % 2 == 0);
    for (auto& one : pending) {
      auto result = one.get();
      INFO(result.status().message());
      REQUIRE(result.ok());
      for (uint32_t rank = 0; rank < 4; ++rank) {
        CHECK(as_string(result->at(rank)) ==
              std::string(size_t{rank} * 20'000, static_cast<char>('a' + rank)));
      }
    }
  }
  CHECK(cut >= 2 * kRounds);
  for (Ear& ear : ears) {
    CHECK(ear.count() == 0);
  }
}

TEST_CASE("a killed process is found at once though lost connections are waited for") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  const ScopedVariable wait("HORING_FAILOVER_WAIT_MS", "3600000");
  const ReservedPort port;
  const std::string address = port.text();
  RankProcess other(at(address, 1, 2));
  Ear ear;
  auto plane = ControlPlane::create(at(address, 0, 2), key_of(), deadline_after(kFar)).value();
  ear.listen(*plane);
  REQUIRE(gather(*plane, "up", "").get().ok());
  other.end(SIGKILL);
  CHECK(has(ear.heard(), "closed without a goodbye"));
}

TEST_CASE("the end of rank 0 is found at once though lost connections are waited for") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  const ScopedVariable wait("HORING_FAILOVER_WAIT_MS", "3600000");
  const ReservedPort port;
  const std::string address = port.text();
  RankProcess other(at(address, 0, 2));
  Ear ear;
  auto plane = ControlPlane::create(at(address, 1, 2), key_of(), deadline_after(kFar)).value();
  ear.listen(*plane);
  REQUIRE(gather(*plane, "up", "").get().ok());
  other.end(SIGKILL);
  const Status heard = ear.heard();
  CHECK(has(heard, "rank 0"));
  CHECK(has(heard, "closed without a goodbye"));
}

TEST_CASE("a stopped process stays as long as its kernel answers, though its connection is lost") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  const ScopedVariable wait("HORING_FAILOVER_WAIT_MS", "200");
  const ReservedPort port;
  const std::string address = port.text();
  RankProcess other(at(address, 1, 2));
  Ear ear;
  auto plane = ControlPlane::create(at(address, 0, 2), key_of(), deadline_after(kFar)).value();
  ear.listen(*plane);
  REQUIRE(gather(*plane, "up", "").get().ok());
  other.stop();
  REQUIRE(cut_connections(true) > 0);
  std::this_thread::sleep_for(1s);
  CHECK(ear.count() == 0);
  // It's the kernel alone: once so many wait there that it takes no more, nothing answers.
  const SocketAddress listens = peer_of_this_process();
  constexpr int kSoonMs = 500;
  int waiting = 0;
  while (waiting < 4 * kBacklog && is_taken(connection_to(listens), kSoonMs)) {
    ++waiting;
  }
  REQUIRE(cut_connections(true) > 0);
  CHECK(has(ear.heard(), "its host has answered on no path"));
}

TEST_CASE("the end of a process is found at once though a forked child of it lives on") {
  const ScopedVariable on("HORING_FAILOVER", GENERATE("0", "1"));
  const uint32_t dies = GENERATE(0U, 1U);
  const ReservedPort port;
  const std::string address = port.text();
  ForkedChild child;
  RankProcess other(at(address, dies, 2), "up", [&] { child.fork_it(); });
  Ear ear;
  auto plane =
      must_have(ControlPlane::create(at(address, 1 - dies, 2), key_of(), deadline_after(kFar)));
  ear.listen(*plane);
  REQUIRE(gather(*plane, "up", "").get().ok());
  REQUIRE(child.is_there());
  other.end(SIGKILL);
  CHECK(has(ear.heard(), "closed without a goodbye"));
}

TEST_CASE("who connects to a rank again and again does not keep its kernel from answering") {
  const ScopedVariable on("HORING_FAILOVER", "1");
  const auto planes = world(2);
  auto other = gather(*planes[1], "up", "");
  REQUIRE(gather(*planes[0], "up", "").get().ok());
  REQUIRE(other.get().ok());
  const std::vector<SocketAddress> all = listening_at();
  CHECK(all.size() == 2);
  constexpr int kLongMs = 60'000;
  for (const SocketAddress& address : all) {
    for (int i = 0; i < kBacklog + 100; ++i) {
      REQUIRE(is_taken(connection_to(address), kLongMs));
    }
  }
}
