// What is kept of what was sent, and when the caller has its memory back.
#include "transport/tcp/replay.hpp"

#include <array>
#include <atomic>

#include "catch.hpp"
#include "has.hpp"

namespace ho::tcp {
namespace {

constexpr size_t kLarge = Replay::kCopiedBytes + 1;

FrameBytes header_of(uint32_t number) {
  Frame frame;
  frame.op_index = number;
  return encode(frame);
}

// Keeps messages of these sizes, one end behind the other on one connection.
void keep_all(Replay& replay, const std::vector<std::vector<std::byte>>& payloads) {
  uint64_t end = 0;
  for (const auto& payload : payloads) {
    end += kFrameBytes + payload.size();
    const ConstBytes part(payload);
    replay.keep(header_of(static_cast<uint32_t>(replay.next())), std::span(&part, 1), {.end = end});
  }
}

bool same(const Replay::Message& message, const std::vector<std::byte>& expected) {
  std::vector<std::byte> got;
  for (const ConstBytes& part : message.payload) {
    got.insert(got.end(), part.begin(), part.end());
  }
  return got == expected;
}

}  // namespace

TEST_CASE("small messages are copied, and large ones are released once they have arrived") {
  std::atomic<uint64_t> used{0};
  ReplayBudget budget{used};
  Replay replay(budget);
  std::vector<std::vector<std::byte>> payloads{std::vector(8, std::byte{1}),
                                               std::vector(kLarge, std::byte{2}),
                                               std::vector(0, std::byte{}),
                                               std::vector(16, std::byte{4})};
  keep_all(replay, payloads);
  CHECK(replay.next() == 4);
  CHECK(replay.released() == 1);
  CHECK(budget.used_bytes == 24);
  const auto kept = payloads;
  payloads[0].assign(8, std::byte{9});  // the caller's again
  CHECK(same(replay.at(0), kept[0]));
  CHECK(replay.at(0).header == header_of(0));

  constexpr uint64_t kUpTo = 2 * kFrameBytes + 8 + kLarge;
  replay.on_acknowledged(std::array<uint64_t, 1>{kUpTo - 1});
  CHECK(replay.released() == 1);
  replay.on_acknowledged(std::array<uint64_t, 1>{kUpTo});
  CHECK(replay.released() == 4);
  CHECK(replay.size() == 2);
  CHECK(same(replay.at(3), kept[3]));
  replay.on_acknowledged(std::array<uint64_t, 1>{Replay::kNowhere - 1});
  CHECK(replay.empty());
  CHECK(budget.used_bytes == 0);
  CHECK(replay.next() == 4);
}

TEST_CASE("what is lent is copied where the caller waits, as far as the budget goes") {
  std::atomic<uint64_t> used{0};
  ReplayBudget budget{used, kLarge + 8};
  const std::vector<std::vector<std::byte>> payloads{std::vector(kLarge, std::byte{1}),
                                                     std::vector(kLarge, std::byte{2}),
                                                     std::vector(8, std::byte{3})};
  {
    Replay replay(budget);
    keep_all(replay, payloads);
    CHECK(replay.released() == 0);
    replay.copy_lent(0);
    CHECK(replay.released() == 0);
    replay.copy_lent(1);
    CHECK(replay.memory_bytes() == kLarge + 8);
    replay.copy_lent(3);
    CHECK(replay.released() == 1);
    CHECK(replay.memory_bytes() == kLarge + 8);
    CHECK(same(replay.at(0), payloads[0]));
    REQUIRE(replay.on_counted(1).ok());
    replay.copy_lent(3);
    CHECK(replay.released() == 3);
    // Beyond the budget a small message is copied all the same: its caller has reused its memory.
    keep_all(replay, {payloads[2]});
    CHECK(replay.released() == 4);
    CHECK(used == kLarge + 16);
    ReplayBudget another{used, kLarge + 8};
    Replay of_another(another);  // a budget of one process
    keep_all(of_another, payloads);
    of_another.copy_lent(3);
    CHECK(of_another.released() == 0);
  }
  CHECK(used == 0);
}

TEST_CASE("a copy lies where the last one lay that is needed no more") {
  CopyMemory memory;
  std::vector<std::byte> first = memory.take(5000);
  std::vector<std::byte> second = memory.take(5000);
  const std::byte* const last = second.data();
  memory.give_back(std::move(first));
  memory.give_back(std::move(second));
  CHECK(memory.spare_bytes() == 10000);
  CHECK(memory.take(6000).data() != last);  // has no room there
  std::vector<std::byte> again = memory.take(4000);
  CHECK(again.data() == last);
  CHECK(again.empty());
  CHECK(memory.spare_bytes() == 5000);
}

TEST_CASE("spare memory of copies has a limit, and none of it is tiny") {
  CopyMemory memory;
  for (int i = 0; i < 100; ++i) {
    memory.give_back(std::vector<std::byte>(16));
    memory.give_back(std::vector<std::byte>(16384));
  }
  CHECK(memory.spare_bytes() == CopyMemory::kMaxSpareBytes);
}

TEST_CASE("over several connections a message has arrived when all before it have") {
  std::atomic<uint64_t> used{0};
  ReplayBudget budget{used};
  Replay replay(budget);
  const std::array<ConstBytes, 0> nothing{};
  replay.keep(header_of(0), nothing, {0, 32});
  replay.keep(header_of(1), nothing, {1, 32});
  replay.keep(header_of(2), nothing, {0, 64});
  replay.on_acknowledged(std::array<uint64_t, 2>{31, 32});
  CHECK(replay.size() == 3);
  replay.on_acknowledged(std::array<uint64_t, 2>{32, 31});
  CHECK(replay.size() == 2);
  replay.on_acknowledged(std::array<uint64_t, 2>{64, 32});
  CHECK(replay.empty());
}

TEST_CASE("lost connections acknowledge nothing until a message is sent again") {
  std::atomic<uint64_t> used{0};
  ReplayBudget budget{used};
  Replay replay(budget);
  const std::array<ConstBytes, 0> nothing{};
  replay.keep(header_of(0), nothing, {0, 32});
  replay.keep(header_of(1), nothing, {0, 64});
  replay.on_connections_lost();
  replay.on_acknowledged(std::array<uint64_t, 1>{1000});
  CHECK(replay.size() == 2);
  replay.on_sent_again(0, {0, 96});
  replay.on_acknowledged(std::array<uint64_t, 1>{1000});
  CHECK(replay.size() == 1);
  CHECK(replay.at(1).header == header_of(1));
}

TEST_CASE("a count of messages that cannot have been received is refused") {
  std::atomic<uint64_t> used{0};
  ReplayBudget budget{used};
  Replay replay(budget);
  const std::array<ConstBytes, 0> nothing{};
  for (uint32_t i = 0; i < 5; ++i) {
    replay.keep(header_of(i), nothing, {0, kFrameBytes * (i + 1)});
  }
  REQUIRE(replay.on_counted(2).ok());
  CHECK(replay.size() == 3);
  CHECK(has(replay.on_counted(1), "has received 1 messages, where 2 to 5 are possible"));
  CHECK(replay.on_counted(6).code() == StatusCode::kProtocol);
  CHECK(replay.size() == 3);
  REQUIRE(replay.on_counted(5).ok());
  CHECK(replay.empty());
}

}  // namespace ho::tcp
