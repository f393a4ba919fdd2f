// Who reaches a listener of the builtin network without being meant, and handles and records that
// no listener or comm of ours wrote.
#include <spdlog/sinks/base_sink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/log_quota.hpp"
#include "base/logger.hpp"
#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/posted_receives.hpp"
#include "core/builtin/records.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"

namespace ho::plugin::conformance {
namespace {

using HandleBytes = std::array<std::byte, kHandleBytes>;

struct Listening {
  NetDriver* net = nullptr;
  void* listener = nullptr;
  HandleBytes handle{};

  explicit Listening(NetDriver& driver) : net(&driver) {
    REQUIRE(net->listen(nullptr, 0, handle.data(), &listener) == Reply::kSuccess);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { static_cast<void>(net->close_listen(listener)); }

  [[nodiscard]] Handle decoded() const {
    const auto result = decode_handle(handle);
    REQUIRE(result.ok());
    return *result;
  }
};

// Connects while the listener accepts, until one says how it ended.
Reply connect_to(NetDriver& net, Listening& to, HandleBytes handle) {
  void* send = nullptr;
  void* receive = nullptr;
  Reply reply = Reply::kSuccess;
  for (const Deadline deadline = deadline_after(std::chrono::minutes(2));
       reply == Reply::kSuccess && (send == nullptr || receive == nullptr) && !passed(deadline);) {
    if (send == nullptr) {
      reply = net.connect(nullptr, 0, kNoTrafficClass, handle.data(), &send, nullptr);
    }
    if (receive == nullptr) {
      REQUIRE(to.net->accept(to.listener, &receive, nullptr) == Reply::kSuccess);
    }
  }
  if (reply == Reply::kSuccess && (send == nullptr || receive == nullptr)) {
    reply = Reply::kInProgress;
  }
  static_cast<void>(send != nullptr ? net.close_send(send) : Reply::kSuccess);
  static_cast<void>(receive != nullptr ? to.net->close_recv(receive) : Reply::kSuccess);
  return reply;
}

Fd raw_connection(const Handle& handle) {
  const SocketAddress address = handle.socket_address();
  Fd fd(::socket(handle.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(fd.valid());
  REQUIRE(::connect(fd.get(), address.get(), address.size_bytes()) == 0);
  return fd;
}

// What is logged while it lives.
class Logged final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] size_t count(std::string_view part) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::count_if(lines_.begin(), lines_.end(), [part](const std::string& line) {
          return line.find(part) != std::string::npos;
        }));
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}

