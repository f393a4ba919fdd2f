// What paro-bench is asked for and what it prints.
#include <nlohmann/json.hpp>

#include "bench/paro_bench/bench_options.hpp"
#include "bench/paro_bench/bench_report.hpp"
#include "catch.hpp"

namespace paro::bench {
namespace {

ho::Parsed<BenchOptions> parse_bench(std::vector<const char*> words) {
  words.insert(words.begin(), "paro-bench");
  return parse_bench_options(static_cast<int>(words.size()), words.data());
}

Outcome outcome_of(const System& system, uint64_t planned_bytes) {
  Outcome outcome;
  outcome.system = system;
  outcome.batch = 3;
  outcome.planned.emplace().time.step_s = 0.5;
  Sample sample;
  sample.times.step = 0.75;
  sample.sent = {1000, 500};
  sample.memory.predicted[Purpose::kOptimizer] = 3'000'000;
  sample.memory.actual[Purpose::kOptimizer] = 2'000'000;
  sample.memory.actual[Purpose::kScratch] = 500'000;
  sample.processors_busy = 0.25;
  if (system.world == WorldAlgorithm::kHoRing) {
    sample.planned = Traffic{planned_bytes, 500};
  }
  outcome.samples = {sample};
  return outcome;
}

}  // namespace

TEST_CASE("a benchmark's options have their defaults") {
  const auto parsed = parse_bench({});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  const BenchOptions& options = parsed.options;
  CHECK(options.systems.size() == kStrategyCount + baselines().size());
  CHECK(options.compute_factors == std::vector<double>{1});
  CHECK(options.rounds == 5);
  CHECK(options.workload.model.text == "llama-7b");
  CHECK(options.workload.real_bytes_per_s == 10e9);
  CHECK(options.workload.emulated_bytes_per_s == 25e6);
  CHECK(options.workload.scale == 1.0 / 2000);
}

TEST_CASE("a benchmark's options are taken as given") {
  const auto parsed = parse_bench({"--model=llama-65b,trainable=2e8",
                                   "--scale=0.0001",
                                   "--systems=ING,zero3",
                                   "--compute-factors=0.25,1,1",
                                   "--rail-rate=50Mbit",
                                   "--dtype=float16",
                                   "--units=4",
                                   "--trace=t.json"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.systems.size() == 2);
  CHECK(parsed.options.compute_factors == std::vector<double>{0.25, 1});
  CHECK(parsed.options.workload.emulated_bytes_per_s == 50e6 / 8);
  CHECK(parsed.options.dtype == ho::DType::kFloat16);
  CHECK(parsed.options.trace == "t.json");
}

TEST_CASE("a benchmark that cannot be ends with status 2") {
  for (const char* text : {"--scale=0",
                           "--scale=1/0",
                           "--scale=2",
                           "--scale=1/",
                           "--scale=nan",
                           "--scale=1e-12",
                           "--systems=none",
                           "--utilisation=0",
                           "--utilisation=1.5",
                           "--flops=0",
                           "--compute-factors=",
                           "--compute-factors=1,-1",
                           "--rail-rate=0",
                           "--model=gpt",
                           "--model=params=1e9,trainable=2e9,layers=4",
                           "--model=llama-7b,shared=131e6",
                           "--rounds=0",
                           "--dtype=int8",
                           "--compute-factors=1,,2"}) {
    INFO(text);
    CHECK(parse_bench({text}).exit_status.value_or(0) != 0);
  }
}

TEST_CASE("two results need two files") {
  CHECK(parse_bench({"--json=a", "--trace=a"}).exit_status.value_or(0) != 0);
  CHECK_FALSE(parse_bench({"--json=a", "--trace=b"}).exit_status.has_value());
}

TEST_CASE("bytes that are not the step plan's are told") {
  const auto parsed = parse_bench({"--systems=IIG,GGG,zero3"});
  const auto& systems = parsed.options.systems;
  const std::vector<Outcome> outcomes{
      outcome_of(systems[0], 1000), outcome_of(systems[1], 999), outcome_of(systems[2], 0)};
  const auto lines = wrong(outcomes);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("GGG: "));
  const std::string text = outcomes_text(parsed.options, outcomes, 1);
  CHECK(text.find("750.0") != std::string::npos);
  CHECK(text.find("1.50") != std::string::npos);       // of the plan's
  CHECK(text.find("2.00/3.00") != std::string::npos);  // optimizer state
  CHECK(text.find("2.50/3.00") != std::string::npos);  // all states
}

TEST_CASE("JSON has what was fixed, what was measured, and what was compared") {
  const auto parsed = parse_bench({"--systems=IIG,zero3"});
  const std::vector<Outcome> outcomes{outcome_of(parsed.options.systems[0], 1000),
                                      outcome_of(parsed.options.systems[1], 0)};
  PlannerRequest links;
  links.world = {2, 2};
  const auto json = nlohmann::json::parse(outcomes_json(parsed.options, links, 4, outcomes));
  CHECK(json["config"]["ranks"] == 4);
  CHECK(json["config"]["time_scale"].get<double>() > 0);
  REQUIRE(json["results"].size() == 2);
  CHECK(json["results"][0]["planned_inter_bytes"] == 500);
  CHECK_FALSE(json["results"][1].contains("planned_inter_bytes"));
  CHECK(json["results"][1]["world_algorithm"] == "multi_ring");
  CHECK(json["results"][1]["samples_per_s"] == 4);
  CHECK(json["results"][0]["memory_bytes"] == 2'500'000);
  CHECK(json["results"][0]["memory_by_state"]["packing"] == 500'000);
  CHECK(json["results"][0]["predicted_memory_by_state"]["optimizer"] == 3'000'000);
  CHECK(json["results"][0]["processors_busy"] == 0.25);
  REQUIRE(json["comparisons"].size() == 1);
  CHECK(json["comparisons"][0]["ratio"] == 1);
}

}  // namespace paro::bench
