// The builtin network over links that fail over: through the suite of all drivers, and what only it
// promises. Connections are cut under it, and every byte is there once.
#include "core/links/link_net.hpp"

#include <sys/socket.h>

#include <array>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"
#include "connect/answers.hpp"
#include "core/builtin/records.hpp"
#include "has.hpp"
#include "os/socket.hpp"
#include "os/tcp_progress.hpp"

namespace ho::plugin::conformance {

std::unique_ptr<NetDriver> make_under_test(const BuiltinCase& options) {
  auto made = LinkNet::create(builtin_config(options), {});
  return made.ok() ? std::unique_ptr<NetDriver>(*std::move(made)) : nullptr;
}

namespace {

TEST_CASE("the network with failover passes the suite") {
  BuiltinCase options;
  SECTION("with settings as they come") {}
  SECTION("with a job key") {
    options.secret = "a secret of this test's own";
  }
  SECTION("with several connections each") {
    options.connections = 3;
  }
  SECTION("with a pace for what is sent") {
    options.pace_mbit = 400;
  }
  NetUnderTest under_test;
  under_test.make = [options] { return make_under_test(options); };
  under_test.takes_both = true;
  run_suite(under_test);
}

// Neither end may wait for handshakes that never come.
TEST_CASE("failover net: one end with failover, the other without, is refused at once") {
  const auto links = make_under_test({});
  const auto tcp = make_builtin({});
  NetDriver& listening = GENERATE(true, false) ? *links : *tcp;
  NetDriver& connecting = &listening == links.get() ? *tcp : *links;
  std::array<std::byte, kHandleBytes> handle{};
  void* listener = nullptr;
  REQUIRE(listening.listen(nullptr, 0, handle.data(), &listener) == Reply::kSuccess);
  void* comm = nullptr;
  REQUIRE(connecting.connect(nullptr, 0, kNoTrafficClass, handle.data(), &comm, nullptr) !=
          Reply::kSuccess);
  REQUIRE(comm == nullptr);
  REQUIRE(listening.close_listen(listener) == Reply::kSuccess);
}

std::unique_ptr<NetDriver> make_of_devices(uint32_t devices, uint32_t connections) {
  BuiltinCase options;
  options.connections = connections;
  BuiltinConfig config = builtin_config(options);
  for (uint32_t i = 1; i < devices; ++i) {
    const std::string number = std::to_string(i);
    config.devices.push_back(
        make_device("test" + number, "a host", "127.0.0." + std::to_string(i + 1), ""));
  }
  auto made = LinkNet::create(std::move(config), {});
  REQUIRE(made.ok());
  return *std::move(made);
}

std::vector<int> connected_sockets() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
      found.push_back(fd);
    }
  }
  return found;
}

// Ends both ways of every TCP connection of this process, as a cut would.
void cut_connections() {
  for (const int fd : connected_sockets()) {
    ::shutdown(fd, SHUT_RDWR);
  }
}

// What was written to each TCP connection of this process, by its own host and port.
using Written = std::map<std::pair<std::string, uint16_t>, uint64_t>;
Written written() {
  Written all;
  for (const int fd : connected_sockets()) {
    const auto address = local_address(fd);
    auto progress = tcp_progress(fd);
    while (address.ok() && progress) {
      const uint64_t arrived = progress->acknowledged_bytes;
      const uint64_t rest = tcp::count_unacknowledged(fd).value_or(0);
      progress = tcp_progress(fd);
      if (progress && progress->acknowledged_bytes == arrived) {
        all[{address->host(), address->port()}] = arrived + rest;
        break;
      }
    }
  }
  return all;
}

// By host, what was written between the two; nothing: the connections are not the same.
std::map<std::string, uint64_t> written_between(const Written& before, const Written& after) {
  std::map<std::string, uint64_t> by_host;
  for (const auto& [address, bytes] : after) {
    const auto found = before.find(address);
    if (found == before.end() || before.size() != after.size()) {
      return {};
    }
    by_host[address.first] += bytes - found->second;
  }
  return by_host;
}

// Messages from one end of a pair to the other, both driven by this thread.
class Flow {
 public:
  Flow(Pair& pair, uint64_t seed) : pair_(pair), random_(seed) {}

