#include "cli/paro/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "cli/paro/names_table.hpp"
#include "cli/subcommands/table.hpp"
#include "has.hpp"
#include "plan_requests.hpp"

namespace paro::tool {
namespace {

using Json = nlohmann::json;

Report report_for(const char* memory,
                  bool with_price,
                  const char* model = "llama-65b",
                  const char* bytes = "2,2,12,2") {
  PlanTexts texts = test::plan_by_numbers();
  texts.bytes = bytes;
  texts.model = model;
  texts.memory = memory;
  texts.nics = "8";
  texts.world_algorithm = "ring";
  texts.accumulation = "10";
  texts.compute_time = "54s";
  if (with_price) {
    texts.price = "2";
    texts.watts = "400";
  }
  auto options = understand(texts);
  REQUIRE(options.ok());
  auto recommendation = recommend(options->request);
  REQUIRE(recommendation.ok());
  return {*options, *recommendation, {"a note"}};
}

std::string line_with(const std::string& text, const std::string& words) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(words) != std::string::npos) {
      return line;
    }
  }
  return {};
}

}  // namespace

TEST_CASE("all names are listed with what they stand for") {
  const std::string text = names_text();
  for (const char* row : {"llama-3-8b ", " 8030261248 ", "h100-sxm ", "p5.48xlarge ", " 989.4 "}) {
    CHECK(text.find(row) != std::string::npos);
  }
}

TEST_CASE("what was assumed is told with the figures") {
  const auto options = understand(test::plan_by_names());
  REQUIRE(options.ok());
  const Report report{*options, *recommend(options->request), {}};
  for (const std::string& text : {table_text(report), summary_text(report)}) {
    CHECK(has(line_with(text, "warning:     assumed: an MFU"), "0.46"));
  }
}

TEST_CASE("JSON has the agreed keys") {
  const Json json = Json::parse(json_text(report_for("80GB", false)));
  CHECK(json["recommended"] == "IIG");
  CHECK(json["runner_up"] == "IGG");
  CHECK(json["why"].get<std::string>().find("IIG takes") == 0);
  CHECK(json["ranking"] == Json::array({"IIG", "IGG", "GIG", "GGG"}));
  CHECK(json["notes"] == Json::array({"a note"}));
  REQUIRE(json["strategies"].size() == kStrategyCount);
  const Json& last = json["strategies"].back();
  CHECK(last["name"] == "GGG");
  CHECK(last["known_as"] == Json::array({"ZeRO-3", "FSDP"}));
  CHECK(last["fits"] == true);
  CHECK(last["missing_bytes"] == 0);
  const Json& memory = last["memory_bytes"];
  CHECK(memory["total"].get<double>() == Approx(32.5e9));
  CHECK(memory["total"].get<double>() ==
        Approx(memory["parameters"].get<double>() + memory["gradients"].get<double>() +
               memory["optimizer"].get<double>()));
  const Json& time = last["time_s"];
  CHECK(time["comm"].get<double>() ==
        Approx(10 * (time["param"].get<double>() + time["gradient"].get<double>()) +
               time["sync_g"].get<double>() + time["sync_p"].get<double>()));
  CHECK(time["step"].get<double>() == Approx(54 + last["exposed_s"].get<double>()));
  CHECK(time["step_half_links"].get<double>() > time["step"].get<double>());
  CHECK(last["paper_t_s"] == time["comm"]);
  CHECK(last["throughput_indicator"].get<double>() < 0);
  CHECK(last["cost_per_million_tokens"].is_null());
}

TEST_CASE("JSON has costs where there is a price") {
  const Json json = Json::parse(json_text(report_for("80GB", true)));
  const Json& row = json["strategies"][9];
  CHECK(row["name"] == "IIG");
  const double step_s = row["time_s"]["step"].get<double>();
  CHECK(row["cost_per_million_tokens"].get<double>() ==
        Approx(step_s / 3600 * 2 * 1e6 / (2048 * 10)));
  CHECK(row["kwh_per_million_tokens"].get<double>() ==
        Approx(step_s / 3600 * 0.4 * 1e6 / (2048 * 10)));
}

TEST_CASE("JSON recommends nothing where nothing fits") {
  const Json json = Json::parse(json_text(report_for("16GB", false)));
  CHECK(json["recommended"].is_null());
  CHECK(json["runner_up"].is_null());
  CHECK(json["ranking"].empty());
  CHECK(json["why"].get<std::string>().find("nothing fits") == 0);
  CHECK(json["strategies"][13]["fits"] == false);
  CHECK(json["strategies"][13]["missing_bytes"].get<double>() == Approx(23e9));
}

