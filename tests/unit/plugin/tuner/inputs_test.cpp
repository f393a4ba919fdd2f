#include "core/tuner/inputs.hpp"

#include <cstdlib>

#include "base/env.hpp"
#include "catch.hpp"
#include "scoped_variable.hpp"
#include "shapes.hpp"

namespace ho::plugin {

TEST_CASE("inputs that cannot be true are refused") {
  const auto refused = [](const CommonInputs& inputs, const std::string& part) {
    const Status status = check(inputs);
    INFO(status.to_string());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(part) != std::string::npos);
  };
  CHECK(check(shape(2, 4)).ok());
  CommonInputs inputs = shape(2, 4);
  inputs.least_local_ranks = 5;
  refused(inputs, "no communicator has 2 nodes of 5 to 4 ranks");
  inputs = shape(2, 4);
  inputs.whole_windows = 2;
  refused(inputs, "neither 0 nor 1");
  inputs = shape(2, 4);
  inputs.buffer_bytes = 7;
  refused(inputs, "no 8 slots");
  inputs = shape(2, 4);
  inputs.rank_count = 7;
  refused(inputs, "do not have 7 ranks");
  inputs.least_local_ranks = 3;
  CHECK(check(inputs).ok());
}

TEST_CASE("each input that no communicator says is in the text that nodes compare") {
  const std::string usual = consistency_text(shape(2, 4));
  const auto differs = [&usual](auto change) {
    CommonInputs inputs = shape(2, 4);
    change(inputs);
    return consistency_text(inputs) != usual;
  };
  CHECK(differs([](CommonInputs& inputs) { inputs.nic_count = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.nic_mbps = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.rail_mbps = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.intra_mbps = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.hop_ns = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.buffer_bytes = 4096; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.algorithms_filtered = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.tuning_file_digest = 1; }));
  CHECK(differs([](CommonInputs& inputs) { inputs.channel_count = 9; }));
  CHECK_FALSE(differs([](CommonInputs& inputs) { inputs.node_count = 7; }));
}

TEST_CASE("decisions reckon with the channels that are known or assumed") {
  CommonInputs inputs = shape(4, 4);
  CHECK(inputs.channels() == 2);
  inputs.channel_count = 0;
  CHECK(inputs.channels() == 4);
  inputs.nic_count = 0;
  CHECK(inputs.channels() == 1);
  inputs.nic_count = 4'000'000'000U;
  CHECK(inputs.channels() == 32);
}

TEST_CASE("NCCL's own settings change the inputs") {
  const CommonInputs usual = shape(2, 1);
  const auto with = [&usual](const char* name, const char* value) {
    ::setenv(name, value, 1);
    const CommonInputs inputs = *with_environment(usual);
    ::unsetenv(name);
    return inputs;
  };
  CHECK(with("NCCL_BUFFSIZE", "1048576").buffer_bytes == 1048576);
  CHECK(with("NCCL_BUFFSIZE", "0x1000").buffer_bytes == 4096);
  for (const char* const text : {"", "4M", "-1", "99999999999999999999"}) {
    CHECK(with("NCCL_BUFFSIZE", text).buffer_bytes == kUsualBufferBytes);
  }
  CHECK(with("NCCL_BUFFSIZE", "7").buffer_bytes == 4096);
  CHECK(with("NCCL_ALGO", "ring").algorithms_filtered == 1);
  CHECK(with("NCCL_PROTO", "^LL").algorithms_filtered == 1);
  CHECK(with("NCCL_ALGO", "").algorithms_filtered == 0);
}

TEST_CASE("channels are taken from the environment") {
  CommonInputs inputs = shape(4, 4);
  inputs.channel_count = 0;
  const auto channels = [&inputs] { return with_environment(inputs)->channels(); };
  CHECK(channels() == 4);
  {
    const test::ScopedVariable least("NCCL_MIN_NCHANNELS", "16");
    CHECK(channels() == 16);
    const test::ScopedVariable most("NCCL_MAX_NCHANNELS", "3");
    CHECK(channels() == 3);
    const test::ScopedVariable said(env::kTunerChannels.name, "7");
    CHECK(channels() == 7);
  }
  const test::ScopedVariable none(env::kTunerChannels.name, "0");
  CHECK_FALSE(with_environment(inputs).ok());
}

TEST_CASE("rates are taken from the environment") {
  CommonInputs inputs = shape(2, 1);
  inputs.rail_mbps = 0;
  inputs.hop_ns = 123;
  CHECK(with_environment(inputs)->rail_mbps == 8000);
  CHECK(with_environment(inputs)->hop_ns == 123);
  {
    const test::ScopedVariable nic(env::kTunerNicMbps.name, "400000");
    const test::ScopedVariable hop(env::kTunerHopUs.name, "7");
    CHECK(with_environment(inputs)->nic_mbps == 400'000);
    CHECK(with_environment(inputs)->rail_mbps == 400'000);
    CHECK(with_environment(inputs)->hop_ns == 7'000);
    const test::ScopedVariable rail(env::kTunerRailMbps.name, "200");
    const test::ScopedVariable nics(env::kTunerNics.name, "3");
    CHECK(with_environment(inputs)->nic_count == 3);
    const test::ScopedVariable intra(env::kTunerIntraMbps.name, "7200000");
    CHECK(with_environment(inputs)->rail_mbps == 200);
    CHECK(with_environment(inputs)->intra_mbps == 7'200'000);
  }
  const test::ScopedVariable bad(env::kTunerRailMbps.name, "fast");
  const auto refused = with_environment(inputs);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().find("HORING_TUNER_RAIL_MBPS=fast: takes 1 to") == 0);
}

}  // namespace ho::plugin
