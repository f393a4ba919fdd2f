#include "planner/text/answer.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "plan_requests.hpp"

namespace paro {
namespace {

constexpr const char* kRequest =
    R"({"model": "llama-7b", "nodes": 4, "ranks_per_node": 8, "memory": "80GB",
        "intra": "2000Gbit", "inter": "80Gbit", "accumulation": 10, "compute_time": "5.7s"})";

}  // namespace

TEST_CASE("a request as JSON is answered as the same options are") {
  PlanTexts texts = test::plan_by_numbers();
  texts.named = ho::OptionNames::as_keys();
  texts.accumulation = "10";
  texts.compute_time = "5.7s";
  const auto options = understand(texts);
  REQUIRE(options.ok());
  const auto recommendation = recommend(options->request);
  REQUIRE(recommendation.ok());
  const auto answer = answer_to(kRequest);
  REQUIRE(answer.ok());
  CHECK(*answer == json_text({*options, *recommendation, {}}));
}

TEST_CASE("the answer has the groups, and all sizes that were compared") {
  const auto one = nlohmann::json::parse(*answer_to(kRequest));
  CHECK(one["group_size"] == 8);
  CHECK(one["groups"] == "4 of 8 ranks, 0-7, 8-15, ..: a whole node");
  CHECK(one["group_sizes"].empty());
  std::string request = kRequest;
  request.insert(1, R"("group_sizes": "4,16", )");
  const auto two = nlohmann::json::parse(*answer_to(request));
  REQUIRE(two["group_sizes"].size() == 2);
  CHECK(two["group_sizes"][0]["groups"] ==
        "8 of 4 ranks, 0-3, 4-7, ..: 4 of the 8 ranks of a node");
  CHECK(two["group_sizes"][1]["groups"] ==
        "2 of 16 ranks, 0-15, 16-31: 2 of the 4 nodes of a cluster");
  CHECK(two["group_sizes"][0]["spine_bytes"] > 0);
  CHECK((two["group_size"] == 4 || two["group_size"] == 16));
  CHECK(two["levels"].size() == 2);
  request.replace(request.find("4,16"), 4, "5,,7");
  CHECK(has(answer_to(request).status(), "group_sizes '5,,7': takes whole numbers with a comma"));
}

TEST_CASE("the answer has speeds, and what is said beside the recommendation") {
  const auto json = nlohmann::json::parse(*answer_to(kRequest));
  const auto& row = json["strategies"][0];
  CHECK(row["tokens_per_s_per_rank"].get<double>() ==
        Approx(2048 * 10 / row["time_s"]["step"].get<double>()));
  CHECK(row["mfu"].is_null());
  for (const char* key : {"fastest", "smallest", "simplest", "near_miss"}) {
    CHECK(json.contains(key));
  }
  CHECK(json["sweep"].is_null());
}

TEST_CASE("every option is a key of a request") {
  for (const PlanOption& option : plan_options()) {
    std::string key = option.name;
    for (char& letter : key) {
      letter = letter == '-' ? '_' : letter;
    }
    // A value that no option takes: the key is known, so the message is not about the key.
    const auto answer = answer_to("{\"" + key + "\": null}");
    REQUIRE_FALSE(answer.ok());
    CHECK(has(answer.status().message(), "\"" + key + "\" null: takes a"));
  }
}

TEST_CASE("a whole number may be written as a fraction") {
  auto json = nlohmann::json::parse(kRequest);
  const auto usual = nlohmann::json::parse(*answer_to(json.dump()));
  json["nodes"] = 4.0;
  const auto answer = answer_to(json.dump());
  REQUIRE(answer.ok());
  CHECK(nlohmann::json::parse(*answer) == usual);
  json["nodes"] = 4.5;
  CHECK(has(answer_to(json.dump()).status(), "nodes '4.5': takes a whole number"));
}

TEST_CASE("a flag is true or false") {
  auto json = nlohmann::json::parse(kRequest);
  json["no_overlap"] = true;
  const auto answer = answer_to(json.dump());
  REQUIRE(answer.ok());
  CHECK(nlohmann::json::parse(*answer)["request"]["overlap"] == false);
}

namespace {

// By names, with one key of another value.
ho::Result<std::string> answer_with(const std::string& key, const nlohmann::json& value) {
  nlohmann::json json = {{"model", "llama-3-8b"},
                         {"gpu", "h100"},
                         {"nodes", 16},
                         {"network", "8x400Gbit"},
                         {"global_batch", 512}};
  json[key] = value;
  return answer_to(json.dump());
}

void check_keys_only(const std::string& text) {
  for (const PlanOption& option : plan_options()) {
    INFO(text);
    CHECK(text.find(std::string("--") + option.name) == std::string::npos);
  }
}

}  // namespace

