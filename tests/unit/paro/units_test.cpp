#include "paro/units.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"
#include "paro/model_spec.hpp"

namespace paro::tool {
namespace {

using Parse = ho::Result<double> (*)(std::string_view, std::string_view);
using Pairs = std::vector<std::pair<const char*, double>>;

void check_values(Parse parse, const Pairs& pairs) {
  for (const auto& [text, value] : pairs) {
    INFO(text);
    const auto parsed = parse("--x", text);
    REQUIRE(parsed.ok());
    CHECK(*parsed == Approx(value));
  }
}

void check_refused(Parse parse, const std::vector<const char*>& texts) {
  for (const char* text : texts) {
    INFO("'" << text << "'");
    const auto parsed = parse("--x", text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().message().find("--x '" + std::string(text) + "': takes ") == 0);
  }
}

}  // namespace

TEST_CASE("sizes") {
  check_values(parse_size,
               {{"80GB", 80e9},
                {"64GiB", 64.0 * 1024 * 1024 * 1024},
                {"1.5 TB", 1.5e12},
                {"512MB", 512e6},
                {"7kB", 7e3},
                {"7KiB", 7168},
                {"80G", 80e9},
                {"80e9B", 80e9},
                {"12B", 12},
                {"0", 0}});
  check_refused(
      parse_size,
      {"", "GB", "-1GB", "nan", "inf", "80Gbit", "80Gb", "80XB", "80GBs", "0x10", "1e999", "24"});
  CHECK(parse_size("--memory", "24").status().message() ==
        "--memory '24': takes bytes with their unit, as 80GB or 64GiB, or 80B for bytes alone");
}

TEST_CASE("rates") {
  check_values(parse_rate,
               {{"80Gbit", 10e9},
                {"80gbit/s", 10e9},
                {"80Gbps", 10e9},
                {"80Gb/s", 10e9},
                {"10GB", 10e9},
                {"10GB/s", 10e9},
                {"200mbit", 25e6},
                {"1GiB/s", 1024.0 * 1024 * 1024},
                {"8bit", 1}});
  check_refused(parse_rate,
                {"", "80", "80G", "0Gbit", "-80Gbit", "nanGbit", "80Gbits", "80Gbit/h"});
}

TEST_CASE("times") {
  check_values(
      parse_time,
      {{"2.5s", 2.5}, {"300ms", 0.3}, {"7us", 7e-6}, {"2min", 120}, {"1h", 3600}, {"0", 0}});
  check_refused(parse_time, {"", "s", "4", "-1s", "nan", "2.5sec", "1d"});
}

TEST_CASE("counts and numbers") {
  check_values(parse_count, {{"7e9", 7e9}, {"7B", 7e9}, {"350M", 350e6}, {"12k", 12e3}, {"3", 3}});
  check_refused(parse_count, {"", "0", "-7e9", "7Q", "inf"});
  check_values(parse_number, {{"0.31", 0.31}, {"0", 0}});
  check_refused(parse_number, {"", "1x", "-1"});
  CHECK(*parse_number_up_to("--x", "10", 10) == 10);
  for (const char* text : {"10.1", "nan", "inf", "-1", "1s", "", "1e999"}) {
    INFO(text);
    const auto refused = parse_number_up_to("--x", text, 10);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().message().find("takes a number from 0 to 10") != std::string::npos);
  }
  CHECK(*parse_whole("--x", "8", 1) == 8);
  for (const char* text : {"0", "-1", "1.5", "", "4294967296", "8x"}) {
    INFO(text);
    CHECK_FALSE(parse_whole("--x", text, 1).ok());
  }
}

TEST_CASE("an error repeats the beginning of a long text") {
  const auto refused = parse_size("--x", std::string(100000, 'x'));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message().size() < 200);
}

TEST_CASE("models by name") {
  const auto seven = parse_model("llama-7b");
  REQUIRE(seven.ok());
  CHECK(seven->size.parameters == 7e9);
  CHECK(seven->size.trainable == 7e9);
  CHECK(seven->layers == 32);
  const auto large = parse_model("llama-65b");
  REQUIRE(large.ok());
  CHECK(large->size.parameters == 65e9);
  CHECK(large->layers == 80);
  const auto tuned = parse_model("llama-65b,trainable=195M,sequence=512");
  REQUIRE(tuned.ok());
  CHECK(tuned->size.parameters == 65e9);
  CHECK(tuned->size.trainable == 195e6);
  CHECK(tuned->layers == 80);
  CHECK(tuned->sequence == 512);
}

TEST_CASE("models by their numbers") {
  const auto model = parse_model("params=1.3B,layers=24");
  REQUIRE(model.ok());
  CHECK(model->size.parameters == 1.3e9);
  CHECK(model->size.trainable == 1.3e9);
  CHECK(model->layers == 24);
  CHECK(model->sequence == 0);
}

TEST_CASE("a model of which units share parameters") {
  const auto tied = parse_model("llama-7b,shared=131M");
  REQUIRE(tied.ok());
  CHECK(tied->size.parameters == 7e9);
  CHECK(tied->layers == 32);
  CHECK(tied->sharing_units == 1);
  CHECK(tied->size.shared == 131e6);
  CHECK(tied->size.shared_trainable == 131e6);
  const auto tuned = parse_model("params=1e9,trainable=25e7,layers=8,shared=1e8,sharing=3");
  REQUIRE(tuned.ok());
  CHECK(tuned->sharing_units == 3);
  CHECK(tuned->size.shared == 3e8);
  CHECK(tuned->size.shared_trainable == 75e6);
  CHECK(parse_model("llama-7b")->sharing_units == 0);
}

TEST_CASE("models that cannot be") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "'' is not known"},
      {"gpt", "'gpt' is not known"},
      {"params=7e9", "layers is missing"},
      {"layers=32", "params is missing"},
      {"params=7e9,layers=32,width=3", "'width' is not known"},
      {"params=7e9,params=8e9,layers=32", "'params' is given twice"},
      {"params=7e9,layers=32,llama-7b", "'llama-7b' is not known here"},
      {"params=7e9,layers=32,shared=8e9", "more parameters are shared than there are"},
      {"params=7e9,layers=32,sharing=2", "sharing takes shared= beside it"},
      {"params=7e9,layers=32,shared=1e9,sharing=0", "--model sharing '0': takes"},
      {"params=lots,layers=32", "--model params 'lots': takes"},
      {"params=7e9,layers=0", "--model layers '0': takes a whole number from 1"}};
  for (const auto& [text, message] : cases) {
    const auto refused = parse_model(text);
    REQUIRE_FALSE(refused.ok());
    INFO(refused.status().message());
    CHECK(refused.status().message().find(message) != std::string::npos);
  }
}

}  // namespace paro::tool
