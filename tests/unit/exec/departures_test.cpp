#include "exec/departures.hpp"

#include "catch.hpp"
#include "has.hpp"

using namespace ho;

namespace {

PeerDeparture departure_of(uint32_t rank, uint32_t all_reduces) {
  PeerDeparture departure;
  departure.rank = GlobalRank(rank);
  departure.process = "rank " + std::to_string(rank) + " (node1, pid 9)";
  departure.channels[2] = {all_reduces, all_reduces == 0 ? "" : "all_reduce"};
  return departure;
}

OperationPlace operation(uint8_t channel, uint32_t number) {
  return {
      .channel = channel, .number = number, .point_to_point = false, .sends = false, .peer = {}};
}

OperationPlace message(uint32_t peer, bool sends, uint32_t number) {
  return {.channel = 3,
          .number = number,
          .point_to_point = true,
          .sends = sends,
          .peer = GlobalRank(peer)};
}

}  // namespace

TEST_CASE("operations complete up to the number that whoever left has entered") {
  Departures departures;
  CHECK(departures.none());
  CHECK_FALSE(departures.against(operation(2, 1000)).has_value());
  departures.add(departure_of(3, 5));
  CHECK_FALSE(departures.none());
  CHECK_FALSE(departures.against(operation(2, 4)).has_value());
  CHECK_FALSE(departures.against(operation(2, 5)).has_value());
  const auto status = departures.against(operation(2, 6));
  REQUIRE(status.has_value());
  CHECK(status->code() == StatusCode::kPeerLost);
  CHECK(has(*status, "rank 3 has left (it destroyed its communicator after all_reduce #5)"));
  CHECK(has(*status, "rank 3 (node1, pid 9)"));
}

TEST_CASE("each channel counts for itself") {
  Departures departures;
  departures.add(departure_of(3, 5));
  const auto status = departures.against(operation(0, 1));
  REQUIRE(status.has_value());
  CHECK(has(*status, "rank 3 has left (it destroyed its communicator before any such operation)"));
}

TEST_CASE("of several that left, the first that is needed is named") {
  Departures departures;
  departures.add(departure_of(1, 9));
  departures.add(departure_of(2, 5));
  departures.add(departure_of(3, 5));
  CHECK(has(*departures.against(operation(2, 6)), "rank 2 has left"));
  CHECK(has(*departures.against(operation(2, 10)), "rank 1 has left"));
  CHECK(has(departures.any(), "rank 1 has left"));
}

TEST_CASE("messages point to point count per peer and direction") {
  Departures departures;
  PeerDeparture departure = departure_of(3, 5);
  departure.sent_here = 2;
  departure.received_here = 1;
  departures.add(departure);
  CHECK_FALSE(departures.against(message(3, false, 2)).has_value());
  CHECK(departures.against(message(3, false, 3)).has_value());
  CHECK_FALSE(departures.against(message(3, true, 1)).has_value());
  const auto status = departures.against(message(3, true, 2));
  REQUIRE(status.has_value());
  CHECK(has(*status, "after 2 messages to this rank and 1 from it"));
  CHECK_FALSE(departures.against(message(4, true, 99)).has_value());
}
