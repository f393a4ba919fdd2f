// What other dimensions leave of nodes, model and NICs, and what they send: by hand.
#include "planner/parallelism.hpp"

#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "cost/links.hpp"
#include "model/known_models.hpp"
#include "requests.hpp"

namespace paro {
namespace {

constexpr WorldShape kSixteenNodes{16, 8};

ho::cost::Cluster levels_of_nodes(const WorldShape& nodes = kSixteenNodes) {
  return levels_of(nodes, {});
}

// 8 ranks a node, 4 nodes a pod, 4 pods.
ho::cost::Cluster four_pods() {
  return {level("node", 8, 450e9, 1), level("pod", 4, 50e9, 8), level("site", 4, 50e9, 32)};
}

std::string problem(const Parallelism& sizes,
                    const char* model,
                    const ho::cost::Cluster& levels = levels_of_nodes()) {
  return check(sizes, *known_model(model), levels, 8192).message();
}

}  // namespace

TEST_CASE("data-parallel ranks share what others leave of a node and its NICs") {
  struct Row {
    Parallelism sizes;
    uint32_t groups, of_node;
    double nics;
  };
  const std::vector<Row> rows{
      {{}, 16, 8, 8},
      {{.tensor = 2}, 16, 4, 4},                // two groups of 4 a node, half of its NICs each
      {{.tensor = 8}, 16, 1, 1},                // a rank of each group
      {{.tensor = 8, .context = 2}, 16, 1, 1},  // a replica on two nodes, which share states
      {{.tensor = 4, .context = 2}, 16, 2, 2},  // and on one
      {{.context = 8}, 16, 8, 8},
      {{.tensor = 2, .pipeline = 4}, 4, 4, 4},   // stages on nodes of their own
      {{.tensor = 8, .pipeline = 16}, 1, 1, 1},  // no data parallelism
      {{.pipeline = 32}, 1, 4, 8},               // all of a group in a node
      {{.tensor = 2, .expert = 8}, 16, 4, 4}};
  for (const Row& row : rows) {
    const DataParallel data = data_parallel(row.sizes, kSixteenNodes, 8);
    INFO(row.sizes.tensor << " " << row.sizes.pipeline << " " << row.sizes.context);
    CHECK(data.world.group_count == row.groups);
    CHECK(data.world.group_size == row.of_node);
    CHECK(data.nics_per_group == row.nics);
    CHECK(data.replicas * row.sizes.ranks_of_replica() == 128);
    CHECK(data.world.ranks() == data.replicas * row.sizes.context);
  }
}

TEST_CASE("routed experts are held by ranks of their own group") {
  CHECK(expert_world({16, 8}, 8).group_size == 1);
  CHECK(expert_world({16, 8}, 8).group_count == 16);
  CHECK(expert_world({16, 8}, 2).group_size == 4);
  CHECK(expert_world({16, 8}, 32).ranks() == 4);
  CHECK(expert_world({16, 8}, 128).ranks() == 1);
  // Two ranks a sequence: four replicas a node, 64 in all.
  CHECK(expert_world({16, 8}, 4, 2).group_size == 2);
  CHECK(expert_world({16, 8}, 4, 2).group_count == 16);
  CHECK(expert_world({16, 8}, 8, 2).group_size == 2);
  CHECK(expert_world({16, 8}, 8, 2).group_count == 8);
  CHECK(expert_world({16, 8}, 2, 16).group_size == 8);  // a replica on two nodes
  CHECK(expert_world({16, 8}, 2, 16).group_count == 8);
}

TEST_CASE("sets of routed experts send for themselves between nodes") {
  const Transformer mixtral = *known_model("mixtral-8x7b");
  const WorldShape data{16, 8};
  const auto bytes = [&](uint32_t expert) {
    const RankModel rank = model_of_rank(mixtral, {.expert = expert});
    return rank.parameters() * between_factor(rank, data, expert);
  };
  CHECK(between_factor(model_of_rank(mixtral, {}), data, 1) == 1);
  CHECK(bytes(8) == Approx(bytes(1)));                               // eight sets of an eighth
  CHECK(between_factor({.dense = 0, .routed = 1}, data, 128) == 0);  // nobody has the same
  CHECK(between_factor({.dense = 0, .routed = 1}, data, 32) == Approx(8 * 0.75 / (15.0 / 16)));
  CHECK(between_factor({.dense = 1, .routed = 1}, {1, 8}, 8) == 1);
}

TEST_CASE("a rank holds its stage's part") {
  const Transformer llama = *known_model("llama-3-8b");
  const double all = 8030261248;
  CHECK(model_of_rank(llama, {}).parameters() == all);
  CHECK(model_of_rank(llama, {.tensor = 8}).parameters() == all / 8);
  const RankModel stage = model_of_rank(llama, {.tensor = 2, .pipeline = 4});
  const double matrix = 128256.0 * 4096;
  const double layer = (all - 2 * matrix - 4096) / 32;
  CHECK(stage.layers == 8);
  CHECK(stage.parameters() == (8 * layer + matrix + 4096) / 2);  // the last one
  const Transformer mixtral = *known_model("mixtral-8x7b");
  const RankModel experts = model_of_rank(mixtral, {.expert = 8});
  CHECK(experts.routed == 45097156608.0 / 8);
  CHECK(experts.dense == 46702792704.0 - 45097156608.0);
  // A tied matrix is on the first and on the last stage.
  const RankModel gpt = model_of_rank(*known_model("gpt2"), {.pipeline = 12});
  CHECK(gpt.dense > 50257.0 * 768);
}

TEST_CASE("layers that stages do not divide are spread evenly, and the longest stage counts") {
  const Transformer llama = *known_model("llama-3.1-405b");  // 126 layers
  CHECK(check({.tensor = 8, .pipeline = 16}, llama, levels_of_nodes(), 8192).ok());
  const RankModel stage = model_of_rank(llama, {.tensor = 8, .pipeline = 16});
  CHECK(stage.layers == 8);
  CHECK(stage.parameters() > model_of_rank(llama, {.tensor = 8, .pipeline = 18}).parameters());
  CHECK(longest_stage(126, shape_of({.pipeline = 16})) == Approx(128.0 / 126));
  CHECK(longest_stage(126, shape_of({.pipeline = 9, .parts = 2})) == 1);
}

TEST_CASE("bubbles of 1F1B and interleaved pipelines") {
  CHECK(bubble_share({}, 8) == 0);
  CHECK(bubble_share({.pipeline = 8}, 64) == Approx(7.0 / 64));
  CHECK(bubble_share({.pipeline = 8, .parts = 3}, 64) == Approx(7.0 / 192));
}

TEST_CASE("bytes of each dimension and where they go, by hand") {
  const Transformer mixtral = *known_model("mixtral-8x7b");
  const Parallelism sizes{.tensor = 2, .pipeline = 4, .context = 2, .expert = 4, .parts = 2};
  ActivationShape shape;
  shape.sequence = 4096;
  const auto traffic = traffic_of(sizes, mixtral, levels_of_nodes(), shape);
  REQUIRE(traffic.size() == 4);
  const double tokens = 2048;  // of a rank
  const double layers = 8;     // of a stage
  CHECK(traffic[0].dimension == "tp");
  CHECK(traffic[0].bytes == 2 * 8 * tokens * 4096 / 2 * layers);
  CHECK(traffic[0].level == 0);
  CHECK(traffic[1].dimension == "cp");
  CHECK(traffic[1].bytes == 2 * 3 * tokens * 2048 / 2 * layers);
  CHECK(traffic[1].level == 0);
  CHECK(traffic[2].dimension == "ep");
  CHECK(traffic[2].bytes == 2 * 4 * tokens * 4096 / 2 * 2 * 3 / 4 * layers);
  CHECK(traffic[2].level == 1);  // 2 x 2 x 4 ranks are more than a node's
  CHECK(traffic[3].dimension == "pp");
  CHECK(traffic[3].bytes == 2 * 2 * tokens * 4096 / 2 * 2);
  CHECK(traffic[3].level == 1);
  shape.recompute = Recompute::kFull;
  const auto again = traffic_of(sizes, mixtral, levels_of_nodes(), shape);
  CHECK(again[0].bytes == 1.5 * traffic[0].bytes);
  CHECK(traffic_of({}, mixtral, levels_of_nodes(), shape).empty());
  shape.value_bytes = 4;
  CHECK(traffic_of(sizes, mixtral, levels_of_nodes(), shape)[0].bytes == 2 * again[0].bytes);
}

TEST_CASE("collectives of each dimension, and where their ranks are") {
  const Transformer mixtral = *known_model("mixtral-8x7b");
  const Parallelism sizes{.tensor = 2, .pipeline = 4, .context = 2, .expert = 4, .parts = 2};
  ActivationShape shape;
  shape.sequence = 4096;
  shape.recompute = Recompute::kFull;
  const auto traffic = traffic_of(sizes, mixtral, levels_of_nodes(), shape);
  REQUIRE(traffic.size() == 4);
  const double layers = 8;  // of a stage
  CHECK(traffic[0].calls == 12 * layers);
  CHECK(traffic[1].calls == 4 * layers);
  CHECK(traffic[2].calls == 6 * layers);
  CHECK(traffic[3].calls == 4);
  const auto where = [](const DimensionTraffic& each, const WorldShape& nodes = kSixteenNodes) {
    const ho::cost::Members members = members_of(each, levels_of_nodes(nodes));
    return std::pair(members[0], members[1]);
  };
  CHECK(where(traffic[0]) == std::pair(2U, 1U));
  CHECK(where(traffic[1]) == std::pair(2U, 1U));  // every second rank
  CHECK(where(traffic[2]) == std::pair(2U, 2U));  // every fourth one
  CHECK(where(traffic[3]) == std::pair(1U, 2U));
  CHECK(where({.ranks = 10}) == std::pair(5U, 2U));  // 8 and 2, 6 and 4, ..
  CHECK(where({.ranks = 2, .stride = 4}, {1, 8}) == std::pair(2U, 1U));
}

TEST_CASE("each dimension lies in the levels that its ranks are apart") {
  const Transformer mixtral = *known_model("mixtral-8x7b");
  ActivationShape shape;
  shape.sequence = 4096;
  const Parallelism sizes{.tensor = 2, .pipeline = 2, .context = 8, .expert = 4};
  const auto traffic = traffic_of(sizes, mixtral, four_pods(), shape);
  REQUIRE(traffic.size() == 4);
  const auto where = [](const DimensionTraffic& each) {
    const ho::cost::Members members = members_of(each, four_pods());
    return std::vector(members.begin(), members.begin() + 3);
  };
  CHECK(where(traffic[0]) == std::vector{2U, 1U, 1U});
  CHECK(where(traffic[1]) == std::vector{4U, 2U, 1U});  // every second rank of two nodes
  CHECK(where(traffic[2]) == std::vector{1U, 2U, 2U});  // one of two nodes each, in two pods
  CHECK(where(traffic[3]) == std::vector{1U, 1U, 2U});
  const std::vector<size_t> outermost{0, 1, 2, 2};
  for (size_t at = 0; at < traffic.size(); ++at) {
    CHECK(traffic[at].level == outermost[at]);
    CHECK(traffic[at].at_once == 1);
  }
  // Of two stages in a pod only one sends to the next pod.
  const auto stages = traffic_of({.pipeline = 8}, mixtral, four_pods(), shape);
  CHECK(where(stages[0]) == std::vector{1U, 1U, 2U});
  CHECK(stages[0].at_once == 0.5);
}

TEST_CASE("data parallelism has what other dimensions leave of every level") {
  const auto left = [](const Parallelism& sizes) {
    std::vector<double> sizes_and_nics;
    for (const ho::cost::Level& level : data_parallel_levels(sizes, four_pods())) {
      sizes_and_nics.push_back(level.size);
      sizes_and_nics.push_back(level.nics);
    }
    return sizes_and_nics;
  };
  CHECK(left({}) == std::vector<double>{8, 1, 4, 8, 4, 32});
  CHECK(left({.tensor = 2, .context = 16}) == std::vector<double>{4, 1, 4, 4, 4, 16});
  CHECK(left({.tensor = 8, .pipeline = 4}) == std::vector<double>{1, 1, 4, 1, 1, 4});
  CHECK(left({.tensor = 2, .pipeline = 32}) == std::vector<double>{2, 1, 1, 4, 1, 16});
}

TEST_CASE("sizes that do not tile levels are told with those that would") {
  ho::cost::Cluster three = four_pods();
  three[1].size = 3;  // 96 ranks
  CHECK(problem({.pipeline = 6}, "llama-3-70b", three) ==
        "--pp 6: stages of 16 ranks do not tile levels of 8 x 3 x 4; takes 4 or 12 stages");
  CHECK(problem({.pipeline = 8}, "llama-3-70b", three) ==
        "--pp 8: stages of 12 ranks do not tile levels of 8 x 3 x 4; takes 4 or 12 stages");
  // Stages of 3 tile too, but have no whole pairs.
  CHECK(problem({.tensor = 2, .pipeline = 6}, "llama-3-8b", levels_of_nodes({4, 6})) ==
        "--pp 6: stages of 4 ranks do not tile 4 nodes of 6; takes 4 or 12 stages");
  CHECK(problem({.tensor = 8, .context = 2}, "llama-3-70b", three) ==
        "--tp 8 --cp 2: 16 ranks side by side do not tile levels of 8 x 3 x 4, as 8 or 24 would");
  for (const uint32_t stages : {4U, 12U}) {
    CHECK(problem({.pipeline = stages}, "llama-3-70b", three).empty());
  }
  CHECK(problem({.tensor = 8, .context = 2}, "llama-3-70b", four_pods()).empty());
}

TEST_CASE("routed experts count by the level where their sets send most") {
  // Of 16 sets eight are in a node, so that each has 8 of 16 nodes; a pod has all of them.
  const RankModel routed{.dense = 0, .routed = 1};
  CHECK(between_factor(routed, levels_of_nodes(), {.expert = 16}) ==
        between_factor(routed, kSixteenNodes, 16));
  CHECK(between_factor(routed, four_pods(), {.expert = 16}) == Approx(16));
}

TEST_CASE("sizes that cannot be are named") {
  CHECK(problem({}, "llama-3-8b").empty());
  CHECK(problem({.tensor = 8, .pipeline = 4, .context = 2}, "llama-3-8b").empty());
  CHECK(problem({.tensor = 4, .pipeline = 4, .expert = 8}, "mixtral-8x7b").empty());
  CHECK(problem({.tensor = 16}, "llama-3-8b").find("--tp 16: is more than the 8 ranks of a node") ==
        0);
  CHECK(problem({.tensor = 3}, "llama-3-8b") ==
        "--tp 3 --cp 1: 3 ranks side by side do not tile 16 nodes of 8, as 2 or 4 would");
  CHECK(problem({.tensor = 4, .context = 3}, "llama-3-8b") ==
        "--tp 4 --cp 3: 12 ranks side by side do not tile 16 nodes of 8, as 8 or 16 would");
  const auto of_tokens =
      check({.context = 2}, *known_model("llama-3-8b"), levels_of_nodes(), 4294967291);
  CHECK(of_tokens.message() ==  // a prime, at once
        "--cp 2: does not divide the 4294967291 tokens of a sequence, as 1 or 4294967291 would");
  CHECK(problem({.tensor = 8}, "gpt2") == "--tp 8: does not divide the 12 heads, as 6 or 12 would");
  CHECK(problem({.pipeline = 3}, "llama-3-8b") ==
        "--tp x --pp x --cp of 3: does not divide the 128 ranks, as 2 or 4 would");
  CHECK(problem({.pipeline = 2}, "llama-3-8b", levels_of_nodes({3, 8})) ==
        "--pp 2: stages of 12 ranks do not tile 3 nodes of 8; takes 1 or 3 stages");
  CHECK(problem({.pipeline = 8}, "llama-3-8b", levels_of_nodes({10, 8}))
            .find("--pp 8: stages of 10 ranks") == 0);
  // Several stages of a node.
  CHECK(problem({.pipeline = 8}, "llama-3-8b", levels_of_nodes({2, 8})).empty());
  CHECK(problem({.pipeline = 64}, "llama-3-8b") ==
        "--pp x its interleaved parts of 64: are more than the 32 layers; takes at most 32");
  CHECK(problem({.parts = 2}, "llama-3-8b") == "--interleave takes --pp beside it");
  CHECK(problem({.expert = 8}, "llama-3-8b").find("--ep 8: the model has no routed experts") == 0);
  CHECK(problem({.expert = 16}, "mixtral-8x7b") ==
        "--ep 16: does not divide the 8 routed experts, as 8 would");
  CHECK(problem({.pipeline = 32, .expert = 8}, "mixtral-8x7b") ==
        "--ep 8: does not divide the 4 ranks of data parallelism, as 4 would");
}

}  // namespace paro
