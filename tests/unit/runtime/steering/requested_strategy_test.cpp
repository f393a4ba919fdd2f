#include "steering/requested_strategy.hpp"

#include <fstream>
#include <string>

#include "catch.hpp"
#include "temporary_folder.hpp"

using namespace paro;
using namespace paro::steering;

TEST_CASE("a file may ask for a strategy, a budget, or both") {
  CHECK(letters(*parse_requested_strategy("IIG")->strategy) == "IIG");
  CHECK(!parse_requested_strategy("IIG\n")->budget_bytes);
  const auto both =
      parse_requested_strategy("# tonight\r\n\n  strategy = zero2 \t# or hpz\nbudget=64000000\n");
  REQUIRE(both.ok());
  CHECK(letters(*both->strategy) == "NGG");
  CHECK(both->budget_bytes == 64000000U);
  const auto budget = parse_requested_strategy("budget=0");
  REQUIRE(budget.ok());
  CHECK(!budget->strategy);
  CHECK(budget->budget_bytes == 0U);
}

TEST_CASE("anything else is refused with its line") {
  for (const std::string text : {"",
                                 "\n\n",
                                 "# nothing",
                                 "GIN",
                                 "IIG\nIIG",
                                 "budget=",
                                 "budget=-1",
                                 "budget=1e9",
                                 "budget=99999999999999999999",
                                 "budget=1\nbudget=2",
                                 "memory=1",
                                 "=IIG",
                                 "IIG=",
                                 "\x1b[31m",
                                 "strategy=IIG; rm",
                                 "{\"strategy\": \"IIG\"}"}) {
    INFO(text);
    const auto request = parse_requested_strategy(text);
    REQUIRE_FALSE(request.ok());
    CHECK(request.status().message().find("line ") == 0);
    CHECK(request.status().message().find('\x1b') == std::string::npos);
  }
  CHECK_FALSE(parse_requested_strategy(std::string("IIG\0", 4)).ok());
  CHECK_FALSE(parse_requested_strategy(std::string(kMaxRequestBytes + 1, '\n')).ok());
  CHECK(parse_requested_strategy("\nIIG\nGIN").status().message().find("line 3: ") == 0);
}

TEST_CASE("a file is read when it has changed") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("request");
  const auto put = [&](const std::string& text) { std::ofstream(path) << text; };
  put("NNN");
  RequestedStrategyFile file(path);
  CHECK_FALSE(file.look().has_value());
  put("IIG\n");
  const auto first = file.look();
  REQUIRE(first.has_value());
  CHECK(letters(*first->value().strategy) == "IIG");
  CHECK_FALSE(file.look().has_value());
  std::filesystem::remove(path);
  CHECK_FALSE(file.look().has_value());
  std::filesystem::create_directory(path);
  const auto folder_there = file.look();
  REQUIRE(folder_there.has_value());
  CHECK(folder_there->status().message().find("not a regular file") != std::string::npos);
  CHECK_FALSE(file.look().has_value());
}
