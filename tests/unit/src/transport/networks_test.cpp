#include "transport/network/networks.hpp"

#include <algorithm>
#include <set>

#include "base/env.hpp"
#include "catch.hpp"

namespace ho {
namespace {

TEST_CASE("the table of networks has each name once, the default among those that are on") {
  std::set<std::string_view> names;
  for (const NetworkEntry& entry : networks()) {
    CHECK(names.insert(entry.name).second);
    CHECK((entry.from_environment == nullptr) == !entry.missing.empty());
    CHECK(env::kTransport.meaning.find(entry.name) != std::string_view::npos);
  }
  CHECK(network_of(env::kTransport.default_value).ok());
}

TEST_CASE("a network that nobody knows is refused with those that there are") {
  const auto unknown = network_of("pigeon");
  CHECK(unknown.status().code() == StatusCode::kInvalidArgument);
  CHECK(unknown.status().message() == "HORING_TRANSPORT=pigeon: takes tcp or ucx");
}

TEST_CASE("a network that the build has not is refused when it is to be made") {
  for (const NetworkEntry& entry : networks()) {
    if (entry.from_environment == nullptr) {
      const auto make = network_of(entry.name);
      REQUIRE(make.ok());
      const Status refused = (*make)(NetworkSetup{}).status();
      CHECK(refused.code() == StatusCode::kUnsupported);
      CHECK(refused.message().find(entry.missing) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ho
