// Messages of a rank whose peers leave, or that leaves itself, over a link that takes everything.
#include "exec/point_to_point.hpp"

#include <array>
#include <memory>

#include "catch.hpp"
#include "has.hpp"
#include "silent_link.hpp"

using namespace ho;
using namespace std::chrono_literals;

namespace {

const Deadline kMoment{std::chrono::seconds(1000)};

// What it is given has left when it says so.
class LendingLink : public test::SilentLink {
 public:
  uint64_t sent = 0;
  uint64_t gone = 0;

  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    ++sent;
    return true;
  }
  uint64_t released() override { return gone; }
};

struct MessagesOfRank0 {
  LendingLink link;
  LeaveNotices notices;
  std::array<std::byte, 100> bytes{};
  PointToPoint messages;

  explicit MessagesOfRank0(uint32_t world_size = 2)
      : messages({.self = GlobalRank(0U),
                  .world_size = world_size,
                  .communicator = 0,
                  .has_network = false,
                  .link = [this](GlobalRank, bool) -> Result<Link*> { return &link; },
                  .callers = {}}) {}

  std::shared_ptr<Transfer> submit(bool sends, std::optional<uint32_t> peer, Deadline deadline) {
    auto transfer = std::make_shared<Transfer>();
    transfer->sends = sends;
    transfer->peer = peer ? std::optional(GlobalRank(*peer)) : std::nullopt;
    transfer->count = bytes.size();
    transfer->data = bytes.data();
    transfer->into = bytes.data();
    transfer->deadline = deadline;
    REQUIRE(messages.submit(transfer).ok());
    return transfer;
  }
  // Those that have ended then.
  std::vector<std::shared_ptr<Transfer>> step() {
    bool moved = false;
    REQUIRE_FALSE(messages.make_progress(notices, true, &moved).has_value());
    return messages.take_ended();
  }
  void rank_1_leaves(uint32_t received_here) {
    PeerLeaveNotice notice;
    notice.rank = GlobalRank(1U);
    notice.name = "rank 1";
    notice.received_here = received_here;
    notices.add(std::move(notice));
  }
};

StatusCode code_of(const Transfer& transfer) {
  return transfer.outcome.value_or(Status()).code();
}

}  // namespace

TEST_CASE("of messages under way to a rank that leaves, those that it has received end well") {
  MessagesOfRank0 rank_0;
  const auto received = rank_0.submit(true, 1, Deadline::max());
  const auto lost = rank_0.submit(true, 1, Deadline::max());
  CHECK(rank_0.step().empty());
  REQUIRE(rank_0.link.sent == 2);
  rank_0.rank_1_leaves(1);
  REQUIRE(rank_0.step() == std::vector{lost});
  CHECK(code_of(*lost) == StatusCode::kPeerLost);
  CHECK(has(*lost->outcome, "rank 1 has left"));
  rank_0.link.gone = 1;
  REQUIRE(rank_0.step() == std::vector{received});
  CHECK(code_of(*received) == StatusCode::kOk);
}

TEST_CASE(
    "a rank that leaves gives up receives at their deadlines, and those from itself at once") {
  MessagesOfRank0 rank_0;
  const auto later = rank_0.submit(false, 1, kMoment + 1s);
  const auto own = rank_0.submit(false, 0, kMoment + 1s);
  const auto any = rank_0.submit(false, std::nullopt, kMoment + 2s);
  const auto sent = rank_0.submit(true, 1, kMoment + 1s);
  CHECK(rank_0.step().empty());
  rank_0.messages.end_in_vain(kMoment);
  REQUIRE(rank_0.messages.take_ended() == std::vector{own});
  CHECK(code_of(*own) == StatusCode::kPeerLost);
  rank_0.messages.end_in_vain(kMoment + 1s);
  REQUIRE(rank_0.messages.take_ended() == std::vector{later});
  CHECK(code_of(*later) == StatusCode::kTimeout);
  CHECK(has(*later->outcome, "recv from rank 1 tag 0 (100 uint8) did not complete within"));
  rank_0.messages.end_in_vain(kMoment + 2s);
  REQUIRE(rank_0.messages.take_ended() == std::vector{any});
  // That its receiver has it concerns both.
  CHECK(rank_0.messages.active());
  CHECK_FALSE(sent->outcome.has_value());

  MessagesOfRank0 alone(1);
  const auto nobody = alone.submit(false, std::nullopt, kMoment + 1s);
  alone.messages.end_in_vain(kMoment);
  CHECK(code_of(*nobody) == StatusCode::kPeerLost);
}
