// When a connection is woken for what arrives, over real sockets on loopback, and what it writes.
#include "transport/tcp/connection.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "catch.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho::tcp {
namespace {

constexpr size_t kPayload = 8192;

struct Ends {
  Fd writer;
  std::unique_ptr<Socket> reader;
};

Ends connected_pair() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), generic, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
  Fd writer(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(::connect(writer.get(), generic, size) == 0);
  Fd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
  REQUIRE(accepted.get() >= 0);
  return {std::move(writer), std::make_unique<Socket>(std::move(accepted))};
}

class Reader {
 public:
  explicit Reader(Ends ends) : writer_(std::move(ends.writer)), reader_(std::move(ends.reader)) {
    Frame frame;
    frame.payload_bytes = kPayload;
    const FrameBytes header = encode(frame);
    message_.assign(header.begin(), header.end());
    message_.resize(kFrameBytes + kPayload, std::byte{7});
    epoll_ = Fd(::epoll_create1(0));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    REQUIRE(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, reader_.socket().fd.get(), &event) == 0);
  }

  void send(size_t from, size_t to) {
    REQUIRE(::send(writer_.get(), message_.data() + from, to - from, 0) ==
            static_cast<ssize_t>(to - from));
  }
  // Whether an edge came within `timeout_ms`.
  bool edge(int timeout_ms) {
    epoll_event event{};
    const bool came = ::epoll_wait(epoll_.get(), &event, 1, timeout_ms) == 1;
    reader_.socket().readable |= came;
    return came;
  }
  // Reads what there is; asks to be woken for the rest.
  bool read() {
    const Bytes part(payload_);
    const std::span<const Bytes> parts(&part, 1);
    const auto header = reader_.read_header(HeaderRead::kWithPayload, parts);
    REQUIRE(header.ok());
    bool complete = *header;
    if (complete) {
      const auto payload = reader_.read_payload(parts, kPayload);
      REQUIRE(payload.ok());
      complete = *payload;
    }
    if (!complete) {
      reader_.await_rest(HeaderRead::kWithPayload, kPayload);
    } else {
      reader_.next_message();
    }
    return complete;
  }
  [[nodiscard]] size_t message_bytes() const { return message_.size(); }
  // A whole message comes, and its reader's host has all of it.
  void send_whole() {
    send(0, message_.size());
    const Deadline limit = deadline_after(std::chrono::seconds(60));
    for (int here = 0; here < static_cast<int>(message_.size());) {
      REQUIRE_FALSE(passed(limit));
      REQUIRE(::ioctl(reader_.socket().fd.get(), FIONREAD, &here) == 0);
    }
  }
  Connection& connection() { return reader_; }

 private:
  Fd writer_;
  Fd epoll_;
  Connection reader_;
  std::vector<std::byte> message_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(kPayload);
};

// A connection that writes, and the other end.
struct WriterEnds {
  Connection connection;
  Fd reader;
};

WriterEnds socket_pair() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  return {Connection(std::make_unique<Socket>(Fd(ends[0]))), Fd(ends[1])};
}

std::vector<std::byte> counted(size_t size, uint8_t first) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<uint8_t>(first + i * 7));
  }
  return bytes;
}

constexpr int kLong = 10'000;  // milliseconds; only a failure waits for them

}  // namespace

TEST_CASE("a message cut anywhere wakes its reader once all of it is there") {
  for (const size_t cut : {size_t{1},
                           size_t{8},
                           kFrameBytes - 1,
                           kFrameBytes,
                           kFrameBytes + 1,
                           kFrameBytes + kPayload / 2,
                           kFrameBytes + kPayload - 1}) {
    INFO("cut after " << cut << " bytes");
    Reader reader(connected_pair());
    for (int message = 0; message < 3; ++message) {
      reader.send(0, cut);
      while (!reader.connection().may_read()) {
        // The mark of the message before may hold the first part back.
        if (!reader.edge(20)) {
          (void)reader.connection().look_below_mark();
        }
      }
      CHECK_FALSE(reader.read());
      reader.send(cut, reader.message_bytes());
      bool complete = false;
      while (!complete) {
        REQUIRE(reader.edge(kLong));
        complete = reader.read();
      }
    }
  }
}

