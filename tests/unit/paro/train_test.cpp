// What `paro train` is asked for and what it prints.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "paro/train_options.hpp"
#include "paro/trial_report.hpp"

namespace paro::tool {
namespace {

ParsedTrainOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "train");
  return parse_train_options(static_cast<int>(words.size()), words.data());
}

Trial trial(uint64_t applied_steps) {
  Trial trial;
  trial.steps = 12;
  trial.applied_steps = applied_steps;
  return trial;
}

}  // namespace

TEST_CASE("training as it is by default") {
  const auto parsed = parse({});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.strategies.size() == kStrategyCount);
  CHECK(parsed.options.dtype == ho::DType::kFloat32);
  CHECK(parsed.options.forward_ms == 0);
  CHECK(parsed.options.budget_bytes == 0);
  CHECK(parsed.options.units == 5);
  CHECK(parsed.options.bucket_bytes == kDefaultBucketBytes);
}

TEST_CASE("training as asked for") {
  const auto parsed = parse({"--strategy=fsdp",
                             "--dtype=float16",
                             "--forward-ms=2.5",
                             "--budget=1.5MiB",
                             "--bucket-bytes=64KiB",
                             "--units=64",
                             "--json=out.json",
                             "--steps=3"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  REQUIRE(parsed.options.strategies.size() == 1);
  CHECK(letters(parsed.options.strategies[0]) == "GGG");
  CHECK(parsed.options.dtype == ho::DType::kFloat16);
  CHECK(parsed.options.forward_ms == 2.5);
  CHECK(parsed.options.budget_bytes == 3U << 19U);
  CHECK(parsed.options.bucket_bytes == 1U << 16U);
  CHECK(parsed.options.units == 64);
  CHECK(parse({"--bucket-bytes=0"}).options.bucket_bytes == 0);
  CHECK(parsed.options.json == "out.json");
  CHECK(parsed.options.steps == 3);
}

TEST_CASE("training that cannot be") {
  for (const char* text : {"--forward-ms=nan",   "--forward-ms=-1",    "--forward-ms=inf",
                           "--forward-ms=10001", "--forward-ms=1e999", "--forward-ms=2s",
                           "--forward-ms=",      "--budget=0",         "--budget=-1",
                           "--budget=nan",       "--budget=lots",      "--budget=1e30",
                           "--bucket-bytes=-1",  "--bucket-bytes=nan", "--bucket-bytes=1e19",
                           "--bucket-bytes=",    "--units=3",          "--units=1001",
                           "--strategy=XYZ",     "--dtype=int8",       "--steps=2"}) {
    INFO(text);
    CHECK(parse({text}).exit_status == 2);
  }
}

TEST_CASE("steps that were left out show") {
  CHECK(trials_text({trial(12), trial(12)}).find("applied") == std::string::npos);
  const std::string text = trials_text({trial(12), trial(8)});
  CHECK(text.find("one rank's   applied\n") != std::string::npos);
  CHECK(text.find("12 of 12\n") != std::string::npos);
  CHECK(text.find("8 of 12\n") != std::string::npos);
  CHECK(text.find("Steps were left out because") != std::string::npos);
  const auto json = nlohmann::json::parse(trials_json({trial(8)}));
  CHECK(json[0]["steps"] == 12);
  CHECK(json[0]["applied_steps"] == 8);
}

}  // namespace paro::tool