  // Begins what can be begun, up to `count` messages in all, and ends what has ended.
  [[nodiscard]] Status step(size_t count) {
    HORING_TRY(send(count));  // where an order is promised it need not wait for receives
    HORING_TRY(post(count));
    HORING_TRY(end_receives());
    return end_sends();
  }
  [[nodiscard]] size_t received() const { return received_; }
  [[nodiscard]] size_t sent() const { return sent_; }
  // Of that message, from 0.
  [[nodiscard]] static size_t size_of(uint64_t seed) {
    constexpr std::array<size_t, 6> kSizes{0, 1, 5'000, kPieceBytes, kPieceBytes + 1, 900'001};
    return kSizes.at(seed % kSizes.size());
  }

 private:
  static constexpr size_t kUnderWay = 8;
  struct Message {
    std::vector<std::byte> bytes;
    void* request = nullptr;
    uint64_t seed = 0;
  };

  [[nodiscard]] Status post(size_t count) {
    while (receives_.size() < kUnderWay && posted_ < count) {
      Message message{std::vector<std::byte>(size_of(posted_) + 8), nullptr, posted_};
      HORING_ASSIGN(message.request,
                    End(*pair_.net, pair_.receive)
                        .try_receive({{message.bytes.data(), message.bytes.size(), kTag}}));
      if (message.request == nullptr) {
        return {};
      }
      receives_.push_back(std::move(message));
      ++posted_;
    }
    return {};
  }
  [[nodiscard]] Status send(size_t count) {
    while (sends_.size() < kUnderWay && begun_ < count) {
      Message message{pattern(begun_, size_of(begun_)), nullptr, begun_};
      HORING_ASSIGN(
          message.request,
          End(*pair_.net, pair_.send).try_send(message.bytes.data(), message.bytes.size(), kTag));
      if (message.request == nullptr) {
        return {};
      }
      sends_.push_back(std::move(message));
      ++begun_;
    }
    return {};
  }
  [[nodiscard]] Status end_receives() {
    while (!receives_.empty()) {
      int32_t done = 0;
      int32_t size = 0;
      HORING_TRY(as_status(pair_.net->test(receives_.front().request, &done, &size), "test"));
      if (done == 0) {
        return {};
      }
      const Message message = std::move(receives_.front());
      receives_.pop_front();
      if (static_cast<size_t>(size) != size_of(message.seed)) {
        return {StatusCode::kInternal, "another size than was sent"};
      }
      HORING_TRY(check_pattern(message.seed, message.bytes.data(), size_of(message.seed)));
      ++received_;
    }
    return {};
  }
  // What was sent is spoilt once its memory is the caller's again.
  [[nodiscard]] Status end_sends() {
    while (!sends_.empty()) {
      int32_t done = 0;
      HORING_TRY(as_status(pair_.net->test(sends_.front().request, &done, nullptr), "test"));
      if (done == 0) {
        return {};
      }
      std::ranges::fill(sends_.front().bytes, std::byte{0xEE});
      spoilt_.push_back(std::move(sends_.front().bytes));
      if (spoilt_.size() > kUnderWay) {
        spoilt_.pop_front();
      }
      sends_.pop_front();
      ++sent_;
    }
    return {};
  }

  static constexpr int32_t kTag = 5;
  Pair& pair_;
  std::mt19937_64 random_;
  std::deque<Message> receives_;
  std::deque<Message> sends_;
  std::deque<std::vector<std::byte>> spoilt_;
  size_t posted_ = 0;
  size_t begun_ = 0;
  size_t received_ = 0;
  size_t sent_ = 0;
};

uint64_t failovers_of(const Pair& pair) {
  return static_cast<LinkComm*>(pair.send)->failovers() +
         static_cast<LinkComm*>(pair.receive)->failovers();
}

// Until both ends have all of them.
void run_flow(Flow& flow, size_t count) {
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  while (flow.received() < count || flow.sent() < count) {
    REQUIRE(flow.step(count).message() == "");
    REQUIRE_FALSE(passed(limit));
  }
}

TEST_CASE("failover net: what is cut again and again arrives once, in order, with its bytes") {
  const auto net = make_of_devices(2, GENERATE(1U, 3U));
  Pair pair(*net);
  pair.takes_both = true;
  REQUIRE(pair.connect().message() == "");
  if (GENERATE(false, true)) {
    net->promise_order(pair.send);
    net->promise_order(pair.receive);
  }
  std::mt19937_64 random(GENERATE(1U, 2U, 3U));
  Flow flow(pair, 1);
  constexpr size_t kCuts = 6;
  const Deadline limit = deadline_after(std::chrono::seconds(120));
  size_t wanted = 0;
  for (size_t cut = 0; cut < kCuts; ++cut) {
    wanted += 1 + random() % 12;
    for (uint64_t steps = random() % 200; steps > 0; --steps) {
      REQUIRE(flow.step(wanted).message() == "");
    }
    cut_connections();
    REQUIRE_FALSE(passed(limit));
  }
  run_flow(flow, wanted + 8);
  CHECK(failovers_of(pair) > 0);
}

