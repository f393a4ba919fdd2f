// `paro plan` by names: models, GPUs, machines, batches and dimensions of parallelism.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cost/networks.hpp"
#include "plan_requests.hpp"
#include "planner/batch.hpp"
#include "planner/figures.hpp"
#include "planner/sent_bytes.hpp"
#include "planner/text/answer.hpp"
#include "planner/text/plan_options.hpp"
#include "requests.hpp"
#include "temporary_folder.hpp"

namespace paro {
namespace {

using test::assumes;
using test::check_refused;
using test::plan_by_names;
using test::understood;

}  // namespace

TEST_CASE("ranks of one sequence share states and add up gradients, and take one batch") {
  PlanTexts texts = plan_by_names();
  texts.nodes = "2";
  texts.context = "8";
  texts.sequence = "32768";
  texts.global_batch = "2";
  const PlanOptions options = understood(texts);
  const PlannerRequest& request = options.request;
  CHECK(request.world.group_count == 2);
  CHECK(request.world.group_size == 8);
  CHECK(request.links.nics_per_group == 8);
  CHECK(request.sequences == 1);
  CHECK(options.tokens_per_rank() == 32768.0 / 8);
  const double parameters = 8030261248;
  const auto states = [&](const char* strategy) {
    return memory_of(*parse_strategy(strategy), with_batch(*parse_strategy(strategy), request))
        .states.total();
  };
  CHECK(states("GGG") == Approx(16 * parameters / 16));
  CHECK(states("III") == Approx(16 * parameters / 8));
  // 16 ranks' sums, on rings of which each of 8 leaves a node by a NIC of its own.
  CHECK(sent_bytes(*parse_strategy("NNN"), request).inter ==
        Approx(2 * 15.0 / 16 * 2 * parameters / 8));
}

TEST_CASE("a model, a GPU and a network make a request") {
  const PlanOptions options = understood(plan_by_names());
  const PlannerRequest& request = options.request;
  CHECK(request.model.parameters == 8030261248);
  CHECK(request.layers == 32);
  CHECK(request.sharing_units == 0);
  CHECK(request.world.group_count == 16);
  CHECK(request.world.group_size == 8);
  CHECK(request.links.intra_bytes_per_s == 450e9);
  CHECK(request.links.inter_bytes_per_s == 400 * kGigabit);
  CHECK(request.links.nics_per_group == 8);
  CHECK(request.memory_bytes == 80e9);
  CHECK(request.reserve_bytes == Approx(4.8e9));
  CHECK(request.sequences == 4);
  CHECK(options.tokens_per_rank() == 4 * 8192);
  // Three times the forward pass' 2 (parameters - embedding - norms) and scores of half a sequence.
  const double matrices = 8030261248.0 - 128256 * 4096 - 65 * 4096;
  const double flops = 3 * (2 * matrices + 32 * 4 * 4096.0 * 8192 / 2) * 4 * 8192;
  CHECK(request.compute_s == Approx(flops / (0.46 * 989.4e12)));
  CHECK(request.forward_share == Approx(1.0 / 3));
}

TEST_CASE("a GPU's collectives are NCCL's, and slower by the rank") {
  PlanTexts texts = plan_by_names();
  const PlanOptions options = understood(texts);
  CHECK(options.request.links.world == WorldAlgorithm::kMultiRing);
  REQUIRE(options.request.links.protocols.size() == 2);
  CHECK(options.request.links.protocols[0][1].size == 16);
  const Strategy sharded = *parse_strategy("GGG");
  double before_s = 0;
  for (const uint32_t nodes : {2U, 16U, 128U}) {
    texts.nodes = std::to_string(nodes);
    texts.global_batch = std::to_string(32 * nodes);
    const double step_s = figures_of(sharded, understood(texts).request)->time.step_s;
    CHECK(step_s > before_s);
    before_s = step_s;
  }
  texts.instance = "p5.48xlarge";
  texts.gpu.reset();
  texts.network.reset();
  CHECK(understood(texts).nccl_network == "efa");
  texts.world_algorithm = "ho_ring";
  CHECK(understood(texts).request.links.protocols.empty());
}

TEST_CASE("whose collectives a job runs is given, or assumed and said so") {
  PlanTexts texts = test::plan_by_numbers();
  CHECK(assumes(understood(texts), "HO-Ring's collectives, not NCCL's: give --collectives"));
  texts.collectives = "nccl";
  const PlanOptions nccl = understood(texts);
  CHECK(nccl.request.links.world == WorldAlgorithm::kMultiRing);
  CHECK(nccl.request.links.protocols.size() == 2);
  CHECK_FALSE(assumes(nccl, "collectives"));
  CHECK(assumes(nccl, "nvlink inside nodes: give --gpu, or --cluster with levels"));
  CHECK(assumes(nccl, "infiniband between nodes: give --instance"));
  texts.gpu = "a100-80";  // it has its links
  CHECK_FALSE(assumes(understood(texts), "inside nodes: give"));
  texts = plan_by_names();
  texts.collectives = "horing";
  const PlanOptions own = understood(texts);
  CHECK(own.request.links.world == WorldAlgorithm::kHoRing);
  CHECK(own.request.links.protocols.empty());
  CHECK_FALSE(assumes(own, "collectives"));
  CHECK(nlohmann::json::parse(
            json_text({own, *recommend(own.request), {}}))["request"]["collectives"] == "horing");
  check_refused(texts,
                {{&PlanTexts::collectives, "rccl", "--collectives rccl: is not known"},
                 {&PlanTexts::world_algorithm,
                  "ring",
                  "--world-algorithm ring beside --collectives horing"}});
}

TEST_CASE("a step has tokens per second and an MFU where they are known") {
  PlanTexts texts = plan_by_names();
  const PlanOptions options = understood(texts);
  const double compute_s = options.request.compute_s;
  CHECK(*options.tokens_per_s(compute_s) == Approx(4 * 8192 / compute_s));
  // Nothing but computation has the MFU that computing was assumed to have.
  CHECK(*options.mfu(compute_s) == Approx(0.46));
  CHECK(*options.mfu(2 * compute_s) == Approx(0.23));
  texts.recompute = "full";
  const PlanOptions again = understood(texts);
  CHECK(*again.mfu(again.request.compute_s) < 0.46);
  texts.mfu = "0.3";
  const PlanOptions reported = understood(texts);
  CHECK(*reported.mfu(reported.request.compute_s) == Approx(0.3));
  texts = test::plan_by_numbers();
  CHECK_FALSE(understood(texts).tokens_per_s(1));  // nothing is computed
  texts.compute_time = "2s";
  CHECK(*understood(texts).tokens_per_s(4) == 2048.0 / 4);
  CHECK_FALSE(understood(texts).mfu(4));
  texts.model = "params=7e9,layers=32";
  CHECK_FALSE(understood(texts).tokens_per_s(4));
}

TEST_CASE("ranks that share a replica of the model share its tokens") {
  PlanTexts texts = plan_by_names();
  texts.micro_batch = "1";
  const double alone = understood(texts).tokens_per_rank();
  texts.tensor = "2";
  texts.pipeline = "4";
  const PlanOptions shared = understood(texts);
  // An eighth as many replicas have eight times the sequences each.
  CHECK(shared.tokens_per_rank() == alone);
  CHECK(*shared.mfu(shared.request.compute_s) < 0.46);  // the bubble, and what waits
  CHECK(*shared.mfu(shared.request.compute_s) > 0.3);
}

TEST_CASE("a network that is given counts before an instance's and a file's, numbers before it") {
  PlanTexts texts = plan_by_names();
  texts.network = "4x100Gbit";
  texts.nics = "2";
  CHECK(understood(texts).request.links.nics_per_group == 2);
  CHECK(understood(texts).request.links.inter_bytes_per_s == 12.5e9);
  texts.inter = "50Gbit";
  CHECK(understand(texts).status().message() ==
        "--network beside --inter and --nics, which say the same: leave it out");
}

TEST_CASE("a time of computation takes no MFU, and activations have the width of their type") {
  PlanTexts texts = plan_by_names();
  const double bf16 = understood(texts).request.activations_of_sequence;
  texts.compute_time = "4s";
  const PlanOptions options = understood(texts);
  REQUIRE_FALSE(options.request.assumed.empty());
  CHECK_FALSE(assumes(options, "MFU"));
  texts.precision = "fp32";
  const double fp32 = understood(texts).request.activations_of_sequence;
  CHECK(fp32 > 1.8 * bf16);
  CHECK(fp32 < 2 * bf16);
}

TEST_CASE("units are the embedding, the layers and the head") {
  const PlannerRequest request = understood(plan_by_names()).request;
  const double matrix = 128256.0 * 4096;
  REQUIRE(request.units.size() == 34);
  CHECK(request.units[0].parameters == matrix);
  CHECK(request.units[0].work == 0);
  CHECK(request.units[33].parameters == matrix + 4096);
  double parameters = 0;
  double work = 0;
  for (const UnitSize& unit : request.units) {
    CHECK(unit.trainable == unit.parameters);
    parameters += unit.parameters;
    work += unit.work;
  }
  CHECK(parameters == Approx(request.model.parameters));
  CHECK(work == Approx(request.model.parameters));
  // Gathered are the head and a layer beside it.
  const auto all = recommend(request);
  REQUIRE(all.ok());
  CHECK(all->figures.back().memory.gathered ==
        Approx(2 * (matrix + 4096 + request.units[32].parameters)));
  PlanTexts tied = plan_by_names();
  tied.model = "gpt2";
  tied.sequence = "1024";
  const PlannerRequest small = understood(tied).request;
  REQUIRE(small.units.size() == 14);
  CHECK(small.units[0].parameters == 50257.0 * 768);
  CHECK(small.units[13].parameters == 50257.0 * 768);
  parameters = 0;
  for (size_t at = 0; at + 1 < small.units.size(); ++at) {
    parameters += small.units[at].parameters;
  }
  CHECK(parameters == Approx(124439808));
}

TEST_CASE("what is given is not assumed, and counts") {
  PlanTexts texts = plan_by_names();
  const PlanOptions before = understood(texts);
  for (const char* what : {"8 GPUs a node",
                           "links inside a node",
                           "precision bf16",
                           "optimizer adamw",
                           "an MFU of 0.46",
                           "activations of",
                           "of hidden communication 0.68 comes back",
                           "NCCL's collectives, as PyTorch has them: give --collectives",
                           "infiniband between nodes",
                           "1 layer gathered ahead: give --prefetch",
                           "no time of the optimizer's update: give --update-time",
                           "no recomputation: give --recompute",
                           "of memory for the context"}) {
    INFO(what);
    CHECK(assumes(before, what));
  }
  CHECK_FALSE(assumes(before, "tokens"));
  texts.gpu = "h100-sxm";
  texts.ranks_per_node = "4";
  texts.intra = "300GB";
  texts.precision = "fp8";
  texts.optimizer = "sgd";
  texts.mfu = "0.5";
  texts.activations = "1GB";
  texts.memory = "64GB";
  texts.effects = "0,0,0s";
  texts.world_algorithm = "ho_ring";
  texts.prefetch = "1";
  texts.update_time = "0s";
  texts.recompute = "none";
  const PlanOptions after = understood(texts);
  CHECK(after.request.assumed.size() == 1);
  CHECK(assumes(after, "of memory for the context"));
  CHECK(after.request.world.group_size == 4);
  CHECK(after.request.links.intra_bytes_per_s == 300e9);
  CHECK(after.request.bytes.optimizer == 4);
  CHECK(after.request.activations_of_sequence == 1e9);
  CHECK(after.request.memory_bytes == 64e9);
  // Twice the ranks a node, half the GPUs; twice the peak.
  CHECK(after.request.compute_s ==
        Approx(before.request.compute_s * 2 * 0.46 * 989.4 / (0.5 * 1978.9)));
  texts.compute_time = "3s";
  texts.bytes = "2,2,12";
  texts.recompute.reset();  // neither computation nor activations are of it
  CHECK(understood(texts).request.compute_s == 3);
  CHECK_FALSE(assumes(understood(texts), "recomputation"));
  CHECK(understood(texts).request.bytes.optimizer == 12);
}

TEST_CASE("a GPU's name that means several, and bytes beside a precision, are told") {
  PlanTexts texts = plan_by_names();
  CHECK(assumes(understood(texts),
                "GPU h100-sxm, of h100-sxm, h100-pcie, h100-nvl: give --gpu by its whole name"));
  texts.gpu = "h100-sxm";
  CHECK_FALSE(assumes(understood(texts), "by its whole name"));
  texts.bytes = "2,2,12";
  texts.precision = "fp32";
  CHECK(assumes(understood(texts), "--bytes 2,2,12 counts, not the 4,4,8 of --precision"));
  texts.precision = "bf16";
  CHECK_FALSE(assumes(understood(texts), "counts, not"));
  texts = test::plan_by_numbers();
  texts.bytes = "2,2,12";
  texts.optimizer = "sgd";
  CHECK(assumes(understood(texts), "--bytes 2,2,12 counts, not the 2,2,4 of --optimizer"));
  CHECK(understood(texts).request.bytes.optimizer == 12);
}

TEST_CASE("an A100's default MFU plans the steps that it comes from") {
  // MPT 1B and 3B on 8 of them, tokens/s of a GPU: tools/cli/paro/validation/tables/
  // llm-foundry-a100-40.json.
  struct Row {
    const char* shape;
    const char* micro_batch;
    double tokens_per_s;
  };
  const ho::test::TemporaryFolder folder;
  for (const Row& row : {Row{R"("n_embd": 2048, "n_head": 16, "n_layer": 24)", "8", 19271},
                         Row{R"("n_embd": 2560, "n_head": 20, "n_layer": 32)", "5", 10065}}) {
    PlanTexts texts;
    texts.model = folder.path("config.json");
    std::ofstream(*texts.model) << R"({"model_type": "gpt2", "n_positions": 2048, )" << row.shape
                                << R"(, "vocab_size": 50368})";
    texts.gpu = "a100-40";
    texts.nodes = "1";
    texts.micro_batch = row.micro_batch;
    texts.accumulation = "8";
    const PlanOptions options = understood(texts);
    const auto figures = figures_of(*parse_strategy("GGG"), options.request);
    REQUIRE(figures.ok());
    CHECK(*options.tokens_per_s(figures->time.step_s) == Approx(row.tokens_per_s).epsilon(0.04));
  }
}

TEST_CASE("what does not count, or cannot be of the machine or the model, is told") {
  PlanTexts texts = plan_by_names();
  texts.mfu = "0.4";
  texts.compute_time = "4s";
  texts.sequence = "16384";
  const PlanOptions beside = understood(texts);
  CHECK(assumes(beside, "--compute-time 4s counts, not --mfu"));
  CHECK(assumes(beside, "sequences of 16384 tokens, though the model has 8192 positions: give"));
  CHECK_FALSE(assumes(understood(plan_by_names()), "though"));
  texts = plan_by_names();
  texts.nodes = "1";
  texts.inter_call = "1us";
  const PlanOptions alone = understood(texts);
  CHECK(assumes(alone, "nothing between nodes, of which there is one: --network does not count"));
  CHECK(assumes(alone, "--inter-call does not count"));
  texts = plan_by_names();
  texts.gpu.reset();
  texts.instance = "p5.48xlarge";
  texts.ranks_per_node = "16";
  CHECK(assumes(understood(texts), "16 ranks a node, though p5.48xlarge has 8 GPUs"));
}

TEST_CASE("adapters are beside the model's parameters, and they alone are trained") {
  PlanTexts texts = plan_by_names();
  texts.model = "llama-3-8b,adapters=4e7";
  const PlanOptions lora = understood(texts);
  CHECK(lora.request.model.parameters == 8030261248 + 4e7);
  CHECK(lora.request.model.trainable == 4e7);
  double trained = 0;
  for (const UnitSize& unit : lora.request.units) {
    trained += unit.trainable;
  }
  CHECK(trained == Approx(4e7));
  // Forward and backward of frozen matrices, and three passes of the adapters.
  texts.model = "llama-3-8b,trainable=1";
  const PlanOptions frozen = understood(texts);
  CHECK(lora.steps.flops_of_token - frozen.steps.flops_of_token == Approx(6 * 4e7).epsilon(1e-6));
  texts.tensor = "2";
  texts.model = "llama-3-8b,adapters=4e7";
  CHECK(understood(texts).request.model.trainable == Approx(2e7).epsilon(0.01));
  texts.model = "llama-3-8b,adapters=4e7,trainable=4e7";
  CHECK(understand(texts).status().message().find("adapters beside trainable") !=
        std::string::npos);
}

TEST_CASE("without a computation time nothing is known of computing anew") {
  PlanTexts texts = plan_by_names();
  CHECK_FALSE(understood(texts).request.recomputed.empty());
  texts.compute_time = "0s";
  CHECK(understood(texts).request.recomputed.empty());
}

TEST_CASE("a machine has GPUs and NICs") {
  PlanTexts texts = plan_by_names();
  texts.gpu.reset();
  texts.network.reset();
  texts.instance = "p4d";
  const PlanOptions options = understood(texts);
  CHECK(options.request.memory_bytes == 40e9);
  CHECK(options.request.links.nics_per_group == 4);
  CHECK(options.request.links.inter_bytes_per_s == 100 * kGigabit);
  CHECK(assumes(options, "4 NICs of 100 Gbit/s a node, the peak of p4d.24xlarge's EFA"));
  texts.network = "2x50Gbit";
  CHECK(understood(texts).request.links.nics_per_group == 2);
}

TEST_CASE("other dimensions leave data parallelism its ranks, NICs and parameters") {
  PlanTexts texts = plan_by_names();
  texts.tensor = "2";
  texts.pipeline = "4";
  const PlanOptions options = understood(texts);
  CHECK(options.request.world.group_count == 4);
  CHECK(options.request.world.group_size == 4);
  CHECK(options.request.links.nics_per_group == 4);
  CHECK(options.request.layers == 8);
  CHECK(options.request.model.parameters < 8030261248.0 / 8 * 1.3);
  CHECK(options.request.micro_batches == 32);
  CHECK(options.steps.bubble == Approx(3.0 / 32));
  REQUIRE(options.steps.traffic.size() == 2);
  PlanTexts routed = plan_by_names();
  routed.model = "mixtral-8x7b";
  routed.expert = "8";
  routed.recompute = "full";
  const auto all = recommend(understood(routed).request);
  REQUIRE(all.ok());
  // Of GGG, dense parameters over all ranks and experts over those that hold the same ones.
  const StateBytes& states = all->figures.back().memory.states;
  CHECK(states.parameters == Approx(2 * (1605636096.0 / 128 + 45097156608.0 / 8 / 16)));
}

TEST_CASE("a model's file, and the folder that it is in") {
  const ho::test::TemporaryFolder folder;
  const std::string path = folder.path("config.json");
  std::ofstream(path) << R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,)"
                      << R"("vocab_size":50257,"n_positions":1024})";
  PlanTexts texts = plan_by_names();
  texts.sequence.reset();
  for (const std::string& model : {path, folder.root().string()}) {
    texts.model = model;
    const PlanOptions options = understood(texts);
    CHECK(options.request.model.parameters == 124439808);
    CHECK(options.request.sharing_units == 1);
    CHECK(options.request.model.shared == 50257.0 * 768);
    CHECK(assumes(options, "sequences of 1024 tokens"));
  }
  // A folder's name needs no slash.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.root().parent_path());
  texts.model = folder.root().filename().string();
  CHECK(understand(texts).ok());
  std::filesystem::current_path(before);
  // A path may have any bytes; JSON may not.
  const std::filesystem::path other = folder.root() / "\xff";
  std::filesystem::create_directory(other);
  std::filesystem::copy(path, other);
  texts.model = other.string();
  const PlanOptions named = understood(texts);
  const std::string answer = json_text({named, *recommend(named.request), {}});
  CHECK(nlohmann::json::parse(answer)["request"]["model"].get<std::string>().ends_with("\uFFFD"));
  texts.model = path;
  std::ofstream(path) << "{";
  const std::string message = understand(texts).status().message();
  CHECK(message.find("config.json: is not JSON") != std::string::npos);
}

