#include "net_conformance.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "catch.hpp"

namespace ho::plugin::conformance {
namespace {

constexpr size_t kMebi = size_t{1} << 20U;

Status expect(bool holds, const std::string& what) {
  return holds ? Status() : Status(StatusCode::kInternal, "expected: " + what);
}

// Messages 0..n-1 of these sizes, one after the other, the receiver's room 3 bytes larger.
std::string send_sizes(Pair& pair, const std::vector<size_t>& sizes) {
  return run_both(
      [&]() -> Status {
        End end(*pair.net, pair.send);
        for (size_t i = 0; i < sizes.size(); ++i) {
          const auto bytes = pattern(i, sizes[i]);
          HORING_ASSIGN(void* const request, end.send(bytes.data(), bytes.size(), 5));
          HORING_TRY(end.finish(request).status());
        }
        return {};
      },
      [&]() -> Status {
        End end(*pair.net, pair.receive);
        for (size_t i = 0; i < sizes.size(); ++i) {
          std::vector<std::byte> buffer(sizes[i] + 3);
          HORING_ASSIGN(void* const request, end.receive({{buffer.data(), buffer.size(), 5}}));
          HORING_ASSIGN(const auto got, end.finish(request));
          HORING_TRY(expect(got[0] == sizes[i], std::to_string(sizes[i]) + " bytes"));
          HORING_TRY(check_pattern(i, buffer.data(), sizes[i]));
        }
        return {};
      });
}

size_t size_of_tag(int32_t tag) {
  return static_cast<size_t>(tag) * 37'000 % 150'001;
}

// One group of `tags.size()` receives; the sends come in `order` of positions.
std::string send_group(Pair& pair,
                       const std::vector<int32_t>& tags,
                       const std::vector<size_t>& order) {
  const size_t count = tags.size();
  return run_both(
      [&]() -> Status {
        End end(*pair.net, pair.send);
        std::vector<std::vector<std::byte>> data;
        std::vector<void*> requests;
        for (const size_t position : order) {
          const int32_t tag = tags[position];
          data.push_back(pattern(static_cast<uint64_t>(tag), size_of_tag(tag)));
          HORING_ASSIGN(void* const request, end.send(data.back().data(), data.back().size(), tag));
          requests.push_back(request);
        }
        for (void* const request : requests) {
          HORING_TRY(end.finish(request).status());
        }
        return {};
      },
      [&]() -> Status {
        End end(*pair.net, pair.receive);
        std::vector<std::vector<std::byte>> buffers(count);
        std::vector<Part> parts;
        for (size_t i = 0; i < count; ++i) {
          buffers[i].resize(size_of_tag(tags[i]));
          parts.push_back({buffers[i].data(), buffers[i].size(), tags[i]});
        }
        HORING_ASSIGN(void* const request, end.receive(parts));
        HORING_ASSIGN(const auto sizes, end.finish(request, count));
        for (size_t i = 0; i < count; ++i) {
          HORING_TRY(expect(sizes[i] == buffers[i].size(), "the size of each message"));
          HORING_TRY(
              check_pattern(static_cast<uint64_t>(tags[i]), buffers[i].data(), buffers[i].size()));
        }
        return {};
      });
}

std::string all_orders(Pair& pair, uint32_t count) {
  std::vector<int32_t> tags(count);
  std::iota(tags.begin(), tags.end(), 100);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(count);
  for (uint32_t round = 0; round < 24; ++round) {
    std::string errors = send_group(pair, tags, order);
    if (!errors.empty()) {
      return errors;
    }
    // Every order of up to four, samples of more.
    if (count > 4) {
      std::shuffle(order.begin(), order.end(), random);
    } else if (!std::next_permutation(order.begin(), order.end())) {
      break;
    }
  }
  return {};
}

// Two groups that share tags: the sends with one tag fill the groups in order.
Status oldest_first(Pair& pair) {
  End sender = pair.sender();
  End receiver = pair.receiver();
  std::array<std::byte, 4> buffers{};
  HORING_ASSIGN(void* const first, receiver.receive({{&buffers[0], 1, 1}, {&buffers[1], 1, 2}}));
  HORING_ASSIGN(void* const second, receiver.receive({{&buffers[2], 1, 2}, {&buffers[3], 1, 2}}));
  const std::array<std::byte, 4> data{std::byte{10}, std::byte{20}, std::byte{30}, std::byte{40}};
  // Tag 2 three times, tag 1 last: the second group is complete before the first.
  std::vector<void*> sends;
  for (const size_t i : {size_t{1}, size_t{2}, size_t{3}}) {
    HORING_ASSIGN(void* const request, sender.send(&data.at(i), 1, 2));
    sends.push_back(request);
  }
  HORING_TRY(receiver.finish(second, 2).status());
  HORING_ASSIGN(const bool early, receiver.test(first));
  HORING_TRY(expect(!early, "the first group waits for its other tag"));
  HORING_ASSIGN(void* const last, sender.send(data.data(), 1, 1));
  sends.push_back(last);
  HORING_TRY(receiver.finish(first, 2).status());
  for (void* const request : sends) {
    HORING_TRY(sender.finish(request).status());
  }
  return expect(buffers == data, "each message in the oldest place with its tag");
}

Status again(Pair& pair, size_t most) {
  End sender = pair.sender();
  End receiver = pair.receiver();
  const auto data = pattern(1, 3000);
  std::vector<std::vector<std::byte>> buffers(most, std::vector<std::byte>(3000));
  for (int tries = 0; tries < 100; ++tries) {
    HORING_ASSIGN(void* const early, sender.try_send(data.data(), data.size(), 0));
    HORING_TRY(expect(early == nullptr, "a send without a receive says again"));
  }
  std::vector<void*> receives;
  for (auto& buffer : buffers) {
    HORING_ASSIGN(void* const request, receiver.try_receive({{buffer.data(), buffer.size(), 0}}));
    HORING_TRY(expect(request != nullptr, "all receives are taken"));
    receives.push_back(request);
  }
  HORING_ASSIGN(void* const more, receiver.try_receive({{buffers[0].data(), 1, 0}}));
  HORING_TRY(expect(more == nullptr, "one receive more says again"));
  std::vector<void*> sends;
  for (size_t i = 0; i < most; ++i) {
    HORING_ASSIGN(void* const request, sender.send(data.data(), data.size(), 0));
    sends.push_back(request);
  }
  HORING_ASSIGN(void* const other, sender.try_send(data.data(), data.size(), 77));
  HORING_TRY(expect(other == nullptr, "a send with a tag that nobody receives says again"));
  for (size_t i = 0; i < most; ++i) {
    HORING_TRY(receiver.finish(receives[i]).status());
    HORING_TRY(check_pattern(1, buffers[i].data(), buffers[i].size()));
    HORING_TRY(sender.finish(sends[i]).status());
  }
  return {};
}

// A window of `most` requests kept full at both ends.
std::string many_outstanding(Pair& pair, size_t most, uint64_t total, size_t bytes) {
  const auto turn = [most, total](const std::function<Result<void*>(uint64_t)>& post,
                                  const std::function<Status(uint64_t, void*)>& take) -> Status {
    std::vector<void*> under_way(most);
    for (uint64_t i = 0; i < total + most; ++i) {
      if (i >= most && i - most < total) {
        HORING_TRY(take(i - most, under_way[i % most]));
      }
      if (i < total) {
        HORING_ASSIGN(under_way[i % most], post(i));
      }
    }
    return {};
  };
  return run_both(
      [&]() -> Status {
        End end(*pair.net, pair.send);
        std::vector<std::vector<std::byte>> data(most);
        return turn(
            [&](uint64_t i) {
              data[i % most] = pattern(i, bytes);
              return end.send(data[i % most].data(), bytes, 3);
            },
            [&](uint64_t, void* request) { return end.finish(request).status(); });
      },
      [&]() -> Status {
        End end(*pair.net, pair.receive);
        std::vector<std::vector<std::byte>> buffers(most, std::vector<std::byte>(bytes));
        return turn(
            [&](uint64_t i) {
              return end.receive({{buffers[i % most].data(), bytes, 3}});
            },
            [&](uint64_t i, void* request) -> Status {
              HORING_TRY(end.finish(request).status());
              return check_pattern(i, buffers[i % most].data(), bytes);
            });
      });
}

std::string several_comms(NetDriver& net) {
  constexpr size_t kComms = 4;
  std::array<std::string, kComms> errors;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kComms; ++i) {
    threads.emplace_back([&, i] {
      Pair pair(net);
      if (const Status connected = pair.connect(); !connected.ok()) {
        errors.at(i) = connected.to_string();
        return;
      }
      errors.at(i) = many_outstanding(pair, 8, 300, 1000 * i + 1);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors[0] + errors[1] + errors[2] + errors[3];
}

// Both ends fail, and stay failed.
Status too_long(Pair& pair) {
  End sender = pair.sender();
  End receiver = pair.receiver();
  std::array<std::byte, 8> buffer{};
  const std::array<std::byte, 9> data{};
  HORING_ASSIGN(void* const receive, receiver.receive({{buffer.data(), buffer.size(), 4}}));
  const auto send = sender.send(data.data(), data.size(), 4);
  if (send.ok()) {
    HORING_TRY(expect(!sender.finish(*send).ok(), "the sender fails"));
  }
  HORING_TRY(expect(!receiver.finish(receive).ok(), "the receiver fails"));
  HORING_TRY(expect(!sender.try_send(data.data(), 1, 4).ok(), "the sender stays failed"));
  return expect(!receiver.try_receive({{buffer.data(), 1, 4}}).ok(), "the receiver stays failed");
}

// What was reported as sent arrives though the sender has closed.
Status closed_after_sending(Pair& pair) {
  constexpr size_t kBytes = 100'000;
  const auto data = pattern(9, kBytes);
  std::array<std::vector<std::byte>, 4> buffers;
  End receiver = pair.receiver();
  std::vector<void*> receives;
  for (auto& buffer : buffers) {
    buffer.resize(kBytes);
    HORING_ASSIGN(void* const request, receiver.receive({{buffer.data(), kBytes, 0}}));
    receives.push_back(request);
  }
  // One receive that nobody will serve.
  std::byte unused{};
  HORING_ASSIGN(void* const idle, receiver.receive({{&unused, 1, 1}}));
  End sender = pair.sender();
  for (size_t i = 0; i < buffers.size(); ++i) {
    HORING_ASSIGN(void* const request, sender.send(data.data(), kBytes, 0));
    HORING_TRY(sender.finish(request).status());
  }
  HORING_TRY(as_status(pair.net->close_send(pair.send), "close_send"));
  pair.send = nullptr;
  for (size_t i = 0; i < buffers.size(); ++i) {
    HORING_TRY(receiver.finish(receives[i]).status());
    HORING_TRY(check_pattern(9, buffers.at(i).data(), kBytes));
  }
  const auto lost = receiver.finish(idle);
  return expect(!lost.ok() && lost.status().code() != StatusCode::kTimeout,
                "the receive that nobody serves fails");
}

Status peer_closes(Pair& pair, bool sender_goes) {
  std::vector<std::byte> data(64 * kMebi);
  std::vector<std::byte> buffer(data.size());
  End sender = pair.sender();
  End receiver = pair.receiver();
  HORING_ASSIGN(void* const receive, receiver.receive({{buffer.data(), buffer.size(), 0}}));
  HORING_ASSIGN(void* const send, sender.send(data.data(), data.size(), 0));
  for (int turn = 0; turn < 2; ++turn) {
    HORING_TRY(receiver.test(receive).status());
    HORING_ASSIGN(const bool sent, sender.test(send));
    HORING_TRY(expect(!sent, "the message is larger than what sockets hold"));
  }
  Status status;
  if (sender_goes) {
    HORING_TRY(as_status(pair.net->close_send(pair.send), "close_send"));
    pair.send = nullptr;
    status = receiver.finish(receive).status();
  } else {
    HORING_TRY(as_status(pair.net->close_recv(pair.receive), "close_recv"));
    pair.receive = nullptr;
    status = sender.finish(send).status();
  }
  return expect(!status.ok() && status.code() != StatusCode::kTimeout,
                "an error after the peer has gone");
}

Result<WatchedConnection> seen_on(const NetDriver& net, bool sends) {
  const auto all = net.connections();
  const auto found = std::ranges::find(all, sends, &WatchedConnection::sends);
  HORING_TRY(expect(all.size() == 2 && found != all.end(), "one connection to each side"));
  return *found;
}

Status seen(Pair& pair) {
  constexpr size_t kCapacity = 1000;
  constexpr size_t kSize = 700;
  const int64_t before = now_ns();
  std::vector<std::byte> buffer(kCapacity);
  const auto data = pattern(1, kSize);
  HORING_ASSIGN(void* const receive, pair.receiver().receive({{buffer.data(), kCapacity, 3}}));
  HORING_ASSIGN(WatchedConnection waits, seen_on(*pair.net, false));
  HORING_TRY(expect(waits.pending == 1 && waits.pending_bytes == kCapacity && waits.completed == 0,
                    "one receive of 1000 bytes that waits"));
  HORING_TRY(expect(waits.since_ns >= before && waits.since_ns <= now_ns(), "since it was begun"));
  HORING_TRY(expect(!waits.device.empty() && !waits.peer.empty(), "over which device, from whom"));
  HORING_TRY(expect(waits.comm_id == pair.opening.comm_id && waits.context != 0, "whose it is"));
  HORING_ASSIGN(WatchedConnection idle, seen_on(*pair.net, true));
  HORING_TRY(expect(idle.pending == 0, "no send yet"));
  HORING_ASSIGN(void* const send, pair.sender().send(data.data(), kSize, 3));
  HORING_TRY(pair.receiver().finish(receive).status());
  HORING_TRY(pair.sender().finish(send).status());
  for (const bool sends : {false, true}) {
    HORING_ASSIGN(const WatchedConnection done, seen_on(*pair.net, sends));
    HORING_TRY(expect(done.pending == 0 && done.pending_bytes == 0 && done.completed == 1 &&
                          done.completed_bytes == kSize && !done.failed &&
                          done.rail_use.failovers == 0,
                      "one message of 700 bytes that is over"));
  }
  return {};
}

}  // namespace

void run_suite(const NetUnderTest& under_test) {
  const auto net = under_test.make();
  REQUIRE(net != nullptr);
  Pair pair(*net);
  pair.takes_both = under_test.takes_both;
  REQUIRE(pair.connect().to_string() == Status().to_string());
  SECTION("messages of all sizes arrive whole") {
    REQUIRE(send_sizes(pair, {0, 1, 7, 65535, 65536, kMebi + 3, 0, 64 * kMebi, 1}) == "");
  }
  SECTION("grouped receives take tags in every order") {
    for (uint32_t count = 1; count <= under_test.most_receives; ++count) {
      REQUIRE(all_orders(pair, count) == "");
    }
  }
  SECTION("the oldest place with a tag is taken") {
    REQUIRE(oldest_first(pair).message() == "");
  }
  SECTION("what cannot be done yet is to be tried again") {
    REQUIRE(again(pair, under_test.most_requests).message() == "");
    REQUIRE(again(pair, under_test.most_requests).message() == "");
  }
  SECTION("many outstanding requests are completed") {
    REQUIRE(many_outstanding(pair, under_test.most_requests, scaled(20000), 700) == "");
    REQUIRE(many_outstanding(pair, under_test.most_requests, 200, 300'000) == "");
  }
  SECTION("several connections at once keep their messages apart") {
    REQUIRE(several_comms(*net) == "");
  }
  SECTION("what was sent arrives after the sender has closed") {
    REQUIRE(closed_after_sending(pair).message() == "");
  }
  if (under_test.tells_connections) {
    SECTION("what a connection has under way is told") {
      REQUIRE(seen(pair).message() == "");
    }
  }
  if (under_test.reports_too_long) {
    SECTION("a message longer than its room is an error") {
      REQUIRE(too_long(pair).message() == "");
    }
  }
  if (under_test.reports_lost_peer) {
    SECTION("a sender that goes in the middle of a message is an error") {
      REQUIRE(peer_closes(pair, true).message() == "");
    }
    SECTION("a receiver that goes in the middle of a message is an error") {
      REQUIRE(peer_closes(pair, false).message() == "");
    }
  }
}

}  // namespace ho::plugin::conformance
