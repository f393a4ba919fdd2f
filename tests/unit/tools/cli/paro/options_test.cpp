#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "caught_stderr.hpp"
#include "cli/paro/plan_arguments.hpp"
#include "plan_requests.hpp"
#include "temporary_folder.hpp"

namespace paro::tool {
namespace {

using test::check_refused;
using test::plan_by_numbers;

ho::Parsed<PlanArguments> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "plan");
  return parse_plan_arguments(static_cast<int>(words.size()), words.data());
}

// The status that a command line ends with, and what is said of it.
std::pair<int, std::string> refused(const std::vector<const char*>& words) {
  ho::test::CaughtStderr caught;
  const auto parsed = parse(words);
  return {parsed.exit_status.value_or(0), caught.end()};
}

}  // namespace

TEST_CASE("every option of the command line is in the request") {
  const auto parsed = parse({"--model=llama-65b",
                             "--nodes",
                             "4",
                             "--ranks-per-node",
                             "8",
                             "--memory",
                             "80GB",
                             "--intra",
                             "2000Gbit",
                             "--inter",
                             "80Gbit",
                             "--nics",
                             "8",
                             "--micro-batch",
                             "4",
                             "--accumulation",
                             "10",
                             "--compute-time",
                             "54s",
                             "--no-overlap",
                             "--update-time",
                             "80ms",
                             "--activations",
                             "5GiB",
                             "--intra-call",
                             "20us",
                             "--inter-call",
                             "0.1ms",
                             "--world-call",
                             "1ms",
                             "--world-algorithm",
                             "ring",
                             "--prefetch",
                             "2",
                             "--sequence",
                             "512",
                             "--bytes",
                             "4,4,8",
                             "--price",
                             "2",
                             "--json"});
  REQUIRE_FALSE(parsed.exit_status.has_value());
  const PlanOptions& options = parsed.options.plan;
  CHECK(options.request.model.parameters == 65e9);
  CHECK(options.request.layers == 80);
  CHECK(options.request.bytes.parameter == 4);
  CHECK(options.request.bytes.optimizer == 8);
  CHECK(options.request.world.ranks() == 32);
  CHECK(options.request.links.nics_per_group == 8);
  CHECK(options.request.links.intra_call_s == Approx(20e-6));
  CHECK(options.request.links.inter_call_s == Approx(100e-6));
  CHECK(options.request.links.world_call_s == Approx(1e-3));
  CHECK(options.request.links.world == WorldAlgorithm::kRing);
  CHECK(options.request.micro_batches == 10);
  CHECK(options.request.compute_s == 54);
  CHECK(options.request.update_s == Approx(0.08));
  CHECK_FALSE(options.request.overlap);
  CHECK(options.request.activation_bytes == 5.0 * 1024 * 1024 * 1024);
  CHECK(options.request.prefetch == 2);
  CHECK(options.tokens_per_rank() == 4.0 * 512 * 10);
  REQUIRE(options.prices.has_value());
  CHECK(options.prices->per_rank_hour == 2);
  CHECK(parsed.options.json);
  CHECK_FALSE(options.measure);
}

TEST_CASE("help and wrong options end a command line at once") {
  CHECK(parse({"--help"}).exit_status == 0);
  CHECK(parse({"--modell", "x"}).exit_status == 2);
  CHECK(parse({"--model"}).exit_status == 2);
  CHECK(parse({"--model", "llama-7b"}).exit_status == 2);
  CHECK(parse({"surplus"}).exit_status == 2);
}

