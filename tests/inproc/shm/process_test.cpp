// Real processes: a rank per process, and one of them killed.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "catch.hpp"
#include "conformance.hpp"
#include "os/fd.hpp"
#include "shm_ranks.hpp"

namespace ho::conformance {
namespace {

using std::chrono::seconds;

// All-gather between the two processes, over a pair of connected sockets.
GroupExchange exchange_over(int socket, uint32_t self) {
  return [=](std::span<const std::byte> mine) -> Result<std::vector<std::vector<std::byte>>> {
    std::vector<std::byte> other(4096);
    if (::send(socket, mine.data(), mine.size(), MSG_NOSIGNAL) < 0) {
      return system_error("send to the other process", errno);
    }
    const ssize_t got = ::recv(socket, other.data(), other.size(), 0);
    if (got < 0) {
      return system_error("recv from the other process", errno);
    }
    other.resize(static_cast<size_t>(got));
    std::vector<std::vector<std::byte>> blobs(2);
    blobs[self].assign(mine.begin(), mine.end());
    blobs[1 - self] = std::move(other);
    return blobs;
  };
}

// Receives one message in a rank that sleeps between its tries.
Status receive(ShmTransport& transport, Link& link, uint32_t index, Bytes into) {
  const Deadline deadline = deadline_after(seconds(120));
  while (!passed(deadline)) {
    HORING_ASSIGN(const bool got, link.try_recv(frame_of(index, into.size()), {&into, 1}));
    if (got) {
      return {};
    }
    transport.wait({}, deadline);
  }
  return {StatusCode::kTimeout, "message " + std::to_string(index) + " did not come"};
}

constexpr size_t kSmall = 500;
constexpr size_t kLarge = 1 << 20;
constexpr uint32_t kEchoes = 200;

LinkKey key_to(uint32_t peer) {
  LinkKey key;
  key.peer = GlobalRank(peer);
  return key;
}

// Rank 1: echoes, then sends a large message and never ends by itself. Returns an exit status.
int child_main(int socket, const ShmCase& config) {
  const auto transport = ShmTransport::create(
      options_of(config, GlobalRank(1), 2), exchange_over(socket, 1), deadline_after(seconds(120)));
  if (!transport.ok()) {
    return 1;
  }
  Link& link = **(*transport)->link(key_to(0));
  std::vector<std::byte> bytes(kLarge);
  for (uint32_t k = 0; k < kEchoes; ++k) {
    const Bytes part = Bytes(bytes).first(k % 2 == 0 ? kSmall : kLarge);
    if (!receive(**transport, link, k, part).ok()) {
      return 2;
    }
    const ConstBytes back(part);
    const Frame frame = frame_of(k, part.size());
    while (true) {
      const auto sent = link.try_send(frame, {&back, 1});
      if (!sent.ok()) {
        return 3;
      }
      if (*sent) {
        break;
      }
      (*transport)->wait({}, deadline_after(seconds(120)));
    }
    while (link.released() < k + 1) {
      (*transport)->wait({}, deadline_after(seconds(120)));
    }
  }
  const ConstBytes last(bytes);
  const auto sent = link.try_send(frame_of(kEchoes, kLarge), {&last, 1});
  if (!sent.ok()) {
    return 4;
  }
  if (::send(socket, "x", 1, MSG_NOSIGNAL) != 1) {
    return 5;
  }
  while (true) {
    ::pause();
  }
}

Status echo(ShmTransport& transport, Link& link) {
  std::vector<std::byte> back(kLarge);
  for (uint32_t k = 0; k < kEchoes; ++k) {
    const std::vector<std::byte> payload = pattern(k, k % 2 == 0 ? kSmall : kLarge);
    const ConstBytes part(payload);
    // Both directions move in turns: the child reads what this rank writes.
    while (true) {
      HORING_ASSIGN(const bool sent, link.try_send(frame_of(k, part.size()), {&part, 1}));
      if (sent) {
        break;
      }
      transport.wait({}, deadline_after(seconds(120)));
    }
    const Bytes into = Bytes(back).first(part.size());
    HORING_TRY(receive(transport, link, k, into));
    HORING_TRY(check_pattern(k, into));
  }
  return {};
}

class Child {
 public:
  explicit Child(const ShmCase& config) {
    int sockets[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    socket_ = Fd(sockets[0]);
    const Fd other(sockets[1]);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::_exit(child_main(other.get(), config));
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill_and_reap(); }

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool ready_to_die() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) == 1 && byte == 'x';
  }
  void kill_and_reap() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }

 private:
  Fd socket_;
  pid_t pid_ = 0;
};

void check_killed_peer(const ShmCase& config) {
  Child child(config);
  const auto transport = ShmTransport::create(options_of(config, GlobalRank(0), 2),
                                              exchange_over(child.socket(), 0),
                                              deadline_after(seconds(120)));
  REQUIRE(transport.ok());
  const bool in_place =
      (*transport)->single_copy_status() == "process_vm_readv to all ranks of this host";
  INFO("single copy: " << (*transport)->single_copy_status());
  Link& link = **(*transport)->link(key_to(1));
  REQUIRE(echo(**transport, link).to_string() == Status().to_string());
  REQUIRE(child.ready_to_die());
  child.kill_and_reap();

  // The message that the child had sent: its memory is gone, or only a part is in the ring.
  std::vector<std::byte> bytes(kLarge);
  const Bytes part(bytes);
  const auto got = link.try_recv(frame_of(kEchoes, kLarge), {&part, 1});
  if (in_place) {
    REQUIRE_FALSE(got.ok());
    CHECK(got.status().code() == StatusCode::kPeerLost);
    CHECK(got.status().message().find("rank 1") != std::string::npos);
  } else {
    REQUIRE(got.ok());
    CHECK_FALSE(*got);
  }
  // Nothing crashes or hangs for want of a reader.
  const ConstBytes back = ConstBytes(bytes).first(kSmall);
  bool sent = true;
  for (uint32_t k = 0; sent && k < 10000; ++k) {
    const auto result = link.try_send(frame_of(k, kSmall), {&back, 1});
    REQUIRE(result.ok());
    sent = *result;
  }
  CHECK_FALSE(sent);
  // A rank that sleeps finds that out by itself: nobody is left to ring.
  Status lost;
  const Deadline deadline = deadline_after(seconds(120));
  while (lost.ok() && !passed(deadline)) {
    (*transport)->wait({}, deadline_after(std::chrono::milliseconds(20)));
    lost = link.try_send(frame_of(0, kSmall), {&back, 1}).status();
  }
  CHECK(lost.code() == StatusCode::kPeerLost);
  const auto none = link.try_recv(frame_of(kEchoes, kLarge), {&part, 1});
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == StatusCode::kPeerLost);
}

TEST_CASE("a killed process is noticed by its peer, with payloads read in place") {
  check_killed_peer({});
}

TEST_CASE("a killed process is noticed by its peer, with payloads through the ring") {
  ShmCase config;
  config.single_copy = false;
  check_killed_peer(config);
}

}  // namespace
}  // namespace ho::conformance