TEST_CASE("what units share is told, and gathered once more") {
  const Report tied = report_for("80GB", false, "llama-65b,shared=262M");
  CHECK(has(
      line_with(table_text(tied), "model "),
      "80 layers; 262 million in a unit that 1 more shares; bytes 2,2,12, sums of gradients 2"));
  const Json with = Json::parse(json_text(tied));
  const Json without = Json::parse(json_text(report_for("80GB", false)));
  CHECK(with["request"]["sharing_units"] == 1);
  CHECK(with["request"]["shared_parameters"] == 262e6);
  CHECK(without["request"]["sharing_units"] == 0);
  const auto gathers = [](const Json& json) {
    return json["strategies"][13]["time_s"]["param"].get<double>();
  };
  CHECK(gathers(with) == Approx(gathers(without) * (65e9 + 262e6) / 65e9));
  CHECK(has(table_text(report_for("80GB", false, "llama-65b,shared=262M,sharing=2")),
            "in a unit that 2 more share; bytes"));
}

TEST_CASE("sums of gradients are in fp32, where none are said to be narrow") {
  const auto gradients_of_nnn = [](const char* bytes) {
    const Json json = Json::parse(json_text(report_for("80GB", false, "llama-65b", bytes)));
    return json["strategies"][0]["memory_bytes"]["gradients"].get<double>();
  };
  CHECK(gradients_of_nnn("2,2,12") == Approx(4 * 65e9));
  CHECK(gradients_of_nnn("2,2,12,2") == Approx(2 * 65e9));
  CHECK(gradients_of_nnn("2,8,12") == Approx(8 * 65e9));
  CHECK(gradients_of_nnn("2,0,12") == 0);
}

TEST_CASE("JSON has no indicator where T is zero") {
  Report report = report_for("80GB", false);
  report.options.request.world = {1, 1};
  report.options.request.memory_bytes = 0;
  report.options.request.compute_s = 0;
  auto recommendation = recommend(report.options.request);
  REQUIRE(recommendation.ok());
  report.recommendation = *recommendation;
  const Json json = Json::parse(json_text(report));
  CHECK(json["strategies"][0]["throughput_indicator"].is_null());
}

TEST_CASE("the table marks, measures and says why") {
  const std::string text = table_text(report_for("80GB", true));
  INFO(text);
  const std::string best = line_with(text, "*  IIG");
  CHECK(best.find("63.38") != std::string::npos);
  CHECK(best.find(" yes ") != std::string::npos);
  CHECK(best.find(" 0.910 ") != std::string::npos);
  CHECK(line_with(text, "+  IGG").find("ZeRO++") != std::string::npos);
  CHECK(line_with(text, "   NNN").find("-960.00 GB") != std::string::npos);
  CHECK(line_with(text, "strategy  params").find("kWh/Mtoken") != std::string::npos);
  CHECK(line_with(text, "note ").find("a note") != std::string::npos);
  CHECK(line_with(text, "recommended:") == "recommended: IIG (*)");
  CHECK(line_with(text, "runner-up: ") == "runner-up:   IGG (+)");
  CHECK(line_with(text, "step:   ").find(" expected; ") != std::string::npos);
  CHECK(line_with(text, "why: ").find("IIG takes") != std::string::npos);
}

TEST_CASE("the summary has speed, memory and exposed communication, the best first") {
  const Report report = report_for("80GB", false);
  const std::string text = summary_text(report);
  INFO(text);
  const std::string head = line_with(text, "strategy");
  CHECK(has(head, "   strategy  known as  "));
  CHECK(has(head, "  tokens/s per rank  memory  "));
  CHECK(head.ends_with("  exposed ms"));
  const std::string best = line_with(text, "*  IIG");
  const double tokens_per_s =
      *report.options.tokens_per_s(report.recommendation.recommended()->time.step_s);
  CHECK(has(best, fmt::format("  {:.0f}  ", tokens_per_s)));
  CHECK(has(best, " 63.4 of 80 GB "));
  CHECK(best.ends_with(" 41.8"));
  CHECK(has(line_with(text, "+  IGG"), "ZeRO++"));
  CHECK(has(line_with(text, "   NNN"), "1040.0 of 80 GB: lacks 960.0 "));
  CHECK(text.find("  IIG") < text.find("  IGG"));
  CHECK(text.find("  GGG") < text.find("  NIG"));  // that fits, and lacks less
  CHECK(text.find("  NIG") < text.find("  NNN"));
  CHECK(has(line_with(text, "recommended: "), "recommended: IIG takes "));
  CHECK(has(line_with(text, "Left out: "), "Left out: MFU (give --gpu, and a model"));
  CHECK(line_with(text, "step:   ").find(" expected; ") != std::string::npos);
  CHECK(has(summary_text(report_for("16GB", false)), "recommended: none: nothing fits"));
}

