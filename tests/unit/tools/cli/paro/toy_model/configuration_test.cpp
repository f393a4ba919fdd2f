// Units, initial weights, data, and that a model learns.
#include <cmath>

#include "whole_model.hpp"

using paro::toy::Batch;
using paro::toy::check;
using paro::toy::Configuration;
using paro::toy::Model;
using paro::toy::test::configurations;
using paro::toy::test::WholeModel;

namespace {

Configuration with(void (*change)(Configuration&)) {
  Configuration configuration;
  change(configuration);
  return configuration;
}

uint64_t elements(const Model& model) {
  uint64_t sum = 0;
  for (const auto& unit : model.units()) {
    sum += unit.trained + unit.frozen;
  }
  return sum;
}

}  // namespace

TEST_CASE("units have the sizes that were asked for") {
  const Model model = Model::make({}).value();
  const auto& units = model.units();
  REQUIRE(units.size() == 5);
  CHECK(units[0].name == "embedding");
  CHECK(units[0].trained == 128);
  CHECK(units[2].name == "block 1");
  CHECK(units[2].trained == 2 * 96 + 12 + 8 + 4 * 64);
  CHECK(units[3].name == "gain");
  CHECK(units[3].trained == 1);
  CHECK(units[4].name == "head");
  CHECK(units[4].trained == 128);
  // A prime number of elements.
  const Model prime = Model::make({.dim = 2, .hidden = 3, .attention = false}).value();
  CHECK(prime.units()[1].trained == 17);
  CHECK(prime.units()[1].frozen == 0);
}

TEST_CASE("freezing moves elements, and changes no initial value") {
  const Configuration thawed;
  const Configuration frozen = with([](Configuration& c) {
    c.freeze_embedding = true;
    c.freeze_up = true;
  });
  WholeModel first(thawed);
  WholeModel second(frozen);
  CHECK(elements(first.model()) == elements(second.model()));
  CHECK(second.stores()[0].frozen == first.stores()[0].trained);
  CHECK(second.model().units()[0].trained == 0);
  std::vector<float> block = second.stores()[1].frozen;
  const auto& trained = second.stores()[1].trained;
  block.insert(block.end(), trained.begin(), trained.end());
  CHECK(block == first.stores()[1].trained);
}

TEST_CASE("the same seed gives the same weights, data and gradients; another one does not") {
  for (const Configuration& configuration : configurations()) {
    WholeModel first(configuration);
    WholeModel second(configuration);
    const Batch batch = first.model().batch_of(7, {3, 2});
    const Batch again = second.model().batch_of(7, {3, 2});
    CHECK(batch.tokens == again.tokens);
    CHECK(batch.targets == again.targets);
    CHECK(first.forward_backward(batch) == second.forward_backward(again));
    for (size_t u = 0; u < first.stores().size(); ++u) {
      CHECK(first.stores()[u].trained == second.stores()[u].trained);
      CHECK(first.stores()[u].gradient == second.stores()[u].gradient);
    }
  }
  WholeModel other(with([](Configuration& c) { c.seed = 2; }));
  WholeModel usual{Configuration{}};
  CHECK(other.stores()[1].trained != usual.stores()[1].trained);
  CHECK(other.model().batch_of(0, {0, 4}).tokens != usual.model().batch_of(0, {0, 4}).tokens);
}

TEST_CASE("samples can be dealt out in any way") {
  const Model model = Model::make({}).value();
  const Batch all = model.batch_of(2, {0, 5});
  REQUIRE(all.tokens.size() == 30);
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> targets;
  for (const paro::toy::Samples samples :
       {paro::toy::Samples{0, 2}, paro::toy::Samples{2, 0}, paro::toy::Samples{2, 3}}) {
    const Batch part = model.batch_of(2, samples);
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    targets.insert(targets.end(), part.targets.begin(), part.targets.end());
  }
  CHECK(tokens == all.tokens);
  CHECK(targets == all.targets);
  CHECK(model.batch_of(3, {0, 5}).tokens != all.tokens);
}

TEST_CASE("tokens follow a rule, but for the noise") {
  const Model strict = Model::make(with([](Configuration& c) { c.noise = 0; })).value();
  const Batch batch = strict.batch_of(0, {0, 50});
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    CHECK(batch.targets[i] == (3 * batch.tokens[i] + 1) % 16);
  }
  const Batch noisy = Model::make({}).value().batch_of(0, {0, 200});
  size_t strays = 0;
  for (size_t i = 0; i < noisy.tokens.size(); ++i) {
    CHECK(noisy.targets[i] < 16);
    strays += noisy.targets[i] != (3 * noisy.tokens[i] + 1) % 16 ? 1U : 0U;
  }
  CHECK(strays > 50);
  CHECK(strays < 200);
}

TEST_CASE("steps of descent lower the loss") {
  for (const Configuration& configuration : configurations()) {
    if (configuration.dim < 8) {
      continue;  // too small to learn much
    }
    WholeModel whole(configuration);
    const Batch unseen = whole.model().batch_of(1000, {0, 32});
    const double before = whole.loss(unseen);
    for (uint64_t step = 0; step < 50; ++step) {
      whole.forget_gradients();
      whole.forward_backward(whole.model().batch_of(step, {0, 8}));
      for (auto& store : whole.stores()) {
        for (size_t i = 0; i < store.trained.size(); ++i) {
          store.trained[i] -= 0.3F * store.gradient[i];
        }
      }
    }
    const double after = whole.loss(unseen);
    INFO("loss " << before << ", then " << after);
    CHECK(after < 0.75 * before);
  }
}

TEST_CASE("an untrained model's loss is that of guessing") {
  WholeModel whole{Configuration{}};
  CHECK(std::fabs(whole.loss(whole.model().batch_of(0, {0, 50})) - std::log(16.0)) < 1);
}

TEST_CASE("configurations that cannot work are refused") {
  for (const Configuration& configuration : configurations()) {
    CHECK(check(configuration).ok());
  }
  CHECK(check({.vocabulary = 1}).message() == "toy model: vocabulary is 1; allowed is 2 to 65536");
  CHECK_FALSE(check({.dim = 0}).ok());
  CHECK_FALSE(check({.hidden = 0}).ok());
  CHECK_FALSE(check({.sequence = 0}).ok());
  CHECK_FALSE(check({.blocks = 70000}).ok());
  CHECK_FALSE(check({.noise = std::nan("")}).ok());
  CHECK_FALSE(check({.noise = 1.5}).ok());
  CHECK_FALSE(check(with([](Configuration& c) { c.poison = {.unit = 5}; })).ok());
  CHECK_FALSE(check(with([](Configuration& c) {
                c.freeze_embedding = true;
                c.poison = {.unit = 0};
              })).ok());
  CHECK_FALSE(Model::make({.dim = 0}).ok());
}
