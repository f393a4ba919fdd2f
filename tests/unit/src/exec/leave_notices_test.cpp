#include "exec/leave_notices.hpp"

#include "catch.hpp"
#include "has.hpp"

using namespace ho;

namespace {

PeerLeaveNotice leave_notice_of(uint32_t rank, uint32_t all_reduces) {
  PeerLeaveNotice leave_notice;
  leave_notice.rank = GlobalRank(rank);
  leave_notice.name = "rank " + std::to_string(rank);
  leave_notice.process = "rank " + std::to_string(rank) + " (node1, pid 9)";
  leave_notice.channels[2] = {all_reduces, all_reduces == 0 ? "" : "all_reduce"};
  return leave_notice;
}

OperationPosition operation(uint8_t channel, uint32_t number) {
  return {.channel = channel, .number = number};
}

}  // namespace

TEST_CASE("operations complete up to the number that whoever left has entered") {
  LeaveNotices leave_notices;
  CHECK(leave_notices.none());
  CHECK_FALSE(leave_notices.against(operation(2, 1000)).has_value());
  leave_notices.add(leave_notice_of(3, 5));
  CHECK_FALSE(leave_notices.none());
  CHECK_FALSE(leave_notices.against(operation(2, 4)).has_value());
  CHECK_FALSE(leave_notices.against(operation(2, 5)).has_value());
  const auto status = leave_notices.against(operation(2, 6));
  REQUIRE(status.has_value());
  CHECK(status->code() == StatusCode::kPeerLost);
  CHECK(has(*status, "rank 3 has left (it destroyed its communicator after all_reduce #5)"));
  CHECK(has(*status, "rank 3 (node1, pid 9)"));
}

TEST_CASE("each channel counts for itself") {
  LeaveNotices leave_notices;
  leave_notices.add(leave_notice_of(3, 5));
  const auto status = leave_notices.against(operation(0, 1));
  REQUIRE(status.has_value());
  CHECK(has(*status, "rank 3 has left (it destroyed its communicator before any such operation)"));
}

TEST_CASE("of several that left, the first that is needed is named") {
  LeaveNotices leave_notices;
  leave_notices.add(leave_notice_of(1, 9));
  leave_notices.add(leave_notice_of(2, 5));
  leave_notices.add(leave_notice_of(3, 5));
  CHECK(has(*leave_notices.against(operation(2, 6)), "rank 2 has left"));
  CHECK(has(*leave_notices.against(operation(2, 10)), "rank 1 has left"));
  CHECK(has(leave_notices.any(), "rank 1 has left"));
}

TEST_CASE("a notice is found by its rank and says how many messages passed") {
  LeaveNotices leave_notices;
  PeerLeaveNotice leave_notice = leave_notice_of(3, 5);
  leave_notice.sent_here = 2;
  leave_notice.received_here = 1;
  leave_notices.add(leave_notice);
  REQUIRE(leave_notices.of(GlobalRank(3)) != nullptr);
  const Status status = LeaveNotices::no_messages(*leave_notices.of(GlobalRank(3)));
  CHECK(status.code() == StatusCode::kPeerLost);
  CHECK(has(status, "rank 3 has left"));
  CHECK(has(status, "after 2 messages to this rank and 1 from it"));
  CHECK(leave_notices.of(GlobalRank(4)) == nullptr);
}
