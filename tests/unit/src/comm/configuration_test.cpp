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

}  // namespace

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