  std::vector<std::string> lines_;
};

TEST_CASE("builtin net: strangers do not fill the log") {
  const auto net = make_builtin({});
  Listening listening(*net);
  const auto logged = std::make_shared<Logged>();
  logger().sinks().push_back(logged);
  constexpr int kStrangers = 40;
  for (int i = 0; i < kStrangers; ++i) {
    const Fd stranger = raw_connection(listening.decoded());
    const std::array<char, 600> noise{};
    REQUIRE(::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0);
    void* receive = nullptr;
    // Until it is refused, which closes the connection.
    char end = 0;
    const Deadline deadline = deadline_after(std::chrono::minutes(2));
    while (::recv(stranger.get(), &end, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
      REQUIRE_FALSE(passed(deadline));
      REQUIRE(net->accept(listening.listener, &receive, nullptr) == Reply::kSuccess);
    }
  }
  logger().sinks().pop_back();
  CHECK(logged->count("refused a connection") == LogQuota::kFirst);
}

TEST_CASE("builtin net: a wrong secret, listener or job key is refused") {
  const auto net = make_builtin({});
  Listening listening(*net);
  Handle handle = listening.decoded();
  SECTION("the right one is let in") {
    REQUIRE(connect_to(*net, listening, listening.handle) == Reply::kSuccess);
  }
  SECTION("a wrong secret is refused") {
    handle.secret[7] ^= std::byte{1};
    HandleBytes bytes{};
    encode(handle, bytes);
    REQUIRE(connect_to(*net, listening, bytes) == Reply::kRemoteError);
  }
  SECTION("a listener that was there before is refused") {
    ++handle.listener_id;
    HandleBytes bytes{};
    encode(handle, bytes);
    REQUIRE(connect_to(*net, listening, bytes) != Reply::kSuccess);
  }
  SECTION("a job key on one side only is refused") {
    BuiltinCase keyed;
    keyed.secret = "a secret that only one side has";
    REQUIRE(connect_to(*make_builtin(keyed), listening, listening.handle) == Reply::kRemoteError);
  }
  // Whoever was refused has taken nothing from the others.
  REQUIRE(connect_to(*net, listening, listening.handle) == Reply::kSuccess);
}

TEST_CASE("builtin net: handles that are none are refused at once") {
  const auto net = make_builtin({});
  Listening listening(*net);
  void* comm = nullptr;
  HandleBytes garbage{};
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, garbage.data(), &comm, nullptr) ==
          Reply::kRemoteError);
  // A peer without this network cannot say why it has none; this says where to look.
  REQUIRE(decode_handle(garbage).status().message().find("horing plugin: not usable") !=
          std::string::npos);
  std::fill(garbage.begin(), garbage.end(), std::byte{0xff});
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, garbage.data(), &comm, nullptr) ==
          Reply::kRemoteError);
  // Cut off anywhere, or one bit wrong anywhere.
  for (size_t at = 0; at < kWireHandleBytes; ++at) {
    HandleBytes cut = listening.handle;
    std::fill(cut.begin() + static_cast<ptrdiff_t>(at), cut.end(), std::byte{});
    REQUIRE(decode_handle(cut).ok() == (cut == listening.handle));
    REQUIRE_FALSE(decode_handle(std::span(listening.handle).first(at)).ok());
    HandleBytes flipped = listening.handle;
    flipped.at(at) ^= std::byte{0x10};
    REQUIRE_FALSE(decode_handle(flipped).ok());
  }
}

TEST_CASE("builtin net: addresses that are none of a host are refused") {
  const auto net = make_builtin({});
  Listening listening(*net);
  const auto refused = [&](const std::function<void(Handle&)>& spoil) {
    Handle handle = listening.decoded();
    spoil(handle);
    HandleBytes bytes{};
    encode(handle, bytes);
    return !decode_handle(bytes).ok();
  };
  REQUIRE_FALSE(refused([](Handle&) {}));
  REQUIRE(refused([](Handle& handle) { handle.port = 0; }));
  REQUIRE(refused([](Handle& handle) { handle.address = {}; }));
  REQUIRE(refused([](Handle& handle) { handle.address[0] = std::byte{224}; }));
  REQUIRE(refused([](Handle& handle) { handle.address[9] = std::byte{1}; }));
  REQUIRE_FALSE(refused([](Handle& handle) {  // its scope is the connecting end's own interface
    handle.family = AF_INET6;
    handle.address = {std::byte{0xfe}, std::byte{0x80}, std::byte{0}, std::byte{1}};
  }));
}

// The id of a connect under way means nothing where handle, context or device are others'.
TEST_CASE("builtin net: a connect under way is found by its own handle only") {
  const auto net = make_builtin({});
  Listening one(*net);
  Listening two(*net);
  REQUIRE(local_id(one.handle) == 0);
  void* comm = nullptr;
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, one.handle.data(), &comm, nullptr) ==
          Reply::kSuccess);
  const uint64_t id = local_id(one.handle);
  REQUIRE(id != 0);
  set_local_id(two.handle, id);
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, two.handle.data(), &comm, nullptr) ==
          Reply::kSuccess);
  REQUIRE(local_id(two.handle) != id);
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, one.handle.data(), &comm, nullptr) ==
          Reply::kSuccess);
  REQUIRE(local_id(one.handle) == id);
}

