#include <cmath>

#include "catch.hpp"
#include "cli/paro/toy_model/toy_model.hpp"

namespace paro::toy {
namespace {

Configuration with(void (*change)(Configuration&)) {
  Configuration configuration;
  change(configuration);
  return configuration;
}

}  // namespace

TEST_CASE("configurations of the toy model that cannot work are refused") {
  CHECK(check(Configuration{}).ok());
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

}  // namespace paro::toy