TEST_CASE("the summary has what an option would add, and steps in its place") {
  PlanTexts texts = test::plan_by_numbers();
  texts.model = "params=7e9,layers=32";
  texts.nics = "8";
  const auto options = understand(texts);
  REQUIRE(options.ok());
  const std::string text = summary_text({*options, *recommend(options->request), {}});
  INFO(text);
  CHECK(has(line_with(text, "strategy"), "  step ms  "));
  CHECK(has(line_with(text, "Left out: "),
            "tokens/s (give --sequence and --compute-time above 0); MFU"));
  for (const char* assumed : {"no computation, communication alone is compared",
                              "no activations",
                              "micro-batches of 1 sample",
                              "1 micro-batch a step",
                              "2 bytes of a parameter"}) {
    CHECK_FALSE(line_with(text, std::string("warning:     assumed: ") + assumed).empty());
  }
}

TEST_CASE("a summary by names has the MFU, and the recommended batch") {
  const auto options = understand(test::plan_by_names());
  REQUIRE(options.ok());
  const std::string text = summary_text({*options, *recommend(options->request), {}});
  INFO(text);
  CHECK(has(line_with(text, "strategy"), "tokens/s per GPU    MFU  memory"));
  CHECK(line_with(text, "Left out: ").empty());
  CHECK(line_with(text, "batch: ") == "batch:       micro-batch 1, accumulation 4");
  CHECK(line_with(text, "micro-batch  ").empty());
}

TEST_CASE("a summary has the micro-batch of each row where rows differ") {
  PlanTexts texts = test::plan_by_names();
  texts.activations = "10GB";
  const auto options = understand(texts);
  REQUIRE(options.ok());
  const std::string text = summary_text({*options, *recommend(options->request), {}});
  INFO(text);
  CHECK(has(line_with(text, "strategy"), "  micro-batch  memory "));
}

TEST_CASE("what is said beside the recommendation has a line each") {
  Report report = report_for("80GB", false);
  Recommendation& all = report.recommendation;
  all.fastest = Candidate{9, all.figures[9]};
  all.smallest = Candidate{13, all.figures[13]};
  all.near_miss = NearMiss{7, {"--accumulation 1 (75 GB)", "16 nodes (70 GB)"}};
  for (const std::string& text : {table_text(report), summary_text(report)}) {
    CHECK(has(line_with(text, "fastest: "), "fastest:     IIG, 54 s a step, 63.4 GB"));
    CHECK(has(line_with(text, "smallest: "), "smallest:    GGG (ZeRO-3, FSDP), "));
    CHECK(line_with(text, "simplest: ").empty());
    CHECK(has(line_with(text, "nearly fits: "),
              "; fits with --accumulation 1 (75 GB), or 16 nodes (70 GB)"));
  }
}

TEST_CASE("CSV has every figure in bytes and seconds") {
  const std::string text = csv_text(report_for("80GB", true));
  INFO(text);
  std::istringstream lines(text);
  std::string head;
  std::getline(lines, head);
  CHECK(head ==
        "order,strategy,params (bytes),grads (bytes),optim (bytes),states (bytes),buffers "
        "(bytes),activ (bytes),"
        "need (bytes),missing (bytes),param (s),gradient (s),sync-g (s),sync-p (s),comm (s),"
        "exposed (s),step (s),least step (s),most step (s),T (s),log(1/T),tokens/s,cost/Mtoken,"
        "kWh/Mtoken,known as");
  CHECK(has(line_with(text, ",NNN,"), ",NNN,130000000000,"));
  CHECK(line_with(text, "1,IIG,").starts_with("1,IIG,"));
  CHECK(line_with(text, ",GGG,").ends_with(",\"ZeRO-3, FSDP\""));
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + static_cast<int>(kStrategyCount));
}