TEST_CASE("what stays below the mark is found by looking") {
  Reader reader(connected_pair());
  CHECK_FALSE(reader.read());
  CHECK_FALSE(reader.connection().look_below_mark());
  reader.send(0, kFrameBytes);  // as a peer does whose message is shorter than awaited
  CHECK_FALSE(reader.edge(50));
  CHECK_FALSE(reader.connection().may_read());
  pollfd readable{reader.connection().socket().fd.get(), POLLIN, 0};
  for (int i = 0; i < kLong && !reader.connection().look_below_mark(); ++i) {
    (void)::poll(&readable, 1, 1);
  }
  CHECK(reader.connection().may_read());
  CHECK_FALSE(reader.read());
  CHECK(reader.connection().header_complete());
}

TEST_CASE("what comes while nothing is awaited wakes nobody, and is read once it is awaited") {
  Reader reader(connected_pair());
  CHECK_FALSE(reader.read());
  for (int message = 0; message < 3; ++message) {
    reader.connection().await_nothing();
    reader.send_whole();
    CHECK_FALSE(reader.edge(0));
    CHECK_FALSE(reader.connection().may_read());
    reader.connection().begin_awaiting();
    CHECK(reader.read());
    CHECK_FALSE(reader.read());
  }
}

TEST_CASE("who awaits a message again after nothing was awaited is woken for it") {
  const bool comes_before = GENERATE(false, true);
  Reader reader(connected_pair());
  CHECK_FALSE(reader.read());
  for (int message = 0; message < 3; ++message) {
    reader.connection().await_nothing();
    if (comes_before) {
      reader.send_whole();
      reader.connection().socket().readable = false;  // as after a read that came too soon
    }
    CHECK_FALSE(reader.read());
    if (!comes_before) {
      reader.send_whole();
    }
    REQUIRE(reader.edge(kLong));
    CHECK(reader.read());
    CHECK_FALSE(reader.read());
  }
}

TEST_CASE("a message that leaves a few bytes at a time is each byte once, in order") {
  FrameBytes header{};
  const std::vector<std::byte> head = counted(kFrameBytes, 1);
  std::copy(head.begin(), head.end(), header.begin());
  const std::vector<std::byte> first = counted(19, 100);
  const std::vector<std::byte> second = counted(30, 200);
  const std::array<ConstBytes, 3> parts{ConstBytes(first), ConstBytes(), ConstBytes(second)};
  std::vector<std::byte> message = head;
  message.insert(message.end(), first.begin(), first.end());
  message.insert(message.end(), second.begin(), second.end());
  for (const size_t limit : {size_t{1}, size_t{7}, kFrameBytes - 1, kFrameBytes, kFrameBytes + 5}) {
    INFO("at most " << limit << " bytes at a time");
    WriterEnds ends = socket_pair();
    for (size_t offset = 0; offset < message.size();) {
      const auto written = ends.connection.write(header, parts, offset, limit);
      REQUIRE(written.ok());
      REQUIRE(*written == std::min(limit, message.size() - offset));
      offset += *written;
    }
    std::vector<std::byte> got(message.size() + 1);
    const ssize_t size = ::recv(ends.reader.get(), got.data(), got.size(), 0);
    REQUIRE(size == static_cast<ssize_t>(message.size()));
    got.resize(message.size());
    CHECK(got == message);
  }
}

// As a child that was forked keeps it open.
TEST_CASE("a closed socket wakes its poller no more, also where its connection stays open") {
  auto poller = Poller::create();
  REQUIRE(poller.ok());
  Ends ends = connected_pair();
  Socket& socket = *ends.reader;
  const Fd copy(::dup(socket.fd.get()));
  bool event = false;
  socket.event = &event;
  REQUIRE((*poller)->add(socket).ok());
  const auto comes = [&] {
    event = false;
    REQUIRE(::write(ends.writer.get(), "x", 1) == 1);
    REQUIRE((*poller)->poll().ok());
    return event;
  };
  CHECK(comes());
  socket.close();
  CHECK_FALSE(comes());
}

}  // namespace ho::tcp
