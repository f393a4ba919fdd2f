// A peer that knows the secret and keeps to no other rule: what it sends must not go past the room
// that a receive gives. And what a listener says of those whom it has sent away.
#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/logger.hpp"
#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "connect/handshake_io.hpp"
#include "core/builtin/handle.hpp"
#include "core/builtin/records.hpp"
#include "core/driver/handle_secret.hpp"
#include "more_time.hpp"
#include "os/clock.hpp"
#include "os/socket.hpp"

namespace ho::plugin::conformance {
namespace {

constexpr std::byte kUntouched{0x5a};
constexpr size_t kBufferBytes = 16;
constexpr int32_t kTag = 7;

// A listener, and what a stranger needs to know of it.
class RawListener {
 public:
  explicit RawListener(const BuiltinCase& options) : net_(make_builtin(options)) {
    REQUIRE(net_->listen(nullptr, 0, handle_bytes_.data(), &listener_) == Reply::kSuccess);
    const auto decoded = decode_handle(handle_bytes_);
    REQUIRE(decoded.ok());
    handle_ = *decoded;
  }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  ~RawListener() {
    if (comm_ != nullptr) {
      CHECK(net_->close_recv(comm_) == Reply::kSuccess);
    }
    CHECK(net_->close_listen(listener_) == Reply::kSuccess);
  }

  // As NCCL hands it over.
  [[nodiscard]] std::array<std::byte, kHandleBytes> handle() const { return handle_bytes_; }
  [[nodiscard]] NetDriver& net() { return *net_; }
  [[nodiscard]] void* comm() { return comm_; }
  // One call; what it answers.
  Reply accept() { return net_->accept(listener_, &comm_, nullptr); }