TEST_CASE("a sweep has a row for each value, and the least network") {
  PlanTexts texts = test::plan_by_numbers();
  texts.compute_time = "2s";
  texts.sweep = "inter=80,400,1600";
  const auto sweep = sweep_of(texts, {});
  REQUIRE(sweep.ok());
  const std::string text = sweep_text(*sweep);
  INFO(text);
  CHECK(has(line_with(text, "strategy"), "   inter  strategy  known as"));
  CHECK_FALSE(line_with(text, " 400Gbit  ").empty());
  CHECK(has(line_with(text, "least network: "), "are enough for 95 % of the speed with 1600Gbit"));
  CHECK_FALSE(line_with(text, "warning:     assumed: HO-Ring's collectives").empty());
  const std::string csv = csv_text(*sweep);
  CHECK(csv.starts_with("inter,strategy,known as,tokens/s,MFU,step (s),need (bytes),"));
  CHECK(line_with(csv, "1600Gbit,").starts_with("1600Gbit,"));
  texts = test::plan_by_names();
  texts.sweep = "tp=2,3";
  CHECK(line_with(sweep_text(*sweep_of(texts, {})), "tp=3 ")
            .starts_with("tp=3 is not possible: --tp 3 --cp 1: 3 ranks side by side"));
}

TEST_CASE("one node, one rank and one sequence are no several") {
  PlanTexts texts = test::plan_by_names();
  texts.nodes = "1";
  texts.ranks_per_node = "1";
  texts.global_batch = "1";
  const auto options = understand(texts);
  REQUIRE(options.ok());
  const std::string text = summary_text({*options, *recommend(options->request), {}});
  INFO(text);
  CHECK(has(text, "cluster  1 node of 1 rank\n"));
  CHECK(has(text, "step     1 sequence a rank, in micro-batches"));
}

TEST_CASE("what a million tokens cost has a line where a price is given") {
  PlanTexts texts = test::plan_by_names();
  texts.watts = "700";
  const auto options = understand(texts);
  REQUIRE(options.ok());
  const Report report{*options, *recommend(options->request), {}};
  const StrategyFigures& best = *report.recommendation.recommended();
  const double kwh = per_million_tokens(best.time.step_s, 4 * 8192, {0, 700, 0}).kwh;
  CHECK(line_with(summary_text(report), "cost: ") ==
        fmt::format("cost:        {:.4g} kWh a million tokens", kwh));
}

TEST_CASE("of several group sizes the extremes are of all, and the size has its reason") {
  PlanTexts texts = test::plan_by_names();
  texts.group_sizes = "4,8,16";
  auto options = understand(texts);
  REQUIRE(options.ok());
  const auto report = report_of(*options, {});
  REQUIRE(report.ok());
  const std::string text = summary_text(*report);
  INFO(text);
  const SizedPlans& sizes = report->sizes;
  REQUIRE(sizes.fastest);
  CHECK(has(
      line_with(text, "fastest: "),
      fmt::format(", groups of {}", sizes.plans[sizes.fastest->plan].request.world.group_size)));
  CHECK(has(text, "; groups of "));
  const Json json = Json::parse(json_text(*report));
  CHECK(json["fastest"] == letters(sizes.fastest->figures.strategy));
  CHECK(json["fastest_group_size"] == sizes.plans[sizes.fastest->plan].request.world.group_size);
  CHECK(has(text, json["reasons"].back().get<std::string>()));
}

TEST_CASE("the table stays readable where figures cannot be meant") {
  Report report = report_for("80GB", true);
  report.options.request.bytes.optimizer = 1e18;
  report.options.request.links.inter_bytes_per_s = 1;
  auto recommendation = recommend(report.options.request);
  REQUIRE(recommendation.ok());
  report.recommendation = *recommendation;
  const std::string row = line_with(table_text(report), "   NNN");
  INFO(row);
  CHECK(row.find("e+") != std::string::npos);
  CHECK(row.size() < 250);
}

TEST_CASE("the table recommends nothing where nothing fits") {
  const std::string text = table_text(report_for("16GB", false));
  CHECK(line_with(text, "recommended:") == "recommended: none");
  CHECK(line_with(text, "runner-up: ") == "runner-up:   none");
  CHECK(line_with(text, "step:   ").empty());
  CHECK(line_with(text, "why: ").find("nothing fits") != std::string::npos);
}

TEST_CASE("columns are aligned by their kind, and no line ends in blanks") {
  std::vector<ho::Column> columns{
      {"a", true, {"x", "long"}}, {"number", false, {"1", "22"}}, {"", true, {"y", ""}}};
  CHECK(ho::aligned(columns) == "a     number\nx          1  y\nlong      22\n");
  ho::add_row(columns, {"z", "3333333", ""});
  CHECK(ho::aligned(columns, "  ") ==
        "  a      number\n  x           1  y\n  long       22\n  z     3333333\n");
  CHECK(ho::aligned({}).empty());
}

TEST_CASE("cells have numbers of a fixed precision") {
  CHECK(ho::fixed(3.14159, 2) == "3.14");
  CHECK(ho::milliseconds(0.01234) == "12.3");
  CHECK(ho::megabytes(1'250'000) == "1.25");
}

}  // namespace paro::tool
