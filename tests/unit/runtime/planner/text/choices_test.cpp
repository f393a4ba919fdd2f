// What is recommended of a job by names, and with which micro-batch.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../requests.hpp"
#include "catch.hpp"
#include "plan_requests.hpp"
#include "planner/planner.hpp"
#include "planner/text/answer.hpp"

namespace paro {
namespace {

using test::plan_by_names;
using test::understood;

// 8B on a node of A100, 64 sequences of 4096.
PlanTexts node_of_a100() {
  PlanTexts texts;
  texts.model = "llama-3-8b";
  texts.gpu = "a100-80";
  texts.nodes = "1";
  texts.global_batch = "64";
  texts.sequence = "4096";
  return texts;
}

PlanTexts two_nodes_of_a100() {
  PlanTexts texts = node_of_a100();
  texts.nodes = "2";
  texts.network = "8x100Gbit";
  return texts;
}

}  // namespace

TEST_CASE("each strategy has the micro-batch that its memory is for") {
  PlanTexts texts = plan_by_names();
  texts.activations = "10GB";
  const auto all = recommend(understood(texts).request);
  REQUIRE(all.ok());
  for (const StrategyFigures& row : all->figures) {
    INFO(letters(row.strategy));
    const double of_micro_batch = 4.0 / row.micro_batches * 10e9;
    CHECK(row.memory.activations == of_micro_batch);
    const double others = row.memory.total() - of_micro_batch;
    // A larger one of those that divide would not have fitted, or is no faster and takes memory
    // that counts.
    const double with_larger = row.micro_batches > 1 ? others + 2 * of_micro_batch : 90e9;
    CHECK(with_larger > (kAmpleShare + kMemoryTieShare) * 80e9);
    if (with_larger <= 80e9) {
      CHECK(as_fast(all->fastest->figures.time.step_s, row.time.step_s));
    }
  }
  texts.micro_batch = "2";
  const PlanOptions fixed = understood(texts);
  CHECK(fixed.request.sequences == 0);
  CHECK(fixed.request.micro_batches == 2);
  CHECK(fixed.request.activation_bytes == 10e9);  // of such a micro-batch
}

TEST_CASE("what is as fast and smaller is recommended, not what hides more") {
  // The least that is hidden, NNG, fills 93 % of the memory.
  PlanTexts texts = two_nodes_of_a100();
  texts.global_batch.reset();
  texts.micro_batch = "8";
  texts.accumulation = "8";
  texts.recompute = "full";
  texts.activations = "14GB";
  const auto all = recommend(understood(texts).request);
  REQUIRE(all.ok());
  const auto row = [&](const char* name) { return row_of(*all, name); };
  CHECK(row("NNG").memory.total() / 80e9 == Approx(0.93).margin(0.005));
  CHECK(row("NNG").memory.total() - row("IIG").memory.total() == Approx(39.6e9).epsilon(0.01));
  CHECK(as_fast(row("NNG").time.step_s, row("IIG").time.step_s));
  CHECK(row("NNG").time.communication_s < row("IIG").time.communication_s / 4);
  CHECK(letters(all->recommended()->strategy) == "IGG");
  CHECK(letters(all->runner_up()->strategy) == "III");
  CHECK(letters(all->fastest->figures.strategy) == "NNG");
  CHECK(letters(all->simplest->figures.strategy) == "NGG");
  REQUIRE(all->reasons.size() == 2);
  CHECK(all->reasons[1].find("The runner-up III ") == 0);
  CHECK(all->reasons[1].find("; NNG is the fastest (97.5 s) but needs 74.1 GB.") !=
        std::string::npos);
}

TEST_CASE("a smaller micro-batch that is as fast leaves memory free") {
  const auto all = recommend(understood(node_of_a100()).request);
  REQUIRE(all.ok());
  const StrategyFigures& best = *all->recommended();
  CHECK(letters(best.strategy) == "NGG");
  CHECK(best.micro_batches == 8);
  CHECK(best.memory.total() < 60e9);
  // The fastest is told with its own micro-batch.
  REQUIRE((all->fastest && all->smallest));
  CHECK(all->fastest->figures.micro_batches == 4);
  CHECK(all->fastest->figures.memory.total() > 79e9);
  CHECK(as_fast(all->fastest->figures.time.step_s, best.time.step_s));
  CHECK(all->why().find("NGG with micro-batches of 2 is the fastest (") != std::string::npos);
  CHECK(all->smallest->figures.memory.total() == best.memory.total());
  const auto json = nlohmann::json::parse(json_text({understood(node_of_a100()), *all, {}}));
  CHECK(json["fastest_micro_batch"] == 2);
  CHECK(json["smallest_micro_batch"] == 1);
}

TEST_CASE("the smallest is so with any micro-batch that is as fast") {
  PlanTexts texts = two_nodes_of_a100();
  texts.global_batch = "256";
  texts.recompute = "full";
  texts.sequence = "8192";
  const auto open = recommend(understood(texts).request);
  REQUIRE(open.ok());
  for (const char* const micro_batch : {"1", "2", "4", "8"}) {
    texts.micro_batch = micro_batch;
    const auto fixed = recommend(understood(texts).request);
    REQUIRE(fixed.ok());
    for (const StrategyFigures& row : fixed->figures) {
      if (row.fits()) {
        INFO(letters(row.strategy) << " " << micro_batch);
        CHECK(open->fastest->figures.time.step_s <= row.time.step_s * (1 + 1e-9));
        if (as_fast(open->fastest->figures.time.step_s, row.time.step_s)) {
          CHECK(open->smallest->figures.memory.total() <= row.memory.total());
        }
      }
    }
  }
}

TEST_CASE("a step changes little where collectives over all ranks begin to wait inside nodes") {
  PlanTexts texts = test::plan_by_numbers();
  texts.nodes = "2";
  texts.ranks_per_node = "16";
  texts.intra = "3600Gbit";
  texts.nics = "8";
  texts.accumulation = "2";
  texts.compute_time = "300ms";
  texts.prefetch = "0";
  std::vector<StrategyFigures> before;
  for (int gigabits = 200; gigabits <= 300; gigabits += 5) {
    texts.inter = std::to_string(gigabits) + "Gbit";
    const auto figures = all_figures(understood(texts).request);
    REQUIRE(figures.ok());
    for (size_t at = 0; at < figures->size(); ++at) {
      const StepTime& time = (*figures)[at].time;
      INFO(letters((*figures)[at].strategy) << " " << gigabits);
      CHECK(time.half_links_s >= time.step_s);
      CHECK((before.empty() || time.step_s == Approx(before[at].time.step_s).epsilon(0.02)));
    }
    before = *figures;
  }
}

TEST_CASE("a small model is not split") {
  PlanTexts texts = node_of_a100();
  texts.model = "gpt2";
  texts.gpu = "h100-sxm";
  texts.global_batch = "512";
  texts.sequence.reset();
  const auto all = recommend(understood(texts).request);
  REQUIRE(all.ok());
  CHECK(letters(all->recommended()->strategy) == "NNN");
  CHECK(letters(all->simplest->figures.strategy) == "NNN");
  CHECK(all->recommended()->micro_batches == 1);
  CHECK(all->reasons[1].find(" but splits what fits whole.") != std::string::npos);
}

TEST_CASE("a remedy at the rate that is given says so") {
  PlanTexts texts = plan_by_names();
  texts.nodes = "2";
  texts.global_batch.reset();
  texts.micro_batch = "1";
  texts.accumulation = "4";
  texts.memory = "50GB";
  const auto remedies = [&] {
    const auto all = recommend(understood(texts).request);
    REQUIRE((all.ok() && all->near_miss));
    std::string text;
    for (const std::string& each : all->near_miss->remedies) {
      text += each + "\n";
    }
    return text;
  };
  CHECK(remedies().find("full recomputation (") != std::string::npos);
  texts.mfu = "0.4";
  CHECK(remedies().find("full recomputation at the same rate (") != std::string::npos);
}

}  // namespace paro