TEST_CASE("more recomputation than the job's is known to the request") {
  PlanTexts texts = plan_by_names();
  const PlannerRequest none = understood(texts).request;
  REQUIRE(none.recomputed.size() == 2);
  CHECK(none.recomputed[0].name == "selective");
  CHECK(none.recomputed[1].name == "full");
  // As if it had been asked for, at the same rate of computation.
  texts.recompute = "full";
  const PlannerRequest full = understood(texts).request;
  CHECK(full.recomputed.empty());
  CHECK(none.recomputed[1].activations_of_sequence == Approx(full.activations_of_sequence));
  CHECK(none.recomputed[1].activation_bytes == Approx(full.activation_bytes));
  CHECK(none.recomputed[1].forward_share == Approx(full.forward_share));
  CHECK(none.recomputed[1].compute_s == Approx(full.compute_s));
  texts.recompute.reset();
  texts.mfu = "0.4";  // given: the same rate for what is computed again
  const PlannerRequest at_rate = understood(texts).request;
  CHECK(at_rate.recomputed[1].compute_s > 1.2 * at_rate.compute_s);
  CHECK(at_rate.recomputed[1].compute_s < 4.0 / 3 * at_rate.compute_s);
  CHECK((at_rate.recomputed[1].at_reported_rate && !none.recomputed[1].at_reported_rate));
  CHECK((full.all_recomputed && !none.all_recomputed));
  texts = plan_by_names();
  texts.activations = "10GB";  // measured: nothing is known of what would be left
  CHECK(understood(texts).request.recomputed.empty());
}

