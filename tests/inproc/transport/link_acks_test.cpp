// What a link does so that its peer's kernel acknowledges without waiting for a reader: the last
// part of a long message is written for itself, and a socket that nobody reads has a high
// low-water mark, which holds back no message.
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "conformance.hpp"
#include "connect/answers.hpp"
#include "os/socket.hpp"
#include "tcp_ranks.hpp"

namespace ho::conformance {
namespace {

constexpr size_t kHighMark = 65536;
constexpr size_t kPayload = 8192;

// Two ranks in one thread, straight over loopback; rank 0 opens their link.
class Ranks {
 public:
  explicit Ranks(bool fails_over) {
    std::vector<TcpEndpoint> peers;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      TcpCase config;
      config.fails_over = fails_over;
      TcpOptions options = options_of(config, GlobalRank(rank), 2);
      options.rails = {{"", "127.0.0.1"}, {"", "127.0.0.2"}};
      auto transport = TcpTransport::listen(options);
      REQUIRE(transport.ok());
      transports_.at(rank) = *std::move(transport);
      peers.push_back(transports_.at(rank)->endpoint());
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      at(rank).set_peers(peers);
      const auto link = at(rank).link({GlobalRank(1 - rank), RailIndex(0), 0, 0});
      REQUIRE(link.ok());
      links_.at(rank) = *link;
    }
  }

  [[nodiscard]] TcpTransport& at(uint32_t rank) const { return *transports_.at(rank); }
  [[nodiscard]] Link& link(uint32_t rank) const { return *links_.at(rank); }
  // Of the one connection that there is.
  [[nodiscard]] int socket(uint32_t rank) const {
    const uint16_t port = at(1).endpoint().port;
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename().string());
      const auto peer = peer_address(fd);
      const auto own = local_address(fd);
      if (peer.ok() && own.ok() && (rank == 0 ? peer->port() : own->port()) == port) {
        found.push_back(fd);
      }
    }
    REQUIRE(found.size() == 1);
    return found.front();
  }
  [[nodiscard]] size_t low_water() const {
    int value = 0;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(socket(1), SOL_SOCKET, SO_RCVLOWAT, &value, &size) == 0);
    return static_cast<size_t>(value);
  }

  void drive_until(const std::function<bool()>& done) const {
    for (const Deadline limit = deadline_after(kHang); !done();) {
      REQUIRE_FALSE(passed(limit));
      REQUIRE(at(0).progress().ok());
      REQUIRE(at(1).progress().ok());
    }
  }
  // Rank 0 sends a message; true: all of it has left.
  [[nodiscard]] bool send(size_t bytes) {
    outgoing_.push_back(pattern(sent_, bytes));
    return send_on();
  }
  [[nodiscard]] bool send_on() {
    const ConstBytes part(outgoing_.back());
    const auto accepted = link(0).try_send(frame_of(sent_, part.size()), std::span(&part, 1));
    REQUIRE(accepted.ok());
    sent_ += *accepted ? 1U : 0U;
    return *accepted;
  }
  // Rank 1 receives it; true: all of it is there.
  [[nodiscard]] bool receive(size_t bytes) {
    into_.resize(bytes);
    const Bytes part(into_);
    const auto came = link(1).try_recv(frame_of(received_, bytes), std::span(&part, 1));
    REQUIRE(came.ok());
    if (*came) {
      REQUIRE(check_pattern(received_, into_).message() == "");
      ++received_;
    }
    return *came;
  }
  // Rank 1 looks for it.
  [[nodiscard]] bool peek() {
    const auto found = link(1).try_peek(true);
    REQUIRE(found.ok());
    CHECK((!found->has_value() || (*found)->op_index == received_));
    return found->has_value();
  }
  void bring(size_t bytes) {
    bool sent = send(bytes);
    bool came = false;
    drive_until([&] {
      sent = sent || send_on();
      came = came || receive(bytes);
      return sent && came;
    });
  }

 private:
  std::array<std::unique_ptr<TcpTransport>, 2> transports_;
  std::array<Link*, 2> links_{};
  std::deque<std::vector<std::byte>> outgoing_;  // a link may lend them
  std::vector<std::byte> into_;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

struct Segments {
  uint32_t most_bytes = 0;  // of one
  uint32_t sent = 0;        // that carried data
};
Segments segments_of(int fd) {
  constexpr size_t kDataSegmentsAt = 156;  // older C libraries' tcp_info ends before it
  std::array<char, kDataSegmentsAt + sizeof(uint32_t)> bytes{};
  auto size = static_cast<socklen_t>(bytes.size());
  REQUIRE(::getsockopt(fd, IPPROTO_TCP, TCP_INFO, bytes.data(), &size) == 0);
  REQUIRE(size == bytes.size());
  Segments found;
  std::memcpy(&found.most_bytes, bytes.data() + offsetof(tcp_info, tcpi_snd_mss), sizeof(uint32_t));
  std::memcpy(&found.sent, bytes.data() + kDataSegmentsAt, sizeof(uint32_t));
  return found;
}

