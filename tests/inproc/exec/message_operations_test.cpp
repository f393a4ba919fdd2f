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

// Takes what is sent while it is open, and keeps it.
class KeepingLink : public test::SilentLink {
 public:
  bool open = false;
  bool between_hosts = false;

  Result<bool> try_send(const Frame& /*frame*/, std::span<const ConstBytes> /*payload*/) override {
    return open;
  }
  [[nodiscard]] bool over_network() const override { return between_hosts; }
};

// Those of rank 1 of 3.
struct Messages {
  test::Journal journal;
  KeepingLink link;
  test::SilentTransport shm{journal, link};
  test::NetworkDouble network{link};
  test::TestOwner owner;
  std::array<std::byte, 8> bytes{};
  std::optional<Status> cause;
  LeaveNotices notices;
  std::shared_ptr<Recorder> recorder = test::must_have(Recorder::create());
  MessageOperations messages{{.self = GlobalRank(1U),
                              .world_size = 3,
                              .communicator = 5,
                              .owner = &owner,
                              .shm = &shm,
                              .network = &network,
                              .recorder = recorder.get()}};

  Result<std::shared_ptr<Operation>> try_submit(bool sends,
                                                uint32_t peer,
                                                bool background,
                                                Deadline deadline = Deadline::max()) {
    Transfer transfer;
    transfer.deadline = deadline;
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

TEST_CASE("messages that were taken and not released wait for that, and those before them do not") {
  Messages rank_1;
  rank_1.owner.rail = RailIndex(0);
  rank_1.link.between_hosts = true;
  (void)rank_1.submit(true, 2);
  Deadline earliest = Deadline::max();
  const auto awaits_release = [&] {
    std::optional<RunError> error;
    (void)rank_1.messages.step(rank_1.notices, false, error);
    CHECK_FALSE(error.has_value());
    return rank_1.messages.waits(&earliest).network_releases;
  };
  CHECK_FALSE(awaits_release());
  rank_1.link.open = true;
  CHECK(awaits_release());
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

TEST_CASE("the earliest deadline of all is waited for, and the one that is late is named") {
  Messages rank_1;
  const Deadline past = Clock::now() - std::chrono::seconds(1);
  const Deadline future = Clock::now() + std::chrono::hours(1);
  (void)test::must_have(rank_1.try_submit(true, 2, false, future));
  Deadline earliest = Deadline::max();
  (void)rank_1.messages.waits(&earliest);
  CHECK(earliest == future);
  CHECK_FALSE(rank_1.messages.late().has_value());
  (void)test::must_have(rank_1.try_submit(false, 0, false, past));
  (void)test::must_have(rank_1.try_submit(false, 2, false, future));
  (void)rank_1.messages.waits(&earliest);
  CHECK(earliest == past);
  const auto late = rank_1.messages.late();
  REQUIRE(late.has_value());
  CHECK(has(late->status, "recv from rank 0"));
  rank_1.messages.end_all(Status(StatusCode::kAborted, "enough"));
}

TEST_CASE("a rank that leaves gives up receives that are late, and says that some have ended") {
  Messages rank_1;
  const Deadline now = Clock::now();
  const auto late =
      test::must_have(rank_1.try_submit(false, 0, false, now - std::chrono::seconds(1)));
  const auto in_time =
      test::must_have(rank_1.try_submit(false, 2, false, now + std::chrono::hours(1)));
  CHECK(rank_1.messages.end_in_vain(now));
  CHECK(late->ended());
  CHECK_FALSE(in_time->ended());
  CHECK_FALSE(rank_1.messages.end_in_vain(now));
  rank_1.messages.end_all(Status(StatusCode::kAborted, "enough"));
}

TEST_CASE("where a link has the memory of a message to a rank that leaves, that is said") {
  Messages rank_1;
  rank_1.link.open = true;
  const auto to_0 = rank_1.submit(true, 0);
  std::optional<RunError> error;
  CHECK(rank_1.messages.step(rank_1.notices, true, error));
  CHECK_FALSE(error.has_value());
  CHECK_FALSE(to_0->ended());
  rank_1.leaves(0);
  const EndedByLeave ended = rank_1.messages.end_of_left(rank_1.notices);
  CHECK(has(to_0->status(), "rank 0 has left"));
  REQUIRE(ended.abandoned.has_value());
  CHECK(has(*ended.abandoned, "rank 0 has left"));
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