// Until the own rail has them again the pieces are smaller: of each message every rail has its
// part.
TEST_CASE("failover net: a link whose rail is lost cuts its messages over all others") {
  const auto net = make_of_devices(4, 1);
  Pair pair(*net);
  pair.takes_both = true;
  REQUIRE(pair.connect().message() == "");
  Flow flow(pair, 1);
  size_t count = 9;
  run_flow(flow, count);
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  std::set<size_t> seen;
  while (failovers_of(pair) < 4 || seen.size() < 3) {  // both ends: away, and back
    REQUIRE_FALSE(passed(limit));
    const Written first = written();
    run_flow(flow, count += 4);  // and one: each size has its turn
    const Written before = written();
    const size_t bytes = Flow::size_of(count);
    run_flow(flow, ++count);
    const auto own = written_between(first, before);  // the link has gone over these already
    const auto by_host = written_between(before, written());
    if (seen.size() < 3 && by_host.size() == 1 && by_host.contains("127.0.0.1")) {
      cut_connections();  // both ends have their own rail
    }
    if (own.size() != 3 || by_host.size() != 3 || bytes < kPieceBytes) {
      continue;
    }
    for (const auto& [host, part] : by_host) {
      INFO(host << " has " << part << " of " << bytes << " bytes");
      CHECK(host != "127.0.0.1");
      CHECK(part > bytes / 5);
      CHECK(part < bytes / 2);
    }
    seen.insert(bytes);
  }
  run_flow(flow, count + 9);
}

