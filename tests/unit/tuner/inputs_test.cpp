#include "core/tuner/inputs.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/env.hpp"
#include "catch.hpp"
#include "shapes.hpp"

namespace ho::plugin {
namespace {

class ScopedVariable {
 public:
  ScopedVariable(const env::Variable& variable, const char* value) : name_(variable.name) {
    ::setenv(name_.c_str(), value, 1);
  }
  ~ScopedVariable() { ::unsetenv(name_.c_str()); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
};

}  // namespace

TEST_CASE("ranks agree on the slowest, whatever their order") {
  AgreedInputs first = shape(2, 4);
  first.intra_mbps = 0;
  first.channel_count = 0;
  first.hop_ns = 5;
  first.whole_windows = 1;
  first.sets_chunk_size = 1;
  AgreedInputs second = shape(2, 4);
  second.rail_mbps = 100;
  second.nic_count = 3;
  second.head_count = 2;
  second.intra_mbps = 700;
  second.channel_count = 16;
  second.hop_ns = 9;
  second.algorithms_filtered = 1;
  second.sets_chunk_size = 1;
  std::vector<AgreedInputs> stated{first, second};
  const auto agreed = agree(stated);
  REQUIRE(agreed.ok());
  CHECK(agreed->rail_mbps == 100);
  CHECK(agreed->nic_mbps == 8000);
  CHECK(agreed->nic_count == 3);
  CHECK(agreed->head_count == 2);
  CHECK(agreed->intra_mbps == 700);
  CHECK(agreed->channel_count == 16);
  CHECK(agreed->hop_ns == 9);
  CHECK(agreed->whole_windows == 0);
  CHECK(agreed->sets_chunk_size == 1);
  CHECK(agreed->algorithms_filtered == 1);
  CHECK(agreed->collnet_connected == 1);
  std::reverse(stated.begin(), stated.end());
  CHECK(*agree(stated) == *agreed);
}

TEST_CASE("one rank without CollNet, or without a rate, and none has it") {
  std::vector<AgreedInputs> stated(3, shape(3, 1));
  stated[1].collnet_connected = 0;
  stated[2].nic_mbps = 0;
  const auto agreed = agree(stated);
  REQUIRE(agreed.ok());
  CHECK(agreed->collnet_connected == 0);
  CHECK(agreed->nic_mbps == 0);
}

TEST_CASE("a rank need not know other nodes' ranks") {
  AgreedInputs small = shape(2, 1);
  AgreedInputs large = shape(2, 3);
  small.rank_count = large.rank_count = 4;
  const auto agreed = agree(std::vector{small, large, large, large});
  REQUIRE(agreed.ok());
  CHECK(agreed->least_local_ranks == 1);
  CHECK(agreed->most_local_ranks == 3);
  CHECK_FALSE(agreed->every_rank_is_head());
}

TEST_CASE("what must be equal, and what cannot be") {
  const auto refused = [](const AgreedInputs& other, StatusCode code, const std::string& part) {
    const auto agreed = agree(std::vector{shape(2, 4), other});
    REQUIRE_FALSE(agreed.ok());
    INFO(agreed.status().to_string());
    CHECK(agreed.status().code() == code);
    CHECK(agreed.status().message().find(part) != std::string::npos);
  };
  AgreedInputs other = shape(2, 4);
  other.tuning_file_digest = 7;
  refused(other, StatusCode::kMismatch, "HORING_TUNING_FILE");
  refused(shape(4, 2), StatusCode::kMismatch, "8 ranks on 2 nodes, and 8 on 4");
  other = shape(2, 4);
  other.least_local_ranks = 5;
  refused(other, StatusCode::kInvalidArgument, "statement 1: tuner: no communicator");
  other = shape(2, 4);
  other.whole_windows = 2;
  refused(other, StatusCode::kInvalidArgument, "neither 0 nor 1");
  other = shape(2, 4);
  other.buffer_bytes = 7;
  refused(other, StatusCode::kInvalidArgument, "no 8 slots");
  CHECK_FALSE(agree({}).ok());
  AgreedInputs few = shape(2, 4);
  few.rank_count = 7;
  CHECK_FALSE(agree(std::vector{few, few}).ok());
}

TEST_CASE("channels that decisions reckon with") {
  AgreedInputs inputs = shape(4, 4);
  CHECK(inputs.channels() == 2);
  inputs.channel_count = 0;
  CHECK(inputs.channels() == 8);
  inputs.nic_count = 0;
  CHECK(inputs.channels() == 2);
  inputs.nic_count = 4'000'000'000U;
  CHECK(inputs.channels() == 32);
}

TEST_CASE("rates from the environment") {
  AgreedInputs inputs = shape(2, 1);
  inputs.rail_mbps = 0;
  inputs.hop_ns = 123;
  CHECK(with_environment(inputs)->rail_mbps == 8000);
  CHECK(with_environment(inputs)->hop_ns == 123);
  {
    const ScopedVariable nic(env::kTunerNicMbps, "400000");
    const ScopedVariable hop(env::kTunerHopUs, "7");
    CHECK(with_environment(inputs)->nic_mbps == 400'000);
    CHECK(with_environment(inputs)->rail_mbps == 400'000);
    CHECK(with_environment(inputs)->hop_ns == 7'000);
    const ScopedVariable rail(env::kTunerRailMbps, "200");
    const ScopedVariable intra(env::kTunerIntraMbps, "7200000");
    CHECK(with_environment(inputs)->rail_mbps == 200);
    CHECK(with_environment(inputs)->intra_mbps == 7'200'000);
  }
  const ScopedVariable bad(env::kTunerRailMbps, "fast");
  const auto refused = with_environment(inputs);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("HORING_TUNER_RAIL_MBPS=fast: takes 1 to") == 0);
}

}  // namespace ho::plugin
