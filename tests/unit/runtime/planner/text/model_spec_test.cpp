#include "planner/text/model_spec.hpp"

#include <utility>
#include <vector>

#include "catch.hpp"

namespace paro {

TEST_CASE("models are found by their name") {
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
      {"llama-3-8b,layers=2", "'layers' beside a model whose shapes say it: leave it out"},
      {"gpt2,shared=1e6", "'shared' beside a model whose shapes say it"},
      {"gpt2,sharing=3", "'sharing' beside a model whose shapes say it"},
      {"params=7e9,layers=0", "--model layers '0': takes a whole number from 1"}};
  for (const auto& [text, message] : cases) {
    const auto refused = parse_model(text);
    REQUIRE_FALSE(refused.ok());
    INFO(refused.status().message());
    CHECK(refused.status().message().find(message) != std::string::npos);
  }
}

}  // namespace paro
