// Which strategy is recommended, and why.
#include <vector>

#include "base/quantity.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "planner/planner.hpp"
#include "requests.hpp"

namespace paro {
namespace {

double step_s(const Recommendation& all, const std::string& name) {
  return row_of(all, name).time.step_s;
}

// Communication grows, or stays, from each to the next.
void check_communication_order(const PlannerRequest& request,
                               const std::vector<std::string>& names) {
  const Recommendation all = recommendation_for(request);
  for (size_t i = 1; i < names.size(); ++i) {
    INFO(names[i - 1] << " before " << names[i]);
    const double before = row_of(all, names[i - 1]).time.communication_s;
    CHECK(before <= row_of(all, names[i]).time.communication_s * (1 + 1e-9));
  }
}

std::string to_string(const StrategyFigures* figures) {
  return figures == nullptr ? "none" : letters(figures->strategy);
}

}  // namespace

TEST_CASE("7B is ranked by communication as in the paper, with a NIC for each rank") {
  check_communication_order(
      seven_billion(),
      {"NNI", "NII", "INI", "III", "IIG", "NIG", "ING", "NNG", "IGG", "NGG", "GIG", "GNG", "GGG"});
}

TEST_CASE("7B is ranked by communication as in the paper where a group shares one NIC") {
  PlannerRequest request = seven_billion();
  request.links.nics_per_group = 1;
  check_communication_order(request, {"NNI", "NII", "NNG", "NIG", "INI", "ING", "IIG", "III"});
}

TEST_CASE("the paper's picks are faster than what it compares them with") {
  const Recommendation full7 = recommendation_for(seven_billion());
  CHECK(step_s(full7, "IIG") < step_s(full7, "GGG"));
  CHECK(step_s(full7, "NII") < step_s(full7, "NGG"));
  CHECK(step_s(full7, "NNI") < step_s(full7, "NNG"));

  PlannerRequest request = request_for(7e9, 7e9 / 16, 32);
  request.compute_s = 4;
  const Recommendation part7 = recommendation_for(request);
  CHECK(step_s(part7, "NIG") < step_s(part7, "NGG"));
  CHECK(step_s(part7, "NII") < step_s(part7, "NIG"));

  const Recommendation full65 = recommendation_for(sixty_five_billion());
  CHECK(step_s(full65, "IIG") < step_s(full65, "GGG"));
  CHECK(to_string(full65.recommended()) == "IIG");

  request = request_for(65e9, 65e9 / 16, 80);
  request.compute_s = 40;
  const Recommendation part65 = recommendation_for(request);
  CHECK(step_s(part65, "III") < step_s(part65, "GGG"));
  CHECK(step_s(part65, "IIG") < step_s(part65, "GGG"));

  request = request_for(65e9, 65e9 * 3 / 1000, 80);
  request.compute_s = 36;
  const Recommendation tuned65 = recommendation_for(request);
  CHECK(step_s(tuned65, "ING") < step_s(tuned65, "GGG"));

  request = sixty_five_billion();
  request.world.group_count = 8;
  const Recommendation wide65 = recommendation_for(request);
  CHECK(step_s(wide65, "IIG") < step_s(wide65, "GGG"));
}

TEST_CASE("only what fits is ranked, by the critical path") {
  const Recommendation all = recommendation_for(sixty_five_billion());
  std::vector<std::string> names;
  for (const size_t row : all.ranking) {
    names.push_back(letters(all.figures[row].strategy));
  }
  CHECK(names == std::vector<std::string>{"IIG", "IGG", "GIG", "GGG"});
  CHECK(to_string(all.runner_up()) == "IGG");
}

TEST_CASE("where memory is not known everything fits") {
  PlannerRequest request = sixty_five_billion();
  request.memory_bytes = 0;
  const Recommendation all = recommendation_for(request);
  CHECK(all.ranking.size() == kStrategyCount);
  CHECK(has(all.why, "memory is not known"));
}

TEST_CASE("the NICs of a group decide which strategy is taken") {
  PlannerRequest request = seven_billion();
  request.compute_s = 0;
  CHECK(to_string(recommendation_for(request).recommended()) == "NNI");
  request.links.nics_per_group = 1;
  request.links.world = WorldAlgorithm::kHoRing;
  CHECK(to_string(recommendation_for(request).recommended()) == "NNG");
}

TEST_CASE("strategies with the same T differ in what they expose") {
  const Recommendation all = recommendation_for(seven_billion());
  const StepTime& nii = row_of(all, "NII").time;
  const StepTime& nig = row_of(all, "NIG").time;
  CHECK(nii.paper_step_s == nig.paper_step_s);
  CHECK(nii.exposed_s < nig.exposed_s);
}

TEST_CASE("steps that take as long are told apart by communication, then by memory") {
  PlannerRequest request = seven_billion();
  request.compute_s = 1000;
  const Recommendation calm = recommendation_for(request);
  CHECK(to_string(calm.recommended()) == "NNI");
  CHECK(to_string(calm.runner_up()) == "NII");
  CHECK(has(calm.why, "takes as long but communicates for"));

  // One group: I and G are the same set of ranks, and so is their time.
  request = request_for(7e9, 7e9, 32);
  request.world = {1, 8};
  const Recommendation alone = recommendation_for(request);
  const StrategyFigures& best = *alone.recommended();
  for (const StrategyFigures& row : alone.figures) {
    CHECK((row.time.step_s > best.time.step_s * (1 + kTieShare) ||
           row.time.communication_s > best.time.communication_s * (1 + kTieShare) ||
           row.memory.total() >= best.memory.total() || !row.fits()));
  }
}

TEST_CASE("the reason names the figures") {
  PlannerRequest request = sixty_five_billion();
  request.compute_s = 5;
  const Recommendation all = recommendation_for(request);
  const auto time_text = [&](const std::string& name, const char* between) {
    const StepTime& time = row_of(all, name).time;
    return name + between + ho::seconds_text(time.step_s);
  };
  const auto exposed_text = [&](const std::string& name) {
    return ho::seconds_text(row_of(all, name).time.exposed_s) + " of it exposed";
  };
  INFO(all.why);
  for (const std::string& words :
       {time_text("IIG", " takes ") + " a step, " + exposed_text("IIG"),
        std::string("the links inside groups are the bottleneck"),
        std::string("63.4 GB of 80 GB per rank, 16.6 GB to spare"),
        "the runner-up " + time_text("IGG", " would take ") + ", " + exposed_text("IGG"),
        time_text("NNI", " would take ") + " but lacks 278 GB"}) {
    INFO(words);
    CHECK(has(all.why, words));
  }
}

TEST_CASE("the reason names the link that holds a step up") {
  PlannerRequest request = sixty_five_billion();
  request.compute_s = 5;
  request.links.nics_per_group = 1;
  CHECK(has(recommendation_for(request).why, "the links between groups are the bottleneck"));
  request.compute_s = 5000;
  CHECK(has(recommendation_for(request).why, "computation is the bottleneck"));
  request.compute_s = 0;
  request.world = {1, 1};
  request.memory_bytes = 0;
  CHECK(has(recommendation_for(request).why, "nothing is communicated"));
}

TEST_CASE("where nothing fits the reason says by how much and from how many groups on") {
  PlannerRequest request = sixty_five_billion();
  request.memory_bytes = 16e9;
  const Recommendation none = recommendation_for(request);
  CHECK(none.recommended() == nullptr);
  CHECK(none.runner_up() == nullptr);
  INFO(none.why);
  CHECK(has(none.why, "nothing fits: GGG needs the least, 39 GB of 16 GB per rank"));
  CHECK(has(none.why, "lacks 23 GB"));
  REQUIRE(has(none.why, "GGG fits from 14 groups of 8 on"));
  request.world.group_count = 13;
  CHECK(recommendation_for(request).ranking.empty());
  request.world.group_count = 14;
  CHECK(to_string(recommendation_for(request).recommended()) == "GGG");
}

TEST_CASE("where no number of groups is enough the reason says what else might be") {
  PlannerRequest request = seven_billion();
  request.memory_bytes = 10e9;
  request.activation_bytes = 12e9;
  const std::string why = recommendation_for(request).why;
  INFO(why);
  CHECK(has(why, "no number of further groups is enough"));
  CHECK(has(why, "a smaller micro-batch, or recomputing activations"));
}

}  // namespace paro