TEST_CASE("a GPU beside a model of numbers has its links and its reserve too") {
  PlanTexts texts = plan_by_names();
  texts.global_batch.reset();
  texts.model = "params=8e9,layers=32";
  texts.compute_time = "3s";
  CHECK(understood(texts).request.reserve_bytes == Approx(4.8e9));
  texts.intra = "450GB";
  const auto latency = [&] {
    return understood(texts).request.links.protocols.front().front().latency_s;
  };
  texts.gpu = "h100-sxm";
  const double nvlink = latency();
  texts.gpu = "h100-pcie";
  CHECK(latency() == ho::cost::find_network("pcie")->latency_s);
  CHECK(latency() > nvlink);
}

TEST_CASE("numbers beside a name that has others are told to count") {
  PlanTexts texts = plan_by_names();
  CHECK_FALSE(assumes(understood(texts), "counts, not that of"));
  texts.inter = "100Gbit";
  texts.memory = "100GB";
  const PlanOptions options = understood(texts);
  CHECK(options.request.links.inter_bytes_per_s == 12.5e9);
  CHECK(assumes(options, "--inter 100Gbit counts, not that of --network 8x400Gbit"));
  CHECK(assumes(options, "100 GB of memory, though h100-sxm has 80 GB: give --memory"));
}

