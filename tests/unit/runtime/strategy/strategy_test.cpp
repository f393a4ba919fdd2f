#include "strategy/strategy.hpp"

#include <set>

#include "catch.hpp"

using paro::letters;
using paro::parse_strategy;
using paro::Scope;
using paro::Strategy;

TEST_CASE("of 27 triples 14 are strategies, and they are listed") {
  std::set<std::string> accepted;
  for (uint8_t p = 0; p < 3; ++p) {
    for (uint8_t g = 0; g < 3; ++g) {
      for (uint8_t os = 0; os < 3; ++os) {
        const Strategy strategy{
            static_cast<Scope>(p), static_cast<Scope>(g), static_cast<Scope>(os)};
        const bool fine_enough = os >= p && os >= g;
        CHECK(paro::check(strategy).ok() == fine_enough);
        CHECK(parse_strategy(letters(strategy)).ok() == fine_enough);
        if (fine_enough) {
          accepted.insert(letters(strategy));
        }
      }
    }
  }
  std::set<std::string> listed;
  for (const Strategy& strategy : paro::all_strategies()) {
    listed.insert(letters(strategy));
    CHECK(*parse_strategy(letters(strategy)) == strategy);
  }
  CHECK(accepted == listed);
  CHECK(listed.size() == paro::kStrategyCount);
}

TEST_CASE("strategies are known by users' names") {
  const std::vector<std::pair<const char*, const char*>> names{{"ddp", "NNN"},
                                                               {"ZeRO-1", "NNG"},
                                                               {"zero_2", "NGG"},
                                                               {"zero3", "GGG"},
                                                               {"FSDP", "GGG"},
                                                               {"MiCS", "III"},
                                                               {"hsdp", "III"},
                                                               {"HYBRID_SHARD", "III"},
                                                               {"zero++", "IGG"},
                                                               {"hpz", "IGG"},
                                                               {"hsdp-zero2", "NII"},
                                                               {"nig", "NIG"}};
  for (const auto& [name, triple] : names) {
    INFO(name);
    const auto strategy = parse_strategy(name);
    REQUIRE(strategy.ok());
    CHECK(letters(*strategy) == triple);
  }
  CHECK(paro::known_as(*parse_strategy("GGG")) == std::vector<std::string_view>{"ZeRO-3", "FSDP"});
  CHECK(paro::known_as(*parse_strategy("NIG")).empty());
}

TEST_CASE("what is refused says which rule it breaks") {
  const auto wide = parse_strategy("GIN");
  REQUIRE_FALSE(wide.ok());
  CHECK(wide.status().message().find("strategy GIN: the optimizer state is held by every rank (N) "
                                     "but the parameters are split over all ranks (G)") == 0);
  const auto gradients = parse_strategy("NGI");
  REQUIRE_FALSE(gradients.ok());
  CHECK(gradients.status().message().find("the gradients are split over all ranks (G)") !=
        std::string::npos);
  for (const char* text : {"", "N", "NNNN", "XYZ", "zero4", "NN\xff"}) {
    const auto unknown = parse_strategy(text);
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.status().message().find("NIG") != std::string::npos);
    CHECK(unknown.status().message().find("zero3") != std::string::npos);
  }
}