TEST_CASE("failover net: pieces of each size make up their message") {
  CHECK(halvings_of(1'000'000, 1) == 0);
  CHECK(halvings_of(5 << 20, 3) == 0);
  CHECK(halvings_of(1 << 20, 3) == 2);
  CHECK(halvings_of(128 << 10, 3) == 5);
  CHECK(halvings_of(16 << 10, 3) == 6);  // one for each of four rails
  CHECK(halvings_of(0, 3) == kMaxHalvings);
  const uint64_t bytes = GENERATE(0U, 1U, 4096U, 4097U, 32'769U, 262'144U, 900'001U);
  for (uint8_t halvings = 0; halvings <= kMaxHalvings; ++halvings) {
    uint64_t end = 0;
    for (uint32_t number = 0; number < piece_count(bytes, halvings); ++number) {
      const LinkPiece piece{.halvings = halvings, .bytes = bytes, .number = number};
      CHECK(piece.offset() == end);
      CHECK(piece.size() <= kPieceBytes >> halvings);
      end += piece.size();
      const Frame frame = frame_of(LinkMessage::kPiece, piece);
      REQUIRE(*kind_of(frame) == LinkMessage::kPiece);
      CHECK(piece_of(frame).offset() == piece.offset());
    }
    CHECK(end == bytes);
  }
}

TEST_CASE("failover net: a cut is mended while nobody calls, and costs the next call nothing") {
  const auto net = make_of_devices(2, 1);
  Pair pair(*net);
  pair.takes_both = true;
  REQUIRE(pair.connect().message() == "");
  Flow flow(pair, 1);
  run_flow(flow, 3);
  cut_connections();
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  while (failovers_of(pair) < 2 && !passed(limit)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(failovers_of(pair) >= 2);
  run_flow(flow, 9);
}

TEST_CASE("failover net: who has heard that its peer leaves closes without waiting for it") {
  const auto net = make_of_devices(2, 1);
  const Deadline limit = deadline_after(std::chrono::seconds(60));  // 3 s each would be more
  for (int i = 0; i < 25; ++i) {
    Pair pair(*net);
    REQUIRE(pair.connect().message() == "");
    Flow flow(pair, 1);
    run_flow(flow, 2);
    CHECK(net->close_send(std::exchange(pair.send, nullptr)) == Reply::kSuccess);
    for (int look = 0; look < 50; ++look) {
      net->look(pair.receive);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(net->close_recv(std::exchange(pair.receive, nullptr)) == Reply::kSuccess);
    REQUIRE_FALSE(passed(limit));
  }
}

// One may have reset the connection without having read what the other one's last words were.
TEST_CASE("failover net: two ends that close at once do not wait for each other") {
  const auto net = make_of_devices(2, 1);
  const Deadline limit = deadline_after(std::chrono::seconds(60));
  for (int i = 0; i < 25; ++i) {
    Pair pair(*net);
    REQUIRE(pair.connect().message() == "");
    Flow flow(pair, 1);
    run_flow(flow, 2);
    std::thread sender([&] { CHECK(net->close_send(pair.send) == Reply::kSuccess); });
    CHECK(net->close_recv(std::exchange(pair.receive, nullptr)) == Reply::kSuccess);
    sender.join();
    pair.send = nullptr;
    REQUIRE_FALSE(passed(limit));
  }
}

TEST_CASE("failover net: frames that no end of ours sends are refused") {
  LinkPiece piece{.sequence = 7, .slot = 3, .tag = 70'000, .bytes = kPieceBytes + 5, .number = 1};
  Frame good = frame_of(LinkMessage::kPiece, piece);
  REQUIRE(good.payload_bytes == 5);
  REQUIRE(*kind_of(good) == LinkMessage::kPiece);
  REQUIRE(tags_agree(70'000, good));
  REQUIRE_FALSE(tags_agree(70'001, good));
  const auto refused = [&](const std::function<void(Frame&)>& alter) {
    Frame bad = good;
    alter(bad);
    return kind_of(bad).status().code() == StatusCode::kProtocol;
  };
  CHECK(refused([](Frame& bad) { bad.collective = 0; }));
  CHECK(refused([](Frame& bad) { bad.algorithm = 0; }));
  CHECK(refused([](Frame& bad) { bad.algorithm = 6; }));
  CHECK(refused([](Frame& bad) { bad.op_index = 2; }));
  CHECK(refused([](Frame& bad) { bad.phase = 1; }));
  CHECK(refused([](Frame& bad) { bad.phase = kMaxHalvings + 1; }));
  CHECK(refused([](Frame& bad) { bad.phase = 200; }));
  CHECK(refused([](Frame& bad) { bad.op_index = UINT32_MAX; }));
  CHECK(refused([](Frame& bad) { bad.dtype = kMaxReceives; }));
  CHECK(refused([](Frame& bad) { bad.payload_bytes = 6; }));
  CHECK(refused([](Frame& bad) { bad.count = kMaxMessageBytes + 1; }));
  CHECK(refused([](Frame& bad) { bad.algorithm = static_cast<uint8_t>(LinkMessage::kTooLong); }));
  CHECK(refused([](Frame& bad) { bad.algorithm = static_cast<uint8_t>(LinkMessage::kLeaving); }));
  CHECK(refused([](Frame& bad) {
    bad.algorithm = static_cast<uint8_t>(LinkMessage::kCredit);
    bad.payload_bytes = kMaxCreditBytes + 1;
  }));
}

TEST_CASE("failover net: handshakes survive their encoding, cut or altered ones are refused") {
  LinkHandshake handshake;
  handshake.connections = 3;
  handshake.secret.fill(std::byte{9});
  handshake.endpoint = {{"10.1.0.1", "fe80::1"}, 4000};
  const auto bytes = encode(handshake);
  const auto back = decode_link_handshake(bytes);
  REQUIRE(back.ok());
  CHECK(back->connections == 3);
  CHECK(back->secret == handshake.secret);
  CHECK(back->endpoint.rail_addresses == handshake.endpoint.rail_addresses);
  CHECK(back->endpoint.port == 4000);
  constexpr size_t kWithoutRails = 8 + 1 + 32 + 2;
  for (size_t size = 0; size <= kWithoutRails; ++size) {
    CHECK_FALSE(decode_link_handshake(std::span(bytes).first(size)).ok());
  }
  CHECK_FALSE(decode_link_handshake(std::span(bytes).first(bytes.size() - 1)).ok());
  for (const auto& [at, value] : {std::pair(0, 0xFF), std::pair(8, 0), std::pair(8, 200)}) {
    auto altered = bytes;
    altered[static_cast<size_t>(at)] = static_cast<std::byte>(value);
    CHECK_FALSE(decode_link_handshake(altered).ok());
  }
}

}  // namespace
}  // namespace ho::plugin::conformance
