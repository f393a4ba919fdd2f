// `paro plan` on a cluster of levels: what a GPU and other dimensions of parallelism make of it.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.hpp"
#include "plan_requests.hpp"
#include "planner/planner.hpp"
#include "planner/text/answer.hpp"
#include "temporary_folder.hpp"

namespace paro {

using test::assumes;
using test::check_refused;
using test::plan_by_names;
using test::understood;

TEST_CASE("a cluster of levels has the links, a GPU beside it the rest") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  std::ofstream(path) << R"({"levels": [{"size": 4, "rate": "300GB", "network": "nvlink"},)"
                      << R"({"size": 2, "rate": "100Gbit", "network": "roce"}]})";
  PlanTexts texts = plan_by_names();
  texts.nodes.reset();
  texts.network.reset();
  texts.cluster = path;
  const PlanOptions options = understood(texts);
  CHECK(options.request.world.group_size == 4);
  CHECK(options.request.memory_bytes == 80e9);
  CHECK(options.request.compute_s > 0);
  CHECK(options.request.links.levels.size() == 2);
  CHECK_FALSE(assumes(options, "8 GPUs a node"));
  CHECK_FALSE(assumes(options, "links inside a node"));
  CHECK_FALSE(assumes(options, "between nodes"));
  const auto json = nlohmann::json::parse(json_text(*report_of(options, {})));
  CHECK(json["levels"][0]["share_of_bytes"].size() == 2);
  CHECK(json["levels"][0]["share_of_units"].empty());  // no network's is known
  check_refused(texts,
                {{&PlanTexts::network, "8x400Gbit", "--network beside a cluster of levels"},
                 {&PlanTexts::nodes, "2", "--nodes beside a cluster of levels"}});
  texts.gpu.reset();
  check_refused(texts, {{&PlanTexts::instance, "p4d", "--instance beside a cluster of levels"}});
}

TEST_CASE("levels of nodes beside other dimensions are what the short form is") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  std::ofstream(path) << R"({"levels": [{"name": "node", "size": 8, "rate": "450GB"},)"
                      << R"({"name": "cluster", "size": 16, "rate": "50GB", "nics": 8}]})";
  PlanTexts in_short = plan_by_names();
  in_short.collectives = "horing";
  in_short.model = "mixtral-8x7b";
  PlanTexts by_levels = in_short;
  by_levels.nodes.reset();
  by_levels.network.reset();
  by_levels.cluster = path;
  for (const auto dimension :
       {&PlanTexts::tensor, &PlanTexts::pipeline, &PlanTexts::context, &PlanTexts::expert}) {
    in_short.*dimension = by_levels.*dimension = "2";
    const PlannerRequest a = understood(in_short).request;
    const PlannerRequest b = understood(by_levels).request;
    CHECK(a.waiting_s == b.waiting_s);
    CHECK(a.compute_s == b.compute_s);
    const auto rows_a = recommend(a);
    const auto rows_b = recommend(b);
    REQUIRE(rows_a.ok());
    REQUIRE(rows_b.ok());
    for (size_t at = 0; at < rows_a->figures.size(); ++at) {
      INFO(letters(rows_a->figures[at].strategy));
      CHECK(rows_a->figures[at].time.step_s == Approx(rows_b->figures[at].time.step_s));
      CHECK(rows_a->figures[at].memory.total() == rows_b->figures[at].memory.total());
    }
  }
}

TEST_CASE("levels by the names of their networks are what the short form is, with NCCL too") {
  const ho::test::TemporaryFolder folder;
  PlanTexts in_short = plan_by_names();
  PlanTexts by_levels = in_short;
  by_levels.nodes.reset();
  by_levels.network.reset();
  by_levels.cluster = folder.path("levels.json");
  std::ofstream(*by_levels.cluster)
      << R"({"levels": [{"name": "node", "size": 8, "rate": "450GB", "network": "nvlink"},)"
      << R"({"size": 16, "rate": "400Gbit", "nics": 8, "network": "infiniband"}]})";
  for (const char* const tensor : {"1", "4"}) {
    in_short.tensor = by_levels.tensor = tensor;
    const auto rows_a = all_figures(understood(in_short).request);
    const auto rows_b = all_figures(understood(by_levels).request);
    REQUIRE(rows_a.ok());
    REQUIRE(rows_b.ok());
    for (size_t at = 0; at < rows_a->size(); ++at) {
      INFO(letters((*rows_a)[at].strategy));
      const StepTime& a = (*rows_a)[at].time;
      const StepTime& b = (*rows_b)[at].time;
      CHECK(a.busy_s == Approx(b.busy_s));
      // What a collective takes of faster links is by rates, which levels have of messages.
      CHECK(a.step_s == Approx(b.step_s).epsilon(0.001));
      CHECK(a.half_links_s == Approx(b.half_links_s).epsilon(0.001));
    }
  }
}