TEST_CASE("what is said of a request in JSON names keys, not options") {
  for (const PlanOption& option : plan_options()) {
    const std::string key = ho::OptionNames::as_keys()(option.name);
    if (key == "units") {
      continue;
    }
    const auto answer = answer_with(key, "?");
    INFO(key);
    REQUIRE_FALSE(answer.ok());
    check_keys_only(answer.status().message());
  }
  const std::vector<std::pair<const char*, nlohmann::json>> cases{{"tp", 16},
                                                                  {"tp", 3},
                                                                  {"pp", 5},
                                                                  {"cp", 7},
                                                                  {"ep", 2},
                                                                  {"interleave", 2},
                                                                  {"global_batch", 500},
                                                                  {"micro_batch", 3},
                                                                  {"accumulation", 3},
                                                                  {"mfu", 0},
                                                                  {"instance", "p5"},
                                                                  {"network", 5},
                                                                  {"energy_price", 1},
                                                                  {"strategy", "III"},
                                                                  {"sweep", "inter"},
                                                                  {"sweep", "inter=1,,2"},
                                                                  {"sweep", "mfu=2"},
                                                                  {"bytes", "0,0,0"},
                                                                  {"effects", "1,2"}};
  for (const auto& [key, value] : cases) {
    const auto answer = answer_with(key, value);
    INFO(key);
    REQUIRE_FALSE(answer.ok());
    check_keys_only(answer.status().message());
  }
  check_keys_only(answer_to(R"({"model": "llama-3-8b"})").status().message());
  const auto answer = answer_with("sequence", 2048);
  REQUIRE(answer.ok());
  check_keys_only(*answer);
}

TEST_CASE("units stand for a model, and each strategy says what a rank sends") {
  const auto answer = answer_to(R"({"units": [{"parameters": 1e6, "element_bytes": 4, "count": 4}],
      "nodes": 2, "ranks_per_node": 2, "nics": 2, "intra": "1GB", "inter": "1GB",
      "accumulation": 3})");
  INFO(answer.status().message());
  REQUIRE(answer.ok());
  const auto json = nlohmann::json::parse(*answer);
  CHECK(json["request"]["model"] == "4 units");
  CHECK(json["request"]["bytes_per_parameter"] == nlohmann::json{4, 4, 8});
  const auto& first = json["strategies"].front();
  CHECK(first["name"] == "NNN");
  CHECK(first["sent_bytes"]["intra"].get<double>() == Approx(16e6));
  CHECK(first["sent_bytes"]["inter"].get<double>() == Approx(8e6));
  CHECK(json["export"].is_null());
  CHECK(has(answer_to(R"({"model": "gpt2", "units": [], "nodes": 1})").status(),
            "model beside units, which are a model"));
}

TEST_CASE("an answer has the program that was asked for") {
  std::string request = kRequest;
  request.insert(1, R"("export": "paro.torch", "strategy": "iig", )");
  const auto answer = nlohmann::json::parse(*answer_to(request));
  const auto program = answer["export"].get<std::string>();
  CHECK(has(program, "#   paro_plan({\"accumulation\":10,"));
  CHECK(has(program, "STRATEGY = \"IIG\""));
  request.replace(request.find("paro.torch"), 10, "fsdp2");
  CHECK(has(answer_to(request).status(), "export fsdp2: FSDP2 alone cannot have IIG;"));
}

TEST_CASE("requests that cannot be are told with key and value") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"", "paro_plan: is not JSON at byte"},
      {"[]", "paro_plan: takes one JSON object with model, units, micro_batch"},
      {R"({"nodes": 4, "nodes": 5})", "paro_plan: \"nodes\" is given twice"},
      {R"({"knots": 4})", "paro_plan: \"knots\" is not known; takes model,"},
      {R"({"micro-batch": 4})", "paro_plan: \"micro-batch\" is not known; takes model,"},
      {R"({"measure": true})", "paro_plan: \"measure\" is not known"},
      {R"({"no_overlap": 1})", "paro_plan: \"no_overlap\" 1: takes true or false"},
      {R"({"model": null})", "paro_plan: \"model\" null: takes a text or a number"},
      {R"({"nodes": 4})", "model is missing"},
      {R"({"model": "llama-7b", "nodes": 0, "ranks_per_node": 1})", "nodes '0': takes"},
      {R"({"model": "llama-7b", "nodes": 1, "ranks_per_node": 1, "memory": 1e400})",
       "has a number that is too large"},
  };
  for (const auto& [request, message] : cases) {
    const auto answer = answer_to(request);
    CHECK(answer.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(has(answer.status().message(), message));
  }
}

TEST_CASE("an answer that cannot be is one line, whatever was asked") {
  const auto answer = answer_to(R"({"model": "llama-7b", "gpu": "h\n100", "nodes": 4})");
  CHECK(has(answer.status().message(), "h\\x0a100"));
  CHECK(answer.status().message().find('\n') == std::string::npos);
}

}  // namespace paro