TEST_CASE("an MFU of no GPU is told not to count") {
  PlanTexts texts = test::plan_by_numbers();
  texts.mfu = "0.4";
  CHECK(assumes(understood(texts), "--mfu 0.4 does not count, of a peak that is not known"));
  texts.compute_time = "3s";
  CHECK(assumes(understood(texts), "--compute-time 3s counts, not --mfu"));
  texts.compute_time.reset();
  texts.gpu = "h100";
  CHECK_FALSE(assumes(understood(texts), "--mfu 0.4"));
}

TEST_CASE("assumptions are in JSON") {
  const PlanOptions options = understood(plan_by_names());
  const Report report{options, *recommend(options.request), {}};
  const auto json = nlohmann::json::parse(json_text(report));
  CHECK(json["assumed"].size() == options.request.assumed.size());
  CHECK(json["parallelism"].is_null());
  CHECK(json["strategies"][0]["memory_bytes"]["reserve"] == 4.8e9);
}

TEST_CASE("a model that cannot be read is told with what is near, and a folder with its file") {
  const ho::test::TemporaryFolder folder;
  PlanTexts texts = plan_by_names();
  texts.model = "meta-llama/Meta-Llama-3-8B";
  const std::string message = understand(texts).status().message();
  CHECK(message.find("--model meta-llama/Meta-Llama-3-8B: cannot be read (") == 0);
  CHECK(message.find("); near it: ") != std::string::npos);
  CHECK(message.find("llama-3-8b") != std::string::npos);
  texts.model = folder.path(".");
  CHECK(understand(texts).status().message().find(": its config.json cannot be read (") !=
        std::string::npos);
}