TEST_CASE("a cluster that is measured in part is so for what data parallelism has of it") {
  const ho::test::TemporaryFolder folder;
  PlanTexts texts = plan_by_names();
  texts.nodes.reset();
  texts.network.reset();
  texts.tensor = "8";  // of a node it has one rank
  texts.cluster = folder.path("levels.json");
  for (const char* const latency : {"", R"(, "latency": "3.4us")"}) {
    std::ofstream(*texts.cluster)
        << R"({"levels": [{"size": 8, "rate": "450GB", "network": "nvlink")" << latency
        << R"(}, {"size": 16, "rate": "400Gbit", "nics": 8, "network": "infiniband"}]})";
    const PlannerRequest request = understood(texts).request;
    const bool measured = latency[0] != 0;
    CHECK(request.others.links.protocols.empty() == measured);
    CHECK(request.links.protocols.empty() == measured);
  }
}

TEST_CASE("a level of one changes nothing, with NCCL too") {
  const ho::test::TemporaryFolder folder;
  PlanTexts texts = plan_by_names();
  texts.nodes.reset();
  texts.network.reset();
  texts.cluster = folder.path("levels.json");
  const std::string two =
      R"({"levels": [{"name": "node", "size": 8, "rate": "450GB", "network": "nvlink"},)"
      R"({"name": "pod", "size": 16, "rate": "400Gbit", "nics": 8, "network": "infiniband"})";
  std::ofstream(*texts.cluster) << two << "]}";
  const auto rows = all_figures(understood(texts).request);
  std::ofstream(*texts.cluster) << two << R"(, {"name": "site", "size": 1, "rate": "1GB"}]})";
  const auto with_site = all_figures(understood(texts).request);
  REQUIRE(rows.ok());
  REQUIRE(with_site.ok());
  for (size_t at = 0; at < rows->size(); ++at) {
    INFO(letters((*rows)[at].strategy));
    CHECK((*rows)[at].time.step_s == (*with_site)[at].time.step_s);
  }
}

TEST_CASE("other dimensions on levels are told by the level that each takes") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("levels.json");
  const auto with_pods_of = [&](const char* nodes) {
    std::ofstream(path) << R"({"levels": [{"name": "node", "size": 8, "rate": "450GB"},)"
                        << R"({"name": "pod", "rate": "50GB", "nics": 8, "size": )" << nodes
                        << R"(}, {"name": "site", "size": 4, "rate": "50GB", "nics": 32}]})";
  };
  with_pods_of("4");
  PlanTexts texts = plan_by_names();
  texts.nodes.reset();
  texts.network.reset();
  texts.cluster = path;
  texts.tensor = "4";
  texts.context = "4";
  texts.pipeline = "2";
  texts.group_sizes = "2,8";  // of data-parallel ranks: a node's, a pod's
  const auto report = report_of(understood(texts), {});
  INFO(report.status().message());
  REQUIRE(report.ok());
  const auto json = nlohmann::json::parse(json_text(*report));
  const auto& sent = json["parallelism"]["bytes_per_micro_batch"];
  CHECK(sent["tp"]["level_name"] == "node");
  CHECK(sent["tp"]["level"] == "intra");
  CHECK(sent["cp"]["level_name"] == "pod");
  CHECK(sent["pp"]["level_name"] == "site");
  CHECK(sent["pp"]["level"] == "inter");
  // A stage has two pods, in which four sets of ranks share states and NICs.
  CHECK(json["levels"][0]["size"] == 2);
  CHECK(json["levels"][1]["nics"] == 2);
  CHECK(json["levels"][2]["size"] == 2);
  CHECK(json["group_sizes"].size() == 2);
  // All four send over the spine.
  const SizedPlan& plan = report->sizes.plans[0];
  PlannerRequest of_one = plan.request;
  of_one.tensor_ranks = 1;
  const StrategyFigures& best = *plan.recommendation.recommended();
  CHECK(spine_bytes(best, plan.request) == 4 * spine_bytes(best, of_one));
  CHECK(spine_bytes(best, of_one) > 0);

  with_pods_of("3");
  check_refused(texts,
                {{&PlanTexts::context, "4", "--tp 4 --cp 4: 16 ranks side by side do not tile"}});
}

}  // namespace paro
