#include "comm/configuration.hpp"

#include <string>

#include "catch.hpp"
#include "has.hpp"

namespace ho::test {
namespace {

ConfigurationInput alone(std::string rank_name) {
  ConfigurationInput input;
  input.rank = 0;
  input.world_size = 1;
  input.job_key = std::string(64, 'a');
  input.rank_name = std::move(rank_name);
  return input;
}

ConfigurationInput part_of(uint32_t size, std::initializer_list<uint32_t> ranks) {
  ConfigurationInput input = alone("");
  input.rank = 1;
  input.world_size = 3;
  input.part = {.job = 7, .world_size = size};
  for (const uint32_t rank : ranks) {
    input.part.ranks.emplace_back(rank);
  }
  return input;
}

}  // namespace

TEST_CASE("a communicator that is a group of a job has each of its ranks there once") {
  const auto made = configure(part_of(8, {5, 0, 7}));
  REQUIRE(made.ok());
  CHECK(made->part.job == 7);
  CHECK(made->part.ranks.at(0) == GlobalRank(5U));
  CHECK(made->part.rank_in_job(2) == 7);
  CHECK(JobPart().rank_in_job(2) == 2);
  const auto refused = [](const ConfigurationInput& input) {
    const auto result = configure(input);
    CHECK(result.status().code() == StatusCode::kInvalidArgument);
    return result.status().message();
  };
  CHECK(refused(part_of(8, {5, 0})) ==
        "rank 1 of 3: ho_comm_options.job_ranks has 2 numbers; give one for each rank of the "
        "communicator");
  CHECK(refused(part_of(8, {})).find("job_ranks has 0 numbers") != std::string::npos);
  CHECK(refused(part_of(8, {5, 0, 5})).find("job_ranks[2] is 5, as an earlier one") !=
        std::string::npos);
  CHECK(refused(part_of(7, {5, 0, 7})).find("job_ranks[2] is 7; the job has ranks 0 to 6") !=
        std::string::npos);
  CHECK(refused(part_of(0, {5, 0, 7})).find("job_size is 0;") != std::string::npos);
  CHECK(refused(part_of(65537, {5, 0, 7})).find("1 to 65536 ranks") != std::string::npos);
  ConfigurationInput none = part_of(0, {9});
  none.part.job = 0;
  CHECK(configure(none).ok());
}

TEST_CASE("the name of a rank goes into its rendezvous, and has at most 64 bytes") {
  const auto named = configure(alone("global rank 5"));
  REQUIRE(named.ok());
  CHECK(named->rendezvous.called == "global rank 5");
  CHECK(configure(alone(std::string(64, 'x'))).ok());
  const auto refused = configure(alone(std::string(65, 'x')));
  REQUIRE_FALSE(refused.ok());
  CHECK(has(refused.status(), "rank 0: ho_comm_options.rank_name has 65 bytes; it may have 64"));
}

}  // namespace ho::test