  [[nodiscard]] std::unique_ptr<Socket> knock() const {
    const SocketAddress address = handle_.socket_address();
    Fd fd(::socket(handle_.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(fd.valid());
    REQUIRE(::connect(fd.get(), address.get(), address.size_bytes()) == 0);
    REQUIRE(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
    return std::make_unique<Socket>(std::move(fd));
  }

  // Passes the handshake with the right secret, as a sender of one stream.
  [[nodiscard]] std::unique_ptr<Socket> enter() {
    auto socket = knock();
    const auto key = connection_key(handle_.secret, *JobKey::none(false));
    REQUIRE(key.ok());
    ConnectionClaim claim;
    claim.listener_id = handle_.listener_id;
    claim.connection_id = 99;
    const auto handshake = Handshake::client(*key, kHandshakePurpose, encode(claim));
    bool done = false;
    const Deadline deadline = deadline_after(std::chrono::minutes(2));
    while (!done || comm_ == nullptr) {
      REQUIRE_FALSE(passed(deadline));
      socket->readable = true;
      socket->writable = true;
      if (!done) {
        const auto state = advance_handshake(*socket, *handshake);
        REQUIRE(state.ok());
        REQUIRE(*state != HandshakeState::kLost);
        done = *state == HandshakeState::kDone;
      }
      if (comm_ == nullptr) {
        REQUIRE(accept() == Reply::kSuccess);
      }
    }
    return socket;
  }

 private:
  std::unique_ptr<NetDriver> net_;
  void* listener_ = nullptr;
  void* comm_ = nullptr;
  std::array<std::byte, kHandleBytes> handle_bytes_{};
  Handle handle_;
};

void send_segment(Socket& socket, const NetSegment& segment) {
  const SegmentBytes head = encode(segment);
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.resize(bytes.size() + segment.length, std::byte{0xee});
  REQUIRE(::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

struct Outcome {
  Reply reply = Reply::kSuccess;
  bool done = false;
  bool kept_to_capacity = false;
};

// What a receive of kBufferBytes bytes comes to.
Outcome received(const std::vector<NetSegment>& segments) {
  RawListener listener({});
  const auto peer = listener.enter();
  std::vector<std::byte> memory(4 * kBufferBytes, kUntouched);
  void* data = memory.data();
  const size_t bytes = kBufferBytes;
  const int32_t tag = kTag;
  void* request = nullptr;
  REQUIRE(listener.net().irecv(listener.comm(),
                               {1, &data, &bytes, &tag, nullptr, nullptr},
                               &request) == Reply::kSuccess);
  REQUIRE(request != nullptr);
  for (const NetSegment& segment : segments) {
    send_segment(*peer, segment);
  }
  Outcome outcome;
  int32_t done = 0;
  const Deadline deadline = deadline_after(std::chrono::minutes(2));
  while (outcome.reply == Reply::kSuccess && done == 0 && !passed(deadline)) {
    outcome.reply = listener.net().test(request, &done, nullptr);
  }
  outcome.done = done != 0;
  outcome.kept_to_capacity = std::all_of(memory.begin() + kBufferBytes,
                                         memory.end(),
                                         [](std::byte byte) { return byte == kUntouched; });
  return outcome;
}

NetSegment piece(uint64_t bytes, uint64_t offset, uint64_t length) {
  NetSegment segment;
  segment.tag = kTag;
  segment.sequence = 1;
  segment.bytes = bytes;
  segment.offset = offset;
  segment.length = length;
  return segment;
}

// The last line that is logged while it lives.
class LastLine final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    text_.assign(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
  std::string text_;
};

// A listener that waits two and a half times as long as for a handshake, and what is said of it.
struct ShortListener {
  explicit ShortListener(std::chrono::milliseconds handshake_time)
      : listener(options_of(handshake_time)) {
    logger().sinks().push_back(last);
  }
  ShortListener(const ShortListener&) = delete;
  ShortListener& operator=(const ShortListener&) = delete;
  ~ShortListener() {
    logger().sinks().pop_back();
    CHECK(listener.comm() == nullptr);
  }
  static BuiltinCase options_of(std::chrono::milliseconds handshake_time) {
    BuiltinCase options;
    options.connect_timeout = handshake_time * 5 / 2;
    options.handshake_timeout = handshake_time;
    return options;
  }
  RawListener listener;
  const std::shared_ptr<LastLine> last = std::make_shared<LastLine>();
};

// What a listener says to which a connector of this network came with a wrong key.
std::string said_of_wrong_key(std::chrono::milliseconds handshake_time) {
  ShortListener it(handshake_time);
  BuiltinCase other;
  other.secret = "the secret of another job";
  const auto net = make_builtin(other);
  void* context = nullptr;
  REQUIRE(net->open({}, &context) == Reply::kSuccess);
  auto handle = it.listener.handle();
  void* comm = nullptr;
  Reply answer = Reply::kSuccess;
  bool waits = true;
  while (waits || answer == Reply::kSuccess) {
    waits = waits && it.listener.accept() == Reply::kSuccess;
    answer = answer == Reply::kSuccess
                 ? net->connect(context, 0, kNoTrafficClass, handle.data(), &comm, nullptr)
                 : answer;
  }
  CHECK(comm == nullptr);
  return it.last->text();
}

// What it says to which one came that is silent, and one with a wrong key.
std::string said_of_strangers(std::chrono::milliseconds handshake_time) {
  ShortListener it(handshake_time);
  const auto silent = it.listener.knock();
  const auto wrong = it.listener.knock();
  const auto key = connection_key(std::array<std::byte, kSecretBytes>{}, *JobKey::none(false));
  REQUIRE(key.ok());
  ConnectionClaim claim;
  claim.who = "node7, RANK 3";
  const auto handshake = Handshake::client(*key, kHandshakePurpose, encode(claim));
  bool refused = false;
  while (it.listener.accept() == Reply::kSuccess) {
    wrong->readable = true;
    wrong->writable = true;
    if (!refused && !advance_handshake(*wrong, *handshake).ok()) {
      refused = true;
      flush_refusal(*wrong, *handshake);
    }
  }
  return it.last->text();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("builtin net: a peer that sends more than there is room for is refused") {
  const Outcome fits = received({piece(kBufferBytes, 0, kBufferBytes)});
  CHECK(fits.done);
  CHECK(fits.kept_to_capacity);
  const std::vector<std::vector<NetSegment>> wrong{
      {piece(kBufferBytes + 1, 0, kBufferBytes + 1)},
      {piece(2 * kBufferBytes, kBufferBytes, kBufferBytes)},
      {piece(3 * kBufferBytes, 0, 1)},
      // The second says that the message is larger than the first did.
      {piece(kBufferBytes, 0, 1), piece(2 * kBufferBytes, 1, 2 * kBufferBytes - 1)},
      // The pieces are more than the message.
      {piece(kBufferBytes, 0, kBufferBytes - 1), piece(kBufferBytes, 0, kBufferBytes)}};
  for (const auto& segments : wrong) {
    const Outcome outcome = received(segments);
    CAPTURE(segments.front().bytes, segments.front().offset, segments.size());
    CHECK(outcome.reply != Reply::kSuccess);
    CHECK_FALSE(outcome.done);
    CHECK(outcome.kept_to_capacity);
  }
}

// A slow machine may take so long that the listener gives up before it has seen who came.
TEST_CASE(
    "builtin net: where nobody connected, the listener says who came and why it was refused") {
  constexpr std::chrono::milliseconds kHandshakeTime{1000};
  std::string said;
  SECTION("nobody came at all") {
    ShortListener it(kHandshakeTime);
    while (it.listener.accept() == Reply::kSuccess) {
    }
    said = it.last->text();
    CHECK(says(said, "nobody came at all"));
  }
  SECTION("a connector of this network came with a wrong key") {
    CHECK(ho::test::with_more_time(kHandshakeTime, [&](std::chrono::milliseconds time) {
      said = said_of_wrong_key(time);
      return says(said, "the job keys differ");
    }));
  }
  SECTION("strangers came without a handshake and with a wrong key") {
    std::string time_of_silent;
    CHECK(ho::test::with_more_time(kHandshakeTime, [&](std::chrono::milliseconds time) {
      time_of_silent = std::to_string(time.count()) + " ms";
      said = said_of_strangers(time);
      return says(said, "2 connections came and were sent away: ") &&
             says(said, "the job keys differ");
    }));
    CHECK(says(said, "127.0.0.1:"));
    CHECK(says(said, " (node7, RANK 3): "));
    CHECK(says(said, "did not finish its handshake within " + time_of_silent));
  }
  INFO(said);
  CHECK(says(said, "nobody connected to "));
}

}  // namespace ho::plugin::conformance