TEST_CASE("builtin net: connects that nobody accepts end at their deadline, and their ids") {
  BuiltinCase options;
  options.connect_timeout = std::chrono::milliseconds(300);
  const auto net = make_builtin(options);
  Listening one(*net);
  Listening two(*net);
  void* comm = nullptr;
  REQUIRE(net->connect(nullptr, 0, kNoTrafficClass, two.handle.data(), &comm, nullptr) ==
          Reply::kSuccess);
  for (Listening* each : {&one, &two}) {
    Reply reply = Reply::kSuccess;
    const Deadline deadline = deadline_after(std::chrono::minutes(2));
    while (reply == Reply::kSuccess && !passed(deadline)) {
      reply = net->connect(nullptr, 0, kNoTrafficClass, each->handle.data(), &comm, nullptr);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(reply == Reply::kRemoteError);
    REQUIRE(comm == nullptr);
    REQUIRE(local_id(each->handle) == 0);
  }
}

TEST_CASE("builtin net: connecting and accepting end at their deadline") {
  BuiltinCase options;
  options.connect_timeout = std::chrono::milliseconds(200);
  const auto net = make_builtin(options);
  HandleBytes handle{};
  {
    const Listening gone(*net);
    handle = gone.handle;
  }
  void* comm = nullptr;
  Reply reply = Reply::kSuccess;
  const Deadline deadline = deadline_after(std::chrono::minutes(2));
  while (reply == Reply::kSuccess && !passed(deadline)) {
    reply = net->connect(nullptr, 0, kNoTrafficClass, handle.data(), &comm, nullptr);
  }
  REQUIRE(reply == Reply::kRemoteError);
  const Listening alone(*net);
  reply = Reply::kSuccess;
  while (reply == Reply::kSuccess && !passed(deadline)) {
    reply = net->accept(alone.listener, &comm, nullptr);
  }
  REQUIRE(reply == Reply::kRemoteError);
}

TEST_CASE("builtin net: strangers on the port disturb nobody") {
  BuiltinCase options;
  options.connections = 2;
  const auto net = make_builtin(options);
  Listening listening(*net);
  const Handle handle = listening.decoded();
  std::vector<Fd> strangers;
  // Twice as many as may be in their handshake at once: silent, with garbage, and gone in the
  // middle.
  for (size_t i = 0; i < 128; ++i) {
    strangers.push_back(raw_connection(handle));
    const auto garbage = pattern(i, i * 50);
    if (i % 2 == 1) {
      REQUIRE(::send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(garbage.size()));
    }
    if (i % 5 == 4) {
      strangers.back().reset();
    }
  }
  REQUIRE(connect_to(*net, listening, listening.handle) == Reply::kSuccess);
  REQUIRE(connect_to(*net, listening, listening.handle) == Reply::kSuccess);
}

TEST_CASE("builtin net: who does not finish the handshake is sent away") {
  BuiltinCase options;
  options.handshake_timeout = std::chrono::milliseconds(50);
  const auto net = make_builtin(options);
  Listening listening(*net);
  const Fd stranger = raw_connection(listening.decoded());
  const auto closed = [&] {
    std::byte byte{};
    const ssize_t got = ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  };
  for (const Deadline deadline = deadline_after(std::chrono::minutes(2));
       !closed() && !passed(deadline);) {
    void* comm = nullptr;
    REQUIRE(net->accept(listening.listener, &comm, nullptr) == Reply::kSuccess);
    REQUIRE(comm == nullptr);
  }
  REQUIRE(closed());
}

TEST_CASE("builtin net: records survive their encoding, others are refused") {
  ReceiveCredit record;
  record.sequence = 0x0102030405060708;
  record.count = 3;
  record.tags = {-1, 0, 7};
  record.capacities = {0, kMaxMessageBytes, 5};
  std::array<std::byte, kMaxCreditBytes> bytes{};
  const size_t size = encode(record, bytes);
  ReceiveCredit got;
  for (size_t short_of = 0; short_of < size; ++short_of) {
    const auto needs_more = decode_credit(std::span(bytes).first(short_of), got);
    REQUIRE(needs_more.ok());
    REQUIRE(*needs_more == 0);
  }
  REQUIRE(*decode_credit(bytes, got) == size);
  REQUIRE(got.sequence == record.sequence);
  REQUIRE(got.tags[0] == -1);
  REQUIRE(got.capacities[1] == kMaxMessageBytes);
  bytes[2] = std::byte{9};
  REQUIRE_FALSE(decode_credit(bytes, got).ok());
  bytes[2] = std::byte{0};
  REQUIRE_FALSE(decode_credit(bytes, got).ok());
  REQUIRE(encode(ReceiveCredit{}, bytes) == kCreditHeadBytes);  // the receiver closes
  REQUIRE(*decode_credit(bytes, got) == kCreditHeadBytes);
  REQUIRE(got.count == 0);

  NetSegment segment;
  segment.bytes = 100;
  segment.offset = 40;
  segment.length = 60;
  REQUIRE(decode_segment(encode(segment)).ok());
  segment.length = 61;
  REQUIRE_FALSE(decode_segment(encode(segment)).ok());
  segment.length = 0;
  REQUIRE_FALSE(decode_segment(encode(segment)).ok());
  segment.offset = ~uint64_t{0};
  segment.length = 60;
  REQUIRE_FALSE(decode_segment(encode(segment)).ok());
  segment = {};
  segment.kind = NetSegment::Kind::kLeaving;
  REQUIRE(decode_segment(encode(segment)).ok());
  segment.length = 1;
  segment.bytes = 1;
  REQUIRE_FALSE(decode_segment(encode(segment)).ok());
  segment = {};
  segment.bytes = kMaxMessageBytes + 1;
  segment.length = 1;
  REQUIRE_FALSE(decode_segment(encode(segment)).ok());

  ConnectionClaim claim;
  claim.connection = 1;
  claim.connection_count = 2;
  REQUIRE(decode_connection_claim(encode(claim)).ok());
  claim.connection = 2;
  REQUIRE_FALSE(decode_connection_claim(encode(claim)).ok());
  claim.connection_count = kMaxConnections + 1;
  REQUIRE_FALSE(decode_connection_claim(encode(claim)).ok());
}

TEST_CASE("builtin net: posted receives are taken by tag, the oldest first, and are bounded") {
  PostedReceives book;
  ReceiveCredit record;
  record.count = 2;
  record.tags = {1, 2};
  record.capacities = {10, 20};
  REQUIRE_FALSE(book.take(1).has_value());
  for (record.sequence = 1; record.sequence <= kMaxRequests; ++record.sequence) {
    REQUIRE(book.add(record).ok());
  }
  REQUIRE_FALSE(book.add(record).ok());  // more than may wait
  for (uint64_t sequence = 1; sequence <= kMaxRequests; ++sequence) {
    const auto at_index = book.take(2);
    REQUIRE(at_index.has_value());
    REQUIRE(at_index->sequence == sequence);
    REQUIRE(at_index->slot == 1);
    REQUIRE(at_index->capacity == 20);
  }
  REQUIRE_FALSE(book.take(2).has_value());
  REQUIRE(book.groups() == kMaxRequests);
  for (uint64_t sequence = 1; sequence <= kMaxRequests; ++sequence) {
    REQUIRE(book.take(1)->sequence == sequence);
  }
  REQUIRE(book.groups() == 0);
  record.sequence = kMaxRequests + 2;  // one left out
  REQUIRE_FALSE(book.add(record).ok());
  record.sequence = kMaxRequests + 1;
  REQUIRE(book.add(record).ok());
}

}  // namespace
}  // namespace ho::plugin::conformance
