#include "bootstrap/rendezvous/store_value.hpp"

#include "catch.hpp"

using namespace ho;

namespace {

const StoreValue kOffer = StoreOffer{"a secret of 43 characters, say",
                                     {"SLURM_JOB_ID=7", {{"10.0.0.1", 4711}, {"fd00::1", 4711}}}};

}  // namespace

TEST_CASE("what rank 0 sets in a store is read back as it was") {
  for (const StoreValue& value : {kOffer,
                                  StoreValue(StoreOver{}),
                                  StoreValue(StoreFailure{StatusCode::kSystem, "bind: no address"}),
                                  StoreValue(StoreFailure{StatusCode::kInternal, ""})}) {
    const auto parsed = parse_store_value(store_value_text(value));
    INFO(parsed.status().message());
    REQUIRE(parsed.ok());
    CHECK(*parsed == value);
  }
}

TEST_CASE("a store's value that was cut anywhere is refused") {
  const std::string text = store_value_text(kOffer);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    const auto parsed = parse_store_value(text.substr(0, bytes));
    INFO(bytes << " of " << text.size());
    CHECK(parsed.status().code() == StatusCode::kProtocol);
  }
}

TEST_CASE("an error's text in a store's value is bounded and printable") {
  const std::string text =
      store_value_text(StoreFailure{StatusCode::kSystem, "a\nkey b\n" + std::string(5000, 'x')});
  const auto parsed = parse_store_value(text);
  REQUIRE(parsed.ok());
  const auto& failure = std::get<StoreFailure>(*parsed);
  CHECK(failure.text.size() == 1000);
  CHECK(failure.text.starts_with("a?key b?x"));
  for (const char* code : {"0", "13", "300", "-1", "x", ""}) {
    INFO(code);
    CHECK_FALSE(parse_store_value("horing store 1\nerror " + std::string(code) + " text\n").ok());
  }
}

TEST_CASE("the longest value that a store can be given is read") {
  StoreOffer offer{std::string(128, 's'), {std::string(256, 'j'), {}}};
  for (uint16_t port = 1; port <= 64; ++port) {
    offer.rank_0.addresses.push_back({"fd00:1111:2222:3333:4444:5555:6666:7777", port});
  }
  const std::string text = store_value_text(offer);
  CHECK(text.size() <= kMaxStoreValueBytes);
  const auto parsed = parse_store_value(text);
  REQUIRE(parsed.ok());
  CHECK(*parsed == StoreValue(offer));
  offer.secret += 's';
  CHECK_FALSE(parse_store_value(store_value_text(offer)).ok());
}
