#include "planner/text/unit_list.hpp"

#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace paro {

TEST_CASE("units are a list, and entries stand for several") {
  const auto list = parse_units(R"([{"parameters": 100, "trained": 40},
      {"parameters": 10, "count": 3, "gathered_bytes": 24, "stays_gathered": true}])",
                                "units");
  REQUIRE(list.ok());
  REQUIRE(list->units.size() == 4);
  CHECK(list->size().parameters == 130);
  CHECK(list->size().trainable == 70);
  CHECK(list->units[0].trainable == 40);
  CHECK_FALSE(list->units[0].messages.gathered);
  CHECK(list->units[3].work == 10);
  CHECK(list->units[3].messages.gathered == 24);
  CHECK(list->units[3].messages.stays_gathered);
  CHECK_FALSE(list->bytes(OptimizerKind::kAdamW));
}

TEST_CASE("bytes that are no text are told on one line") {
  const auto refused = parse_units("\xff\n", "units");
  REQUIRE_FALSE(refused.ok());
  CHECK(has(refused.status(), "units"));
  CHECK(refused.status().message().find('\n') == std::string::npos);
}

TEST_CASE("elements say the bytes of a mean parameter") {
  const auto list = parse_units(R"([{"parameters": 16, "trained": 0, "element_bytes": 2},
                                    {"parameters": 16, "element_bytes": 4}])",
                                "units");
  REQUIRE(list.ok());
  const auto bytes = list->bytes(OptimizerKind::kAdamW);
  REQUIRE(bytes);
  CHECK(bytes->parameter == 3);
  CHECK(bytes->gradient == 4);
  CHECK(bytes->optimizer == 8);
  const auto wide = parse_units(R"([{"parameters": 16, "element_bytes": 8}])", "units");
  CHECK(wide->bytes(OptimizerKind::kAdamW)->optimizer == 16);
}

TEST_CASE("lists that cannot be are told with the unit and its key") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "units \"\": takes a list of objects with parameters,"},
      {"[]", "units \"[]\": takes a list of objects with parameters,"},
      {"{}", "takes a list of objects"},
      {"[5]", "units: unit 0 5: takes an object with parameters"},
      {R"([{"count": 5}])", "takes an object with parameters"},
      {R"([{"parameters": 0}])", "units: unit 0 \"parameters\" 0: takes a number above 0"},
      {R"([{"parameters": 1e19}])", "at most 1e+18"},
      {R"([{"parameters": 5, "trained": 6}])", "5 parameters, of which 6 are trained"},
      {R"([{"parameters": 5}, {"parameters": 5, "trained": -1}])",
       "units: unit 1 \"trained\" -1: takes a number from 0"},
      {R"([{"parameters": 5, "count": 0}])", "unit 0 \"count\" 0: takes a whole number from 1"},
      {R"([{"parameters": 5, "count": 2000}])", "units: takes at most 1024 units"},
      {R"([{"parameters": 5, "width": 6}])", "\"width\" is not known; takes parameters,"},
      {R"([{"parameters": 5, "stays_gathered": 1}])", "\"stays_gathered\" 1: takes true or false"},
      {R"([{"parameters": 5, "element_bytes": 2}, {"parameters": 5}])",
       "element_bytes of some units: takes those of all"}};
  for (const auto& [text, message] : cases) {
    const auto refused = parse_units(text, "units");
    INFO(text);
    REQUIRE_FALSE(refused.ok());
    CHECK(has(refused.status(), message));
  }
}

}  // namespace paro