TEST_CASE("how a plan is printed") {
  const std::vector<const char*> plan{"--model=llama-7b", "--nodes=1", "--ranks-per-node=1"};
  const auto with = [&](std::vector<const char*> more) {
    more.insert(more.begin(), plan.begin(), plan.end());
    return parse(std::move(more));
  };
  CHECK_FALSE(with({}).options.verbose);
  CHECK(with({"--verbose"}).options.verbose);
  CHECK(with({"--csv", "file"}).options.csv == "file");
  CHECK(with({"--csv", "-"}).options.csv == "-");
  CHECK(with({"--csv", "-", "--json"}).exit_status == 2);
  const auto sweep = with({"--sweep", "memory=40GB,80GB"});
  REQUIRE(sweep.options.sweep);
  CHECK(sweep.options.sweep->sweep == "memory=40GB,80GB");
}

TEST_CASE("options that would not count are refused by name") {
  const std::vector<const char*> plan{"--model=llama-7b", "--nodes=1", "--ranks-per-node=1"};
  struct Case {
    std::vector<const char*> more;
    const char* message;
  };
  const std::vector<Case> cases{
      {{"--nodes", "4"}, "--nodes is given 2 times (1, 4): give it once"},
      {{"--sweep", "nodes=1", "--sweep", "nics=1"}, "--sweep is given 2 times (nodes=1, nics=1)"},
      {{"--csv", "a", "--csv", "b"}, "--csv is given 2 times (a, b)"},
      {{"--gpu"}, "--gpu takes NAME behind it"},
      {{"junk"}, "'junk' is no option, nor the value of one; paro plan --help"},
      {{"--modell", "x"}, "'--modell' is no option, nor the value of one; near it: --model"},
      {{"--validate"}, "--model beside --validate: it takes no other option than --json"},
      {{"--fit"}, "--model beside --fit: it takes no other option than --json"},
      {{"--names"}, "--model beside --names: it takes no other option"},
      {{"--sweep", "nodes=1,2", "--verbose"}, "--verbose beside --sweep"},
      {{"--sweep", "nodes=1,2", "--export-to", "x.py"}, "--export-to takes --export beside it"},
      {{"--write", "c.json"}, "--write takes --measure beside it"},
  };
  for (const Case& each : cases) {
    std::vector<const char*> words = plan;
    words.insert(words.end(), each.more.begin(), each.more.end());
    INFO(each.message);
    const auto [status, text] = refused(words);
    INFO(text);
    CHECK(status == 2);
    CHECK(text.find(std::string("paro plan: ") + each.message) == 0);
  }
  CHECK(refused({"--validate", "--csv", "v.csv"}).second ==
        "paro plan: --csv beside --validate: it takes no other option than --json\n");
  CHECK(refused({"--validate", "--fit"}).first == 2);
}

TEST_CASE("world algorithms are known by name") {
  PlanTexts texts = plan_by_numbers();
  for (const WorldAlgorithm algorithm :
       {WorldAlgorithm::kRing, WorldAlgorithm::kMultiRing, WorldAlgorithm::kHoRing}) {
    texts.world_algorithm = std::string(to_string(algorithm));
    const auto options = understand(texts);
    REQUIRE(options.ok());
    CHECK(options->request.links.world == algorithm);
  }
}

TEST_CASE("what is left out has its default") {
  const auto options = understand(plan_by_numbers());
  REQUIRE(options.ok());
  CHECK(options->request.micro_batches == 1);
  CHECK(options->request.compute_s == 0);
  CHECK(options->request.links.nics_per_group == 1);
  CHECK(options->request.links.world == WorldAlgorithm::kHoRing);
  CHECK(options->request.bytes.optimizer == 12);
  CHECK_FALSE(options->prices.has_value());
}

TEST_CASE("a call over all ranks takes what the longer of the others does unless given") {
  struct Calls {
    PlanTexts::Text intra;
    PlanTexts::Text inter;
    PlanTexts::Text world;
    double seconds;
  };
  const std::vector<Calls> cases{{"20us", "100us", std::nullopt, 100e-6},
                                 {"200us", "100us", std::nullopt, 200e-6},
                                 {"20us", std::nullopt, std::nullopt, 20e-6},
                                 {std::nullopt, "100us", std::nullopt, 100e-6},
                                 {"20us", "100us", "0us", 0},
                                 {std::nullopt, std::nullopt, std::nullopt, 0}};
  for (const Calls& each : cases) {
    PlanTexts texts = plan_by_numbers();
    texts.intra_call = each.intra;
    texts.inter_call = each.inter;
    texts.world_call = each.world;
    const auto options = understand(texts);
    REQUIRE(options.ok());
    CHECK(options->request.links.world_call_s == Approx(each.seconds));
  }
}

