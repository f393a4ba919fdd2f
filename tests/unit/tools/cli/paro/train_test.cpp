// What `paro train` is asked for and what it prints.
#include <cmath>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "cli/paro/train_options.hpp"
#include "cli/paro/trial_report.hpp"
#include "has.hpp"

namespace paro::tool {
namespace {

ho::Parsed<TrainOptions> parse_train(std::vector<const char*> words) {
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

TEST_CASE("training options have their defaults") {
  const auto parsed = parse_train({});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.strategies.size() == kStrategyCount);
  CHECK(parsed.options.dtype == ho::DType::kFloat32);
  CHECK(parsed.options.forward_ms == 0);
  CHECK(parsed.options.budget_bytes == 0);
  CHECK(parsed.options.units == 5);
  CHECK(parsed.options.bucket_bytes == kDefaultBucketBytes);
}

TEST_CASE("training options are taken as given") {
  const auto parsed = parse_train({"--strategy=fsdp",
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
  CHECK(parse_train({"--bucket-bytes=0"}).options.bucket_bytes == 0);
  CHECK(parsed.options.json == "out.json");
  CHECK(parsed.options.steps == 3);
}

TEST_CASE("states lie on the host, or on devices with NCCL") {
  CHECK_FALSE(parse_train({}).options.on_device);
  CHECK_FALSE(parse_train({"--place=host", "--collectives=horing"}).options.on_device);
  CHECK(parse_train({"--place=device"}).options.on_device);
  CHECK(parse_train({"--place=device", "--collectives=nccl"}).options.on_device);
  CHECK(parse_train({"--place=moon"}).exit_status == 2);
}

TEST_CASE("collectives that do not move states of a place say which place they need") {
  ho::test::CaughtStderr caught;
  CHECK(parse_train({"--collectives=nccl"}).exit_status == 2);
  CHECK(parse_train({"--place=device", "--collectives=horing"}).exit_status == 2);
  const std::string text = caught.end();
  CHECK(has(text, "--collectives nccl moves states on GPUs: it needs --place device"));
  CHECK(has(text, "--collectives horing moves states on a host: it needs --place host"));
}

TEST_CASE("training may be saved, and resumed") {
  const auto parsed =
      parse_train({"--strategy=IIG", "--save=folder", "--save-every=5", "--resume"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.save == "folder");
  CHECK(parsed.options.save_every == 5);
  CHECK(parsed.options.resume);
}

TEST_CASE("training options that cannot work end with status 2") {
  for (const char* text :
       {"--forward-ms=nan",   "--forward-ms=-1",    "--forward-ms=inf",    "--forward-ms=10001",
        "--forward-ms=1e999", "--forward-ms=2s",    "--forward-ms=",       "--budget=0",
        "--budget=-1",        "--budget=nan",       "--budget=lots",       "--budget=1e30",
        "--bucket-bytes=-1",  "--bucket-bytes=nan", "--bucket-bytes=1e19", "--bucket-bytes=",
        "--units=3",          "--units=1001",       "--strategy=XYZ",      "--dtype=int8",
        "--steps=2",          "--resume",           "--save-every=2",      "--save=folder"}) {
    INFO(text);
    CHECK(parse_train({text}).exit_status == 2);
  }
  CHECK(parse_train({"--strategy=IIG", "--save=folder", "--save-every=0"}).exit_status == 2);
}

TEST_CASE("steps that were left out are shown") {
  CHECK(trials_text({trial(12), trial(12)}).find("applied") == std::string::npos);
  const std::string text = trials_text({trial(12), trial(8)});
  CHECK(text.find("one rank's   applied\n") != std::string::npos);
  CHECK(text.find("12 of 12\n") != std::string::npos);
  CHECK(text.find("8 of 12\n") != std::string::npos);
  CHECK(text.find("Steps were left out because") != std::string::npos);
  CHECK(text.find("loss scale") == std::string::npos);
  Trial narrow = trial(8);
  narrow.dtype = ho::DType::kFloat16;
  CHECK(trials_text({narrow}).find("while the loss scale") != std::string::npos);
  const auto json = nlohmann::json::parse(trials_json({trial(8)}));
  CHECK(json[0]["steps"] == 12);
  CHECK(json[0]["applied_steps"] == 8);
}

TEST_CASE("training that went wrong is told") {
  const auto warning = [](Trial one, ho::DType dtype, double loss, double alone) {
    one.dtype = dtype;
    one.loss = loss;
    one.single_rank_loss = alone;
    const auto all = warnings({one});
    return all.empty() ? std::string() : all.front();
  };
  const auto wide = ho::DType::kFloat32;
  const auto narrow = ho::DType::kFloat16;
  CHECK(warning(trial(12), wide, 2.0001, 2) == "");
  CHECK(warning(trial(12), wide, 2.01, 2).find("NNN: the loss is 2.01000") == 0);
  CHECK(warning(trial(12), wide, std::nan(""), 2).find("NNN: the loss is") == 0);
  CHECK(warning(trial(12), ho::DType::kBfloat16, 2.05, 2) == "");
  CHECK(warning(trial(11), wide, 2, 2).find("NNN: 11 of 12 steps were applied") == 0);
  // The rank that trains by itself has made more steps: its loss is another.
  CHECK(warning(trial(8), narrow, 3, 2) == "");
  CHECK(warning(trial(0), narrow, 3, 2).find("the loss scale needs more steps") !=
        std::string::npos);
  Trial resumed = trial(12);
  resumed.loss = 3;
  resumed.same_batches = false;
  CHECK(warning(resumed, wide, 3, 2) == "");
  CHECK(nlohmann::json::parse(trials_json({resumed}))[0]["single_rank_loss"].is_null());
  Trial lasting = trial(kMaxComparedSteps + 1);
  lasting.steps = kMaxComparedSteps + 1;
  CHECK(warning(lasting, wide, 3, 2) == "");
}

}  // namespace paro::tool