TEST_CASE("names and numbers that cannot be are one line") {
  check_refused(
      plan_by_names(),
      {{&PlanTexts::gpu, "h10", "--gpu h10: is not known; near it: h100-sxm"},
       {&PlanTexts::instance, "p5", "--gpu beside --instance"},
       {&PlanTexts::network,
        "8x",
        "--network '8x': takes how many NICs a node has, from 1 to 16777216, and the rate of each"},
       {&PlanTexts::network, "8x400", "--network '8x400': takes how many NICs"},
       {&PlanTexts::network, "0x1Gbit", "--network '0x1Gbit': takes how many NICs"},
       {&PlanTexts::network, "ax1Gbit", "--network 'ax1Gbit': takes how many NICs"},
       {&PlanTexts::network, "8x0Gbit", "--network '8x0Gbit': takes how many NICs"},
       {&PlanTexts::network, "8x1e300GB", "--network '8x1e300GB': takes how many NICs"},
       {&PlanTexts::gpu, "h1000", "--gpu h1000: is not known; near it: h100-sxm"},
       {&PlanTexts::global_batch, "500", "--global-batch 500: does not divide among 128 ranks"},
       {&PlanTexts::accumulation, "2", "--global-batch chooses the accumulation"},
       {&PlanTexts::micro_batch, "3", "--micro-batch 3: does not divide the 4 sequences"},
       {&PlanTexts::mfu, "1.1", "--mfu '1.1': takes a number from 0 to 1"},
       {&PlanTexts::mfu, "0", "--mfu '0': takes a share from 0.0001 to 1"},
       {&PlanTexts::mfu, "1e-12", "--mfu '1e-12': takes a share from 0.0001 to 1"},
       {&PlanTexts::sequence, "4294967295", "--sequence 4294967295 and --mfu make a step of"},
       {&PlanTexts::global_batch,
        "16777217",
        "--global-batch '16777217': takes a whole number from 1 to 16777216"},
       {&PlanTexts::bytes, "1e30,2,12", "--bytes '1e30': takes a number from 0 to 1e+18"},
       {&PlanTexts::recompute,
        "some",
        "--recompute some: is not known; takes none, selective, full"},
       {&PlanTexts::optimizer, "adam", "--optimizer adam: is not known; near it: adamw"},
       {&PlanTexts::precision, "bf61", "--precision bf61: is not known"},
       {&PlanTexts::tensor, "16", "--tp 16: is more than the 8 ranks of a node"},
       {&PlanTexts::tensor, "70000", "--tp '70000': takes a whole number from 1 to 65536"},
       {&PlanTexts::pipeline, "3", "--tp x --pp x --cp of 3: does not divide the 128 ranks"},
       {&PlanTexts::expert, "2", "--ep 2: the model has no routed experts"},
       {&PlanTexts::context, "3", "--tp 1 --cp 3"},
       {&PlanTexts::model,
        "params=7e9,layers=32",
        "--global-batch takes a model of which the shapes"},
       {&PlanTexts::model,
        "lama-3-8b",
        "--model lama-3-8b: 'lama-3-8b' is not known; near it: llama-3-8b"},
       {&PlanTexts::model, "/no/such.json", "--model /no/such.json: cannot be read"},
       {&PlanTexts::nodes, "0", "--nodes '0': takes a whole number from 1 to 16777216"},
       {&PlanTexts::nodes, "4000000000", "--nodes '4000000000': takes a whole number from 1 to"},
       {&PlanTexts::nodes,
        "16000000",
        "--nodes 16000000 of 8 ranks: takes at most 16777216 ranks in all"},
       {&PlanTexts::prefetch, "1000", "--prefetch '1000': takes a whole number from 0 to 32"},
       {&PlanTexts::memory, "1e30GB", "--memory '1e30GB': takes 0 to 1e+18 bytes"},
       {&PlanTexts::activations, "1e300GB", "--activations '1e300GB': takes 0 to 1e+18 bytes"},
       {&PlanTexts::effects, "9,0,0s", "--effects '9': takes a number from 0 to 1"},
       {&PlanTexts::effects, "0,0,1e9h", "--effects '1e9h': takes 0 to 1000000000 seconds"},
       {&PlanTexts::intra, "1e300GB", "--intra '1e300GB': takes 1 to 1e+18 bytes per second"},
       {&PlanTexts::compute_time, "1e9h", "--compute-time '1e9h': takes 0 to"},
       {&PlanTexts::model,
        "llama-3-8b,trainable=9e9",
        "--model llama-3-8b,trainable=9e9: trainable is more than the 8030261248 parameters"},
       {&PlanTexts::model,
        "params=1e20,layers=2",
        "--model params=1e20,layers=2: takes 1 to 1000000000000000 parameters"},
       {&PlanTexts::model,
        "params=1e9,layers=2000",
        "--model params=1e9,layers=2000: takes 1 to 10"}});
}

}  // namespace paro
