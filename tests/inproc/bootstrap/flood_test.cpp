// Ranks that ask more of rank 0 than there is to ask, or do not read what it says. They have the
// job key, so they are let in; the others are served all the same.
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planes.hpp"
#include "rank_process.hpp"

using namespace ho;
using namespace ho::test;

namespace {

constexpr uint64_t kOne = 70;

// A rank that says what the test says, and no more.
class RawRank {
 public:
  RawRank(uint16_t port, uint32_t rank, uint32_t world_size) : rank_(rank) {
    auto [fd, status] = come_as(
        port,
        key_of(),
        {.rank = rank, .world_size = world_size, .pid = 7, .timeout_ms = 60'000, .host = "raw"});
    REQUIRE(status.ok());
    fd_ = std::move(fd);
  }

  template <typename Body>
  void add(wire::Type type, uint64_t id, const Body& body) {
    const wire::Buffer bytes = wire::encode(body);
    const auto header = wire::encode(
        wire::Header{.type = type, .body_bytes = static_cast<uint32_t>(bytes.size()), .id = id});
    output_.insert(output_.end(), header.begin(), header.end());
    output_.insert(output_.end(), bytes.begin(), bytes.end());
  }
  void add(wire::Type type, uint64_t id) {
    const auto header = wire::encode(wire::Header{.type = type, .body_bytes = 0, .id = id});
    output_.insert(output_.end(), header.begin(), header.end());
  }
  void add_contribution(const std::string& tag,
                        std::vector<uint32_t> members,
                        size_t blob_bytes = 0) {
    add(wire::Type::kContribution,
        ++gathers_,
        wire::Contribution{tag, 60'000, std::move(members), wire::Buffer(blob_bytes)});
  }
  // False: the connection has ended.
  bool say() {
    bool whole = true;
    for (size_t sent = 0; whole && sent < output_.size();) {
      const ssize_t some =
          ::send(fd_.get(), output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL);
      whole = some > 0;
      sent += whole ? static_cast<size_t>(some) : 0;
    }
    output_.clear();
    return whole;
  }
  // Counts the messages of that type before the first one of type `end`.
  [[nodiscard]] size_t count_until(wire::Type end, wire::Type counted) {
    size_t count = 0;
    while (true) {
      const wire::Type type = next();
      if (type == end) {
        return count;
      }
      count += type == counted ? 1 : 0;
    }
  }

 private:
  wire::Type next() {
    std::array<std::byte, 65536> chunk{};
    while (true) {
      auto message = splitter_.next();
      REQUIRE(message.ok());
      if (message->has_value()) {
        return (*message)->header.type;
      }
      const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      INFO("rank " << rank_);
      REQUIRE(got > 0);
      splitter_.feed(std::span(chunk).first(static_cast<size_t>(got)));
    }
  }

  uint32_t rank_;
  Fd fd_;
  wire::Buffer output_;
  wire::Splitter splitter_;
  uint64_t gathers_ = 0;
};

// Rank 0 in a process, and the others, all of which are in one communicator. Rank 0's own part of
// what they gather comes under the tag "joined".
struct World {
  explicit World(uint32_t size) : rank_0(at(reserved.text(), 0, size), "joined") {
    for (uint32_t rank = 1; rank < size; ++rank) {
      ranks.emplace_back(reserved.port(), rank, size);
    }
    for (RawRank& rank : ranks) {
      rank.add(wire::Type::kJoined, kOne, Membership{kOne, kWholeJob, size - 1});
      rank.add_contribution("joined", {});
      rank.say();
    }
    for (RawRank& rank : ranks) {
      (void)rank.count_until(wire::Type::kGathered, wire::Type::kGathered);
    }
  }

  ReservedPort reserved;
  RankProcess rank_0;
  std::vector<RawRank> ranks;  // from rank 1 on
};

}  // namespace

TEST_CASE("a rank that asks without end gets its share of rank 0's time, and the others theirs") {
  constexpr size_t kRequested = 600;
  World world(4);
  RawRank& floods = world.ranks[0];
  RawRank& other = world.ranks[1];
  const CallQuestion question{
      .communicator = kOne, .rank = {}, .channel = 0, .call = blob_of("call")};
  world.rank_0.stop();  // so that all is there, in this order, when it goes on
  for (size_t i = 0; i < kRequested; ++i) {
    floods.add(wire::Type::kCallQuestion, 0, question);
  }
  floods.say();
  other.add_contribution("alone", {2});
  other.say();
  world.rank_0.end(SIGCONT);
  const size_t before = other.count_until(wire::Type::kGathered, wire::Type::kCallQuestion);
  CHECK(before <= 128);  // two shares
  // And none is lost.
  floods.add_contribution("behind them", {1});
  floods.say();
  (void)floods.count_until(wire::Type::kGathered, wire::Type::kGathered);
  other.add_contribution("behind these", {2});
  other.say();
  CHECK(before + other.count_until(wire::Type::kGathered, wire::Type::kCallQuestion) == kRequested);
}

TEST_CASE("a rank that does not read is given up before it fills rank 0's memory") {
  const ReservedPort reserved;
  auto first = std::async(std::launch::async, [address = reserved.text()] {
    return create_all({{.rendezvous = at(address, 0, 3)}, {.rendezvous = at(address, 2, 3)}});
  });
  RawRank silent(reserved.port(), 1, 3);
  auto created = first.get();
  REQUIRE(created[0].ok());
  REQUIRE(created[1].ok());
  std::vector<Ear> ears(2);
  std::vector<Plane> planes;
  planes.push_back(std::move(created[0]).value());
  planes.push_back(std::move(created[1]).value());
  ears[0].listen(*planes[0]);
  ears[1].listen(*planes[1]);
  // Each is answered at once with as much.
  constexpr size_t kBlob = 1'000'000;
  size_t answers = 0;
  for (bool open = true; open && answers < 200; ++answers) {
    silent.add_contribution("alone", {1}, kBlob);
    open = silent.say();
  }
  CHECK(answers < 200);
  for (Ear& ear : ears) {
    const Status heard = ear.heard();
    CHECK(heard.code() == StatusCode::kProtocol);
    CHECK(has(heard, "rank 1 (raw, pid 7) does not read what rank 0 sends to it"));
  }
}

TEST_CASE("of many ranks that leave at once, none is told of the others") {
  constexpr uint32_t kWorld = 64;
  World world(kWorld);
  LeaveNotice leave_notice;
  leave_notice.communicator = kOne;
  world.rank_0.stop();
  for (uint32_t i = 0; i < world.ranks.size(); ++i) {
    world.ranks[i].add(wire::Type::kLeaving, 0, leave_notice);
    world.ranks[i].add(wire::Type::kReleased, kOne);
    world.ranks[i].add_contribution("after", {i + 1});
    world.ranks[i].say();
  }
  world.rank_0.end(SIGCONT);
  size_t reported = 0;
  for (RawRank& rank : world.ranks) {
    reported += rank.count_until(wire::Type::kGathered, wire::Type::kLeaveNotice);
  }
  CHECK(reported == 0);
}
