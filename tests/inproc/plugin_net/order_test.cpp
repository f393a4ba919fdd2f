// A network between two ends that have promised an order: receives are not announced.
#include <array>
#include <functional>
#include <string>

#include "builtin_net_for_test.hpp"
#include "catch.hpp"

namespace ho::plugin::conformance {
namespace {

constexpr size_t kBytes = 5000;

// Connected, with the promise on both ends.
struct OrderedPair {
  explicit OrderedPair(uint32_t connections) {
    BuiltinCase options;
    options.connections = connections;
    net = make_under_test(options);
    pair.emplace(*net);
    REQUIRE(pair->connect().message() == "");
    net->promise_order(pair->send);
    net->promise_order(pair->receive);
  }

  void send(uint64_t seed, int32_t tag, size_t bytes = kBytes) {
    const auto data = pattern(seed, bytes);
    End end = pair->sender();
    const auto request = end.try_send(data.data(), bytes, tag);
    REQUIRE(request.status().message() == "");
    REQUIRE(*request != nullptr);
    const auto sizes = end.finish(*request);
    REQUIRE(sizes.status().message() == "");
  }
  // What became of it.
  Status receive(uint64_t seed, int32_t tag, size_t bytes = kBytes) {
    std::vector<std::byte> buffer(bytes);
    End end = pair->receiver();
    HORING_ASSIGN(void* const request, end.receive({{buffer.data(), bytes, tag}}));
    HORING_ASSIGN(const auto sizes, end.finish(request));
    return check_pattern(seed, buffer.data(), sizes.at(0));
  }

  std::unique_ptr<NetDriver> net;
  std::optional<Pair> pair;
};

TEST_CASE("ordered net: messages wait for receives that come later") {
  OrderedPair ordered(GENERATE(1U, 3U));
  // No receive has said anything, so nothing but the promise lets these go.
  for (uint64_t i = 0; i < 6; ++i) {
    ordered.send(i, static_cast<int32_t>(i));
  }
  for (uint64_t i = 0; i < 6; ++i) {
    REQUIRE(ordered.receive(i, static_cast<int32_t>(i)).message() == "");
  }
}

Status finish_asleep(NetDriver& net, void* comm, const std::function<Result<void*>(End&)>& post) {
  End end(net, comm);
  void* request = nullptr;
  for (bool done = false; !done;) {
    if (request == nullptr) {
      HORING_ASSIGN(request, post(end));
    }
    if (request != nullptr) {
      HORING_ASSIGN(done, end.test(request));
    }
    HORING_TRY(done ? Status() : sleep_on(net, comm));
  }
  return {};
}

TEST_CASE("ordered net: who sleeps on the descriptor finds what has come before its receive") {
  const OrderedPair ordered(GENERATE(1U, 3U));
  constexpr uint64_t kMessages = 2000;
  const auto bytes_of = [](uint64_t message) { return message % 3 == 0 ? size_t{8} : 40'000; };
  const auto send_all = [&]() -> Status {
    for (uint64_t i = 0; i < kMessages; ++i) {
      const auto data = pattern(i, bytes_of(i));
      HORING_TRY(finish_asleep(*ordered.net, ordered.pair->send, [&](End& end) {
        return end.try_send(data.data(), data.size(), 0);
      }));
    }
    return {};
  };
  const auto receive_all = [&]() -> Status {
    std::vector<std::byte> buffer(40'000);
    for (uint64_t i = 0; i < kMessages; ++i) {
      HORING_TRY(finish_asleep(*ordered.net, ordered.pair->receive, [&](End& end) {
        return end.try_receive({{buffer.data(), buffer.size(), 0}});
      }));
      HORING_TRY(check_pattern(i, buffer.data(), bytes_of(i)));
    }
    return {};
  };
  REQUIRE(run_both(send_all, receive_all) == "");
}

TEST_CASE("ordered net: what a sender that has closed left behind is received") {
  OrderedPair ordered(GENERATE(1U, 3U));
  for (uint64_t i = 0; i < 4; ++i) {
    ordered.send(i, 0);
  }
  REQUIRE(ordered.net->close_send(ordered.pair->send) == Reply::kSuccess);
  ordered.pair->send = nullptr;
  for (uint64_t i = 0; i < 4; ++i) {
    REQUIRE(ordered.receive(i, 0).message() == "");
  }
  REQUIRE_FALSE(ordered.receive(4, 0).ok());
}

TEST_CASE("ordered net: a broken promise is an error of the receiver") {
  OrderedPair ordered(1);
  SECTION("another tag than the receive's is refused") {
    ordered.send(0, 7);
    REQUIRE_FALSE(ordered.receive(0, 8).ok());
  }
  SECTION("more bytes than there is room are refused") {
    ordered.send(0, 7);
    REQUIRE_FALSE(ordered.receive(0, 7, kBytes - 1).ok());
  }
  SECTION("what had come before stays received") {
    ordered.send(0, 7);
    ordered.send(1, 7);
    REQUIRE(ordered.receive(0, 7).message() == "");
    REQUIRE_FALSE(ordered.receive(1, 8).ok());
  }
}

}  // namespace
}  // namespace ho::plugin::conformance