TEST_CASE("what comes on top of the critical path is given, or known of GPUs") {
  PlanTexts texts = plan_by_numbers();
  CHECK(understand(texts)->request.effects.slowdown == 0);
  texts.effects = "gpu";
  CHECK(understand(texts)->request.effects.slowdown == kGpuEffects.slowdown);
  texts.effects = "0.5,0.01,5us";
  const Effects effects = understand(texts)->request.effects;
  CHECK(effects.slowdown == 0.5);
  CHECK(effects.jitter == 0.01);
  CHECK(effects.launch_s == Approx(5e-6));
  texts.effects = "0.5";
  CHECK(understand(texts).status().message() ==
        "--effects 0.5: takes gpu, or two shares and a time, as 0.6,0.02,7us");
}

TEST_CASE("what a cluster file has of the slowdown counts, but for --effects") {
  const ho::test::TemporaryFolder folder;
  PlanTexts texts = plan_by_numbers();
  texts.cluster = folder.path("cluster.json");
  std::ofstream(*texts.cluster) << R"({"slowdown": 0.25})";
  CHECK(understand(texts)->request.effects.slowdown == 0.25);
  texts.gpu = "h100";
  const PlanOptions of_gpu = test::understood(texts);
  CHECK(of_gpu.request.effects.slowdown == 0.25);
  CHECK(of_gpu.request.effects.jitter == kGpuEffects.jitter);
  CHECK(test::assumes(of_gpu, "jitter 0.026, as on GPUs: give --effects"));
  CHECK_FALSE(test::assumes(of_gpu, "comes back"));  // it is given
  texts.effects = "0.5,0.01,5us";
  CHECK(understand(texts)->request.effects.slowdown == 0.5);
}

TEST_CASE("proof takes neither a model nor a cluster") {
  const auto validates = parse({"--validate", "--json"});
  CHECK_FALSE(validates.exit_status);
  CHECK(validates.options.validate);
  CHECK(validates.options.json);
  CHECK(parse({"--fit"}).options.fit);
}

TEST_CASE("an exported program has the command as a shell takes it") {
  std::vector<const char*> words{"--model", "params=7e9,layers=32", "--nodes", "1"};
  words.insert(words.end(), {"--ranks-per-node", "1", "--export", "fsdp2", "--strategy", "it's"});
  CHECK(parse(words).exit_status == 2);
  words.back() = "GGG";
  words.insert(words.end(), {"--export-to", "it's.py"});
  const auto parsed = parse(words);
  REQUIRE_FALSE(parsed.exit_status.has_value());
  CHECK(parsed.options.plan.command ==
        "paro plan --model params=7e9,layers=32 --nodes 1 --ranks-per-node 1 --export fsdp2 "
        "--strategy GGG --export-to 'it'\\''s.py'");
  CHECK(parsed.options.program_path == "it's.py");
  words = {"--model", "llama-7b", "--nodes", "1", "--ranks-per-node", "1", "--export-to", "x.py"};
  CHECK(parse(words).exit_status == 2);
}