TEST_CASE("tcp: a message that is nearly too long for one segment is sent as two") {
  const auto [size, expected] = GENERATE(table<size_t, uint32_t>({{8'192, 1},
                                                                  {50'000, 1},
                                                                  {60'000 - kFrameBytes, 1},
                                                                  {60'001 - kFrameBytes, 2},
                                                                  {60'032, 2}}));
  const size_t bytes = size;
  INFO(bytes << " bytes");
  Ranks ranks(GENERATE(false, true));
  ranks.bring(8);
  const auto too_short = [&] {
    return segments_of(ranks.socket(0)).most_bytes < bytes + kFrameBytes;
  };
  // A segment is half of the peer's window at most, which grows.
  for (int i = 0; i < 20 && too_short(); ++i) {
    ranks.bring(1 << 20);
  }
  if (too_short()) {
    WARN("segments of this host's loopback are too short to see it");
    return;
  }
  uint32_t fewest = UINT32_MAX;  // of some messages: a kernel may send a segment again
  for (int message = 0; message < 5; ++message) {
    const int fd = ranks.socket(0);
    ranks.drive_until([&] { return tcp::count_unacknowledged(fd) == 0U; });
    const uint32_t before = segments_of(fd).sent;
    REQUIRE(ranks.send(bytes));
    ranks.drive_until([&] { return ranks.receive(bytes); });
    fewest = std::min(fewest, segments_of(fd).sent - before);
  }
  CHECK(fewest == expected);
}

// The message of kPayload bytes that was sent last is with rank 1's host.
void arrive(const Ranks& ranks) {
  const int fd = ranks.socket(1);
  constexpr auto kAll = static_cast<int>(kFrameBytes + kPayload);
  int here = 0;
  for (const Deadline limit = deadline_after(kHang); here < kAll;) {
    REQUIRE_FALSE(passed(limit));
    REQUIRE(::ioctl(fd, FIONREAD, &here) == 0);
  }
}

TEST_CASE("tcp: what has come while nothing was awaited is there for the next call") {
  Ranks ranks(GENERATE(false, true));
  ranks.bring(8);
  CHECK_FALSE(ranks.peek());
  CHECK(ranks.low_water() < kHighMark);
  for (int message = 0; message < 3; ++message) {
    ranks.at(1).await_nothing();
    CHECK(ranks.low_water() >= kHighMark);
    REQUIRE(ranks.send(kPayload));
    arrive(ranks);
    if (message % 2 == 0) {
      CHECK(ranks.peek());
    }
    CHECK(ranks.receive(kPayload));
    CHECK_FALSE(ranks.peek());
  }
}

TEST_CASE("tcp: a message is received that comes when somebody waits again, or before") {
  Ranks ranks(GENERATE(false, true));
  const bool peeks = GENERATE(false, true);
  const bool comes_before = GENERATE(false, true);
  const auto look = [&] { return peeks ? ranks.peek() : ranks.receive(kPayload); };
  ranks.bring(8);
  ranks.at(1).await_nothing();
  if (comes_before) {
    REQUIRE(ranks.send(kPayload));
  } else {
    CHECK_FALSE(look());
    CHECK(ranks.low_water() < kHighMark);
    REQUIRE(ranks.send(kPayload));
  }
  pollfd wait{ranks.at(1).wait_fd(), POLLIN, 0};
  for (const Deadline limit = deadline_after(kHang); !look();) {
    REQUIRE_FALSE(passed(limit));
    REQUIRE(::poll(&wait, 1, 20'000) == 1);
    REQUIRE(ranks.at(1).progress().ok());
  }
  if (peeks) {
    CHECK(ranks.receive(kPayload));
  }
  ranks.bring(70'000);
}

TEST_CASE("tcp: that nothing is awaited changes no receive that has begun") {
  Ranks ranks(GENERATE(false, true));
  const bool half = GENERATE(false, true);
  constexpr size_t kLong = 8 << 20;
  ranks.bring(8);
  const int buffer = 262144;
  REQUIRE(::setsockopt(ranks.socket(0), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) == 0);
  if (half) {
    REQUIRE_FALSE(ranks.send(kLong));
  }
  REQUIRE_FALSE(ranks.receive(kLong));
  const size_t mark = ranks.low_water();
  ranks.at(1).await_nothing();
  CHECK(ranks.low_water() == mark);
  bool sent = !half && ranks.send(kLong);
  ranks.drive_until([&] {
    sent = sent || ranks.send_on();
    return ranks.receive(kLong);
  });
  ranks.bring(kPayload);
}

TEST_CASE("failover: a link that loses its connection while nothing is awaited goes on") {
  Ranks ranks(true);
  const bool arrives = GENERATE(false, true);
  ranks.bring(8);
  ranks.at(1).await_nothing();
  REQUIRE(ranks.send(kPayload));
  if (arrives) {
    arrive(ranks);
  }
  REQUIRE(::shutdown(ranks.socket(GENERATE(0U, 1U)), SHUT_RDWR) == 0);
  ranks.drive_until([&] { return ranks.receive(kPayload); });
  ranks.drive_until([&] { return ranks.at(0).failovers() > 0 && ranks.at(1).failovers() > 0; });
  ranks.bring(kPayload);
  ranks.at(1).await_nothing();
  ranks.bring(kPayload);
}

}  // namespace
}  // namespace ho::conformance
