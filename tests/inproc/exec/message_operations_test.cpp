// Sends and receives as operations, over links that take nothing.
#include "exec/message_operations.hpp"

#include <array>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "must_have.hpp"
#include "network_double.hpp"
#include "silent_link.hpp"
#include "silent_transport.hpp"
#include "test_owner.hpp"

namespace ho {
namespace {

// Those of rank 1 of 3.
struct Messages {
  test::Journal journal;
  test::SilentLink link;
  test::SilentTransport shm{journal, link};
  test::NetworkDouble network{link};
  test::TestOwner owner;
  std::array<std::byte, 8> bytes{};
  std::optional<Status> cause;
  LeaveNotices notices;
  MessageOperations messages{{.self = GlobalRank(1U),
                              .world_size = 3,
                              .communicator = 5,
                              .owner = &owner,
                              .shm = &shm,
                              .network = &network}};

  Result<std::shared_ptr<Operation>> try_submit(bool sends, uint32_t peer, bool background) {
    Transfer transfer;
    transfer.sends = sends;
    transfer.peer = GlobalRank(peer);
    transfer.count = bytes.size();
    transfer.data = bytes.data();
    transfer.into = bytes.data();
    return messages.submit(transfer, background, cause, notices);
  }
  std::shared_ptr<Operation> submit(bool sends, uint32_t peer, bool background = false) {
    return test::must_have(try_submit(sends, peer, background));
  }
  void leaves(uint32_t rank) {
    PeerLeaveNotice notice;
    notice.rank = GlobalRank(rank);
    notice.name = "rank " + std::to_string(rank);
    notices.add(std::move(notice));
  }
};

}  // namespace

TEST_CASE("messages over a network have a link for each direction, named by the lower rank") {
  Messages rank_1;
  rank_1.owner.rail = RailIndex(2);
  (void)rank_1.submit(true, 2);
  (void)rank_1.submit(false, 0);
  const LinkKey to_higher{GlobalRank(2U), RailIndex(2), 5, kMessageChannel};
  const LinkKey from_higher{GlobalRank(2U), RailIndex(2), 5, kHigherMessageChannel};
  const LinkKey to_lower{GlobalRank(0U), RailIndex(2), 5, kHigherMessageChannel};
  const LinkKey from_lower{GlobalRank(0U), RailIndex(2), 5, kMessageChannel};
  CHECK(rank_1.network.requested == std::vector{to_higher, from_higher, to_lower, from_lower});
  rank_1.messages.end_all(Status(StatusCode::kAborted, "enough"));
}

TEST_CASE("an end of everything names each message, and refuses later ones") {
  Messages rank_1;
  const auto sent = rank_1.submit(true, 2);
  const auto received = rank_1.submit(false, 0, true);
  CHECK(rank_1.messages.active());
  CHECK(rank_1.messages.any_background());
  CHECK_FALSE(rank_1.messages.take_woken());
  rank_1.cause = Status(StatusCode::kAborted, "enough");
  rank_1.messages.end_all(*rank_1.cause);
  CHECK(has(sent->status(), "send to rank 2 tag 0 (8 uint8): enough"));
  CHECK(has(received->status(), "recv from rank 0 tag 0 (8 uint8): enough"));
  CHECK(rank_1.messages.take_woken());
  CHECK_FALSE(rank_1.messages.active());
  CHECK_FALSE(rank_1.messages.any_background());
  CHECK(has(rank_1.try_submit(true, 2, false).status(), "send to rank 2"));
}

TEST_CASE("a rank that leaves ends what needs it, and is sent nothing more") {
  Messages rank_1;
  const auto from_0 = rank_1.submit(false, 0);
  const auto from_2 = rank_1.submit(false, 2);
  rank_1.leaves(0);
  const EndedByLeave ended = rank_1.messages.end_of_left(rank_1.notices);
  CHECK(ended.any);
  CHECK_FALSE(ended.abandoned.has_value());  // no link has its memory
  CHECK(has(from_0->status(), "rank 0 has left"));
  CHECK_FALSE(from_2->ended());
  CHECK(has(rank_1.try_submit(true, 0, false).status(), "rank 0 has left"));
  rank_1.messages.end_all(Status(StatusCode::kAborted, "enough"));
}

TEST_CASE("the state of messages has their numbers, and says whether a thread waits for one") {
  Messages rank_1;
  CHECK_FALSE(rank_1.messages.state().has_value());
  const auto received = rank_1.submit(false, 0);
  const auto state = rank_1.messages.state();
  REQUIRE(state.has_value());
  CHECK(state->entered == 1);
  CHECK(state->operation == "send/recv");
  CHECK(state->held == 0);
  received->hold();
  CHECK(rank_1.messages.state()->held == 1);
  received->let_go();
  rank_1.messages.end_all(Status(StatusCode::kAborted, "enough"));
}

}  // namespace ho