TEST_CASE("arguments that cannot be are named") {
  check_refused(
      plan_by_numbers(),
      {{&PlanTexts::model, std::nullopt, "--model is missing"},
       {&PlanTexts::model, "gpt", "--model gpt: 'gpt' is not known"},
       {&PlanTexts::nodes, "0", "--nodes '0': takes a whole number from 1"},
       {&PlanTexts::nodes, "-4", "--nodes '-4': takes"},
       {&PlanTexts::memory, "-80GB", "--memory '-80GB': takes bytes"},
       {&PlanTexts::intra, "nan", "--intra 'nan': takes a rate"},
       {&PlanTexts::inter, std::nullopt, "--inter is missing"},
       {&PlanTexts::nics, "two", "--nics 'two': takes a number"},
       {&PlanTexts::world_algorithm,
        "tree",
        "--world-algorithm tree: takes ring, multi_ring, ho_ring"},
       {&PlanTexts::micro_batch, "0", "--micro-batch '0': takes"},
       {&PlanTexts::accumulation, "x", "--accumulation 'x': takes"},
       {&PlanTexts::compute_time, "-1s", "--compute-time '-1s': takes a time"},
       {&PlanTexts::compute_time, "5", "--compute-time '5': takes a time"},
       {&PlanTexts::activations, "1Gbit", "--activations '1Gbit': takes bytes"},
       {&PlanTexts::prefetch, "-1", "--prefetch '-1': takes"},
       {&PlanTexts::bytes, "2,2", "--bytes 2,2: takes three or four numbers"},
       {&PlanTexts::bytes, "2,2,12,1,1", "--bytes 2,2,12,1,1: takes three or four numbers"},
       {&PlanTexts::bytes, "2,x,12", "--bytes 'x': takes a number"},
       {&PlanTexts::bytes, "0,0,0", "--bytes 0,0,0: takes at least one number above 0"},
       {&PlanTexts::cluster, "/no/such", "--cluster /no/such: cannot be read"},
       {&PlanTexts::price, "-2", "--price '-2': takes a number"},
       {&PlanTexts::price, "1e308", "--price '1e308': takes a number from 0 to 1000000"},
       {&PlanTexts::price, "nan", "--price 'nan': takes a number"},
       {&PlanTexts::watts, "1e7", "--watts '1e7': takes a number from 0 to 1000000"},
       {&PlanTexts::intra_call, "3601s", "--intra-call '3601s': takes 0 to 3600 seconds"},
       {&PlanTexts::group_sizes,
        "4,",
        "--group-sizes '4,': takes whole numbers with a comma between each two, as 4,8,16, or all"},
       {&PlanTexts::group_sizes, "4,x", "--group-sizes 'x': takes a whole number"},
       {&PlanTexts::energy_price, "inf", "--energy-price 'inf': takes a number"},
       {&PlanTexts::energy_price, "0.3", "--energy-price takes --watts"}});
}

TEST_CASE("a refusal is one line, whatever was typed") {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"--model", "llama-7b", "--gpu", "h\x1b[31m100\nx", "--nodes", "4"},
           {"--model", "llama-7b", "--nodes", "4", "sur\nplus"},
           {"--model", "llama-7b", "--nodes", "4\n", "--nodes", "5"}}) {
    const auto [status, text] = refused(words);
    INFO(text);
    CHECK(status == 2);
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(text.find("\\x0a") != std::string::npos);
  }
}

TEST_CASE("a cluster is described or measured") {
  PlanTexts texts = plan_by_numbers();
  texts.measure = true;
  CHECK(understand(texts).status().message().find("--measure finds nodes") == 0);
  texts.nodes.reset();
  texts.ranks_per_node.reset();
  texts.intra.reset();
  texts.inter.reset();
  CHECK(understand(texts).ok());
  texts.measure = false;
  CHECK(understand(texts).status().message().find("the cluster is missing") == 0);
}

TEST_CASE("a cost takes the tokens of a sample") {
  PlanTexts texts = plan_by_numbers();
  texts.model = "params=7e9,layers=32";
  texts.watts = "400";
  CHECK(understand(texts).status().message().find("--sequence is missing") == 0);
  texts.sequence = "512";
  CHECK(understand(texts).ok());
}

}  // namespace paro::tool
