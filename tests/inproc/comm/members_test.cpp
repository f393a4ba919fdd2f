// What a communicator's parts tell the other members, on a control plane that keeps it.
#include <array>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "comm/engine_upcalls.hpp"
#include "comm/join_job.hpp"
#include "comm/member_exchange.hpp"
#include "has.hpp"
#include "kept_plane.hpp"
#include "must_have.hpp"

namespace ho::test {
namespace {

// Ranks 5, 2, 0 and 3 of the job, in this order.
JobControl::Identity split_of_four() {
  return {99, 7, 3, {GlobalRank(5), GlobalRank(2), GlobalRank(0), GlobalRank(3)}};
}

// Two groups of two; the second has its ranks on two hosts.
Placement two_groups() {
  const std::vector<std::string> hosts{"a", "a", "b", "c"};
  return {must_have(GroupMap::from_sizes({2, 2})),
          hosts,
          hosts,
          std::vector<RailInterface>(4),
          std::vector<uint64_t>(4),
          0,
          {},
          {}};
}

}  // namespace

TEST_CASE("members gather as ranks of the job, under a tag of their communicator") {
  KeptPlane plane(2, 6);
  const JobControl::Identity identity = split_of_four();
  const MemberExchange members(plane, identity);
  const std::array<std::byte, 1> mine{std::byte{8}};
  const auto some = members.gather("some", mine, {GlobalRank(3), GlobalRank(1)}, Deadline::max());
  REQUIRE(some.ok());
  CHECK(some->size() == 2);
  CHECK(members.gather_all("all", mine, Deadline::max()).ok());
  REQUIRE(plane.gathers.size() == 2);
  CHECK(plane.gathers[0].tag == JobControl::gather_tag("some", 3, 99));
  CHECK(plane.gathers[0].members == std::vector{GlobalRank(3), GlobalRank(2)});
  CHECK(plane.gathers[1].tag == JobControl::gather_tag("all", 3, 99));
  CHECK(plane.gathers[1].members == identity.ranks);
  CHECK(members.job_id() == 77);
  CHECK(members.id() == 3);

  plane.over = Status(StatusCode::kPeerLost, "rank 5 has gone");
  CHECK(members.interrupted().message() == "rank 5 has gone");
  CHECK(plane.over_tag == JobControl::gather_tag({}, 3, 99));
}

TEST_CASE("an engine's error is reported with the ranks of the job and the communicator's number") {
  auto made = std::make_unique<KeptPlane>(2, 6);
  KeptPlane& plane = *made;
  JobControl control(std::move(made));
  const JobControl::Identity identity = split_of_four();
  const Placement placement = two_groups();
  EngineUpcalls upcalls(control, identity, placement, GlobalRank(1));

  upcalls.on_failure({Status(StatusCode::kConnection, "rail 0 is down"), GlobalRank(3)});
  upcalls.on_failure({Status(StatusCode::kTimeout, "nobody came"), std::nullopt});
  upcalls.on_failure({Status(StatusCode::kPeerLost, "rank 0 is gone"), GlobalRank(0)});
  REQUIRE(plane.reports.size() == 3);
  CHECK(plane.reports[0].code == StatusCode::kConnection);
  CHECK(plane.reports[0].reporter == GlobalRank(2));
  CHECK(plane.reports[0].peer == GlobalRank(3));
  CHECK(plane.reports[0].text == "communicator 3: rail 0 is down");
  CHECK(plane.reports[0].communicator == 99);
  CHECK_FALSE(plane.reports[1].peer.has_value());
  CHECK(plane.reports[2].text ==
        "communicator 3, whose rank 0 is rank 5 of the job: rank 0 is gone");
}

TEST_CASE("who has left is named as the program names its process, in a split too") {
  auto made = std::make_unique<KeptPlane>(2, 6);
  KeptPlane& plane = *made;
  JobControl control(std::move(made));
  control.start();
  control.expect(split_of_four());
  LeaveNotice notice;
  notice.communicator = 99;
  notice.rank = GlobalRank(3);

  notice.name = "global rank 12 (node1, pid 9)";
  plane.callbacks.on_leave_notice(notice);
  CHECK(has(plane.gathers_end, "global rank 12 has left"));
  CHECK(has(plane.gathers_end, "the output of global rank 12 (node1, pid 9) for"));

  notice.name = "rank 3 (node1, pid 9)";  // the program has no other name for it
  plane.callbacks.on_leave_notice(notice);
  CHECK(has(plane.gathers_end, "rank 3 has left"));
  CHECK(has(plane.gathers_end, "the output of rank 3 (node1, pid 9) of the job for"));
}

TEST_CASE("lines of the log begin with the name that the program gave the communicator") {
  JobControl control(std::make_unique<KeptPlane>(2, 6));
  control.expect(split_of_four());
  CHECK(control.log_prefix(99).empty());
  control.set_name(99, {"group 'a'", 5});
  CHECK(control.log_prefix(99) == "group 'a': ");
  CHECK(control.log_prefix(98).empty());
}

TEST_CASE("messages take shared memory inside a host, and else the rail of the lower rank") {
  JobControl control(std::make_unique<KeptPlane>(0, 6));
  const JobControl::Identity identity = split_of_four();
  const Placement placement = two_groups();
  const EngineUpcalls first(control, identity, placement, GlobalRank(0));
  CHECK_FALSE(first.rail_to(GlobalRank(1)).has_value());
  CHECK(first.rail_to(GlobalRank(3)) == RailIndex(0));
  const EngineUpcalls last(control, identity, placement, GlobalRank(3));
  CHECK(last.rail_to(GlobalRank(1)) == RailIndex(1));
  CHECK(last.rail_to(GlobalRank(2)) == RailIndex(0));  // of its group, on another host
}

TEST_CASE("a rank's own error gives way to a reported cause that explains it") {
  const Status own(StatusCode::kConnection, "own");
  const Status late(StatusCode::kTimeout, "late");
  CHECK(first_of(own, Status()).message() == "own");
  CHECK(first_of(own, Status(StatusCode::kPeerLost, "said")).message() == "said");
  CHECK(first_of(own, Status(StatusCode::kTimeout, "said")).message() == "own");
  CHECK(first_of(late, Status(StatusCode::kTimeout, "said")).message() == "said");

  CHECK(reported_as(own, "rank 2 made none").message() == "rank 2 made none: own");
  CHECK(reported_as(late, "rank 2 made none").message() == "late");
}

}  // namespace ho::test
