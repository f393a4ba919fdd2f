#include "status/job_ranks.hpp"

#include "catch.hpp"

using namespace ho;

namespace {

const std::vector<GlobalRank> kRanks{GlobalRank(4U), GlobalRank(9U)};

std::string in_job(std::string_view text) {
  return with_job_ranks(text, kRanks);
}

}  // namespace

TEST_CASE("texts of a group name processes by their numbers in the job") {
  CHECK(in_job("rank 1 (node0, pid 17) is gone; rank 0 (a, b, pid 3): why") ==
        "rank 9 (node0, pid 17) is gone; rank 4 (a, b, pid 3): why");
  CHECK(in_job("rank 1 has not entered all_reduce") == "rank 9 has not entered all_reduce");
  CHECK(in_job("all_gather #3: rank 0 is in barrier") == "all_gather #3: rank 4 is in barrier");
}

TEST_CASE("what is no process of the group is left as it is") {
  for (const char* text : {"",
                           "rank ",
                           "rank 1",
                           "rank 1, rail 0",
                           "rank 2 (node0, pid 17)",
                           "global rank 1 (node0, pid 17)",
                           "global rank 1 is in barrier",
                           "frank 1 is in barrier",
                           "rank 1 (node0, pid x)",
                           "rank 1 (node0, pid 17",
                           "rank 1 (node0 (x), pid 17)",
                           "rank 99999999999 is in barrier"}) {
    INFO(text);
    CHECK(in_job(text) == text);
    CHECK(with_job_ranks(text, {}) == text);
  }
  CHECK(with_job_ranks("rank 1 is in barrier", {}) == "rank 1 is in barrier");
}
