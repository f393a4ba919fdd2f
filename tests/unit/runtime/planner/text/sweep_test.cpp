// A plan for each of several values of one option.
#include "planner/text/sweep.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "plan_requests.hpp"

namespace paro {
namespace {

constexpr double kGbit = 1e9 / 8;

PlanTexts by_numbers(const char* sweep) {
  PlanTexts texts = test::plan_by_numbers();
  texts.model = "params=7e9,layers=4,sequence=2048";
  texts.compute_time = "2s";
  texts.sweep = sweep;
  return texts;
}

Sweep swept(const PlanTexts& texts) {
  const auto sweep = sweep_of(texts, {});
  INFO(sweep.status().message());
  REQUIRE(sweep.ok());
  return *sweep;
}

double step_s(const std::string& inter) {
  PlanTexts texts = by_numbers("");
  texts.inter = inter;
  return recommend(understand(texts)->request)->recommended()->time.step_s;
}

}  // namespace

TEST_CASE("a sweep has a plan for each value, and rates alone are in Gbit/s") {
  const Sweep sweep = swept(by_numbers("inter=400,25GB,80"));
  CHECK(sweep.option == "inter");
  REQUIRE(sweep.rows.size() == 3);
  const std::vector<std::pair<std::string, double>> wanted{
      {"400Gbit", 400}, {"25GB", 200}, {"80Gbit", 80}};
  for (size_t at = 0; at < wanted.size(); ++at) {
    CHECK(sweep.rows[at].value == wanted[at].first);
    CHECK(sweep.rows[at].report.options.request.links.inter_bytes_per_s ==
          Approx(wanted[at].second * kGbit));
    CHECK(sweep.rows[at].best().time.step_s == step_s(wanted[at].first));
  }
}

TEST_CASE("the least network is as fast as it is said to be, and less is not") {
  const Sweep sweep = swept(by_numbers("inter=25,100,1600"));
  REQUIRE(sweep.least);
  CHECK(sweep.least->fastest == "1600Gbit");
  const double most_s = step_s("1600Gbit") / kKeptSpeed;
  const double gigabits = sweep.least->bytes_per_s / kGbit;
  CHECK(step_s(std::to_string(gigabits) + "Gbit") <= most_s * (1 + 1e-6));
  CHECK(step_s(std::to_string(gigabits * 0.995) + "Gbit") > most_s);
  CHECK_FALSE(swept(by_numbers("nodes=2,4")).least);
  PlanTexts one_node = by_numbers("inter=25,100");
  one_node.nodes = "1";
  CHECK_FALSE(swept(one_node).least);
  PlanTexts nothing_fits = by_numbers("inter=25,100");
  nothing_fits.memory = "1GB";
  CHECK_FALSE(swept(nothing_fits).least);
}

TEST_CASE("where nothing fits a row has what lacks least") {
  const Sweep sweep = swept(by_numbers("memory=2GB,80GB"));
  CHECK(letters(sweep.rows[0].best().strategy) == "GGG");
  CHECK_FALSE(sweep.rows[0].best().fits());
  CHECK(sweep.rows[1].best().fits());
}

TEST_CASE("an option that a sweep is over need not be given, nor does it count") {
  PlanTexts texts = by_numbers("inter=80");
  texts.inter = "1Gbit";
  const double beside_s = swept(texts).rows[0].best().time.step_s;
  texts.inter.reset();
  CHECK(swept(texts).rows[0].best().time.step_s == beside_s);
  PlanTexts named = test::plan_by_names();
  named.sweep = "global-batch=256,512";
  CHECK(swept(named).rows[0].report.options.request.sequences == 2);
}

TEST_CASE("of values some of which cannot be the possible ones are planned, the others named") {
  PlanTexts texts = test::plan_by_names();
  texts.sweep = "tp=1,2,3";
  const Sweep sweep = swept(texts);
  REQUIRE(sweep.rows.size() == 2);
  CHECK(sweep.rows[1].value == "2");
  REQUIRE(sweep.impossible.size() == 1);
  CHECK(sweep.impossible[0].value == "3");
  CHECK(sweep.impossible[0].why.find("--tp 3 --cp 1: 3 ranks side by side do not tile") == 0);
  texts.sweep = "tp=3,5";
  CHECK(has(sweep_of(texts, {}).status().message(), "--sweep tp=3: --tp 3 --cp 1: 3 ranks"));
  texts.sweep = "tp=1,two";
  CHECK(has(sweep_of(texts, {}).status().message(), "--sweep tp=two: --tp 'two': takes a whole"));
}

TEST_CASE("progress is told how many plans there have been") {
  std::vector<size_t> plans;
  REQUIRE(sweep_of(by_numbers("nodes=2,4"), [&](size_t done) { plans.push_back(done); }).ok());
  CHECK(plans == std::vector<size_t>{0, 1});
}

TEST_CASE("sweeps that cannot be are one line with option and value") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"inter", "--sweep inter: takes an option and its values"},
      {"", "--sweep : takes an option and its values"},
      {"nods=1,2", "--sweep nods=1,2: nods is no option that takes a number; near it: nodes"},
      {"model=a,b", "--sweep model=a,b: model is no option that takes a number; takes inter, "},
      {"inter=1,,2", "--sweep inter=1,,2: takes values"},
      {"inter=", "--sweep inter=: takes values"},
      {"inter=0", "--sweep inter=0Gbit: --inter '0Gbit': takes a rate"},
      {"nodes=2,many", "--sweep nodes=many: --nodes 'many': takes a whole number"},
      {"accumulation=0", "--sweep accumulation=0: --accumulation '0': takes a whole number"},
  };
  for (const auto& [sweep, message] : cases) {
    const auto refused = sweep_of(by_numbers(sweep), {});
    INFO(message << "; got " << refused.status().message());
    CHECK(refused.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(refused.status().message().find(message) == 0);
    CHECK(refused.status().message().find('\n') == std::string::npos);
  }
  std::string many = "nodes=1";
  for (int value = 0; value < 64; ++value) {
    many += ",1";
  }
  CHECK(has(sweep_of(by_numbers(many.c_str()), {}).status().message(),
            "65 values: takes at most 64"));
  PlanTexts measured = by_numbers("inter=1");
  measured.measure = true;
  CHECK(has(sweep_of(measured, {}).status().message(), "--sweep beside --measure"));
}

TEST_CASE("JSON has the first value's plan and a row for each value") {
  const auto answer = answer_to(
      R"({"model": "params=7e9,layers=4,sequence=2048", "nodes": 4, "ranks_per_node": 8, "memory": "80GB",
          "intra": "2000Gbit", "compute_time": "2s", "sweep": "inter=80,400"})");
  INFO(answer.status().message());
  REQUIRE(answer.ok());
  const auto json = nlohmann::json::parse(*answer);
  CHECK(json["request"]["inter_bytes_per_s"] == 80 * kGbit);
  const auto& sweep = json["sweep"];
  CHECK(sweep["option"] == "inter");
  REQUIRE(sweep["values"].size() == 2);
  CHECK(sweep["values"][0]["value"] == "80Gbit");
  CHECK(sweep["values"][0]["recommended"] == json["recommended"]);
  CHECK(sweep["values"][0]["tokens_per_s_per_rank"] > 0);
  CHECK(sweep["least"]["share"] == 0.95);
  CHECK(sweep["least"]["of"] == "400Gbit");
}

}  // namespace paro
