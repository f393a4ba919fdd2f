// Which strategy is recommended, and why.
#include <algorithm>
#include <numeric>
#include <string>
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
  CHECK(has(all.why(), "memory is not known"));
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

// A row of the order: seconds of a step, on links half as good, and GB of 80 that are needed.
StrategyFigures figures_for(const char* name, double step_s, double half_links_s, double gb) {
  StrategyFigures figures;
  figures.strategy = parse_strategy(name).value();
  figures.time.step_s = step_s;
  figures.time.half_links_s = half_links_s;
  figures.memory.activations = gb * 1e9;
  figures.memory_bytes = 80e9;
  return figures;
}

std::vector<std::string> names_in_order(const std::vector<StrategyFigures>& figures) {
  std::vector<size_t> rows(figures.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  std::vector<std::string> names;
  for (const size_t row : in_order(rows, figures)) {
    names.push_back(letters(figures[row].strategy));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST_CASE("what is as fast is so beside the fastest, not beside its neighbour") {
  // Each within 3 % of the one before; the third is not of the first.
  CHECK(names_in_order({figures_for("NNN", 10, 10, 60),
                        figures_for("NIG", 10.25, 10.25, 40),
                        figures_for("IIG", 10.5, 10.5, 20)}) == Names{"NIG", "NNN", "IIG"});
  // The third and the fourth are as fast as each other.
  CHECK(names_in_order({figures_for("NNN", 10, 10, 60),
                        figures_for("NIG", 10.5, 10.5, 40),
                        figures_for("IIG", 10.6, 10.6, 20)}) == Names{"NNN", "IIG", "NIG"});
}

TEST_CASE("of what is as fast that which stays so on worse links comes first, then memory") {
  CHECK(names_in_order({figures_for("NNG", 10, 10.2, 74),
                        figures_for("GGG", 10.1, 13, 10),
                        figures_for("IIG", 10.2, 10.4, 34)}) == Names{"IIG", "NNG", "GGG"});
}

TEST_CASE("a few percent of a rank's memory count for less than a name elsewhere") {
  CHECK(names_in_order({figures_for("IIG", 10, 10, 50), figures_for("III", 10, 10, 53)}) ==
        Names{"III", "IIG"});
  CHECK(names_in_order({figures_for("IIG", 10, 10, 50), figures_for("III", 10, 10, 55)}) ==
        Names{"IIG", "III"});
  // A name that takes no groups before one that does.
  CHECK(names_in_order({figures_for("III", 10, 10, 20), figures_for("GGG", 10, 10, 20)}) ==
        Names{"GGG", "III"});
  // Of two without a name, or with one, what needs less.
  CHECK(names_in_order({figures_for("NIG", 10, 10, 21), figures_for("IIG", 10, 10, 20)}) ==
        Names{"IIG", "NIG"});
  // Where a rank's memory is not known, a few percent of what is needed.
  std::vector<StrategyFigures> unknown{figures_for("IIG", 10, 10, 20),
                                       figures_for("III", 10, 10, 23)};
  unknown[0].memory_bytes = unknown[1].memory_bytes = 0;
  CHECK(names_in_order(unknown) == Names{"IIG", "III"});
}

TEST_CASE("up to half of a rank's memory counts as one, and what splits nothing is simplest") {
  CHECK(names_in_order({figures_for("GGG", 10, 10, 5),
                        figures_for("IIG", 10, 10, 6),
                        figures_for("NNN", 10, 10, 43.9)}) == Names{"NNN", "GGG", "IIG"});
  // More than half, and more than a tie above it.
  CHECK(names_in_order({figures_for("GGG", 10, 10, 5), figures_for("NNN", 10, 10, 44.1)}) ==
        Names{"GGG", "NNN"});
  CHECK(effort(parse_strategy("NNN").value()) < effort(parse_strategy("NNG").value()));
  CHECK(effort(parse_strategy("GGG").value()) < effort(parse_strategy("III").value()));
  CHECK(effort(parse_strategy("III").value()) < effort(parse_strategy("IIG").value()));
}

TEST_CASE("hidden communication does not decide") {
  PlannerRequest request = seven_billion();
  request.compute_s = 1000;  // all are as fast, on worse links too
  const Recommendation calm = recommendation_for(request);
  CHECK(to_string(calm.recommended()) == "GGG");
  CHECK(to_string(calm.runner_up()) == "NGG");
  CHECK(has(calm.why(), "The runner-up NGG is as fast ("));
  CHECK(calm.smallest->row == calm.ranking[0]);
  REQUIRE(calm.simplest.has_value());
  CHECK(letters(calm.simplest->figures.strategy) == "GGG");
  // One group: I and G are the same ranks, and what needs no groups is simpler.
  request = request_for(7e9, 7e9, 32);
  request.world = {1, 8};
  request.compute_s = 1000;
  CHECK(to_string(recommendation_for(request).recommended()) == "GGG");
}

TEST_CASE("the fastest, the smallest as fast and the simplest are told") {
  PlannerRequest request = seven_billion();
  request.compute_s = 20;
  const Recommendation all = recommendation_for(request);
  REQUIRE((all.fastest && all.smallest && all.simplest));
  const StrategyFigures& fastest = all.fastest->figures;
  const StrategyFigures& smallest = all.smallest->figures;
  const StrategyFigures& simplest = all.simplest->figures;
  CHECK(as_fast(fastest.time.step_s, smallest.time.step_s));
  CHECK(as_fast(fastest.time.step_s, simplest.time.step_s));
  CHECK_FALSE(known_as(simplest.strategy).empty());
  for (const size_t row : all.ranking) {
    const StrategyFigures& each = all.figures[row];
    CHECK(fastest.time.step_s <= each.time.step_s * (1 + 1e-9));
    if (as_fast(fastest.time.step_s, each.time.step_s)) {
      CHECK(smallest.memory.total() <= each.memory.total());
      CHECK(effort(simplest.strategy) <= effort(each.strategy));
    }
  }
  request.memory_bytes = 1e9;
  const Recommendation none = recommendation_for(request);
  CHECK_FALSE((none.fastest || none.smallest || none.simplest));
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
  INFO(all.why());
  for (const std::string& words :
       {time_text("IIG", " takes ") + " a step, " + exposed_text("IIG"),
        std::string("the links inside groups are the bottleneck"),
        std::string("63.4 GB of 80 GB per rank, 16.6 GB to spare"),
        "The runner-up " + time_text("IGG", " would take ") + ", " + exposed_text("IGG")}) {
    INFO(words);
    CHECK(has(all.why(), words));
  }
  // NII would be faster, lacks 167 GB, and nothing makes it fit: that is no near miss.
  CHECK_FALSE(as_fast(row_of(all, "NII").time.step_s, all.recommended()->time.step_s));
  CHECK_FALSE(all.near_miss.has_value());
}

TEST_CASE("the reason names the link that holds a step up") {
  PlannerRequest request = sixty_five_billion();
  request.compute_s = 5;
  request.links.nics_per_group = 1;
  CHECK(has(recommendation_for(request).why(), "the links between groups are the bottleneck"));
  request.compute_s = 5000;
  CHECK(has(recommendation_for(request).why(), "computation is the bottleneck"));
  request.compute_s = 0;
  request.world = {1, 1};
  request.memory_bytes = 0;
  CHECK(has(recommendation_for(request).why(), "nothing is communicated"));
}

TEST_CASE("where nothing fits the reason says by how much and from how many groups on") {
  PlannerRequest request = sixty_five_billion();
  request.memory_bytes = 16e9;
  const Recommendation none = recommendation_for(request);
  CHECK(none.recommended() == nullptr);
  CHECK(none.runner_up() == nullptr);
  INFO(none.why());
  CHECK(has(none.why(), "nothing fits: GGG needs the least, 39 GB of 16 GB per rank"));
  CHECK(has(none.why(), "lacks 23 GB"));
  REQUIRE(has(none.why(), "GGG fits from 14 groups of 8 on"));
  request.world.group_count = 13;
  CHECK(recommendation_for(request).ranking.empty());
  request.world.group_count = 14;
  CHECK(to_string(recommendation_for(request).recommended()) == "GGG");
}

// 65B in the method's own case: sums in fp32, one NIC a group.
PlannerRequest nearly_fits() {
  PlannerRequest request = sixty_five_billion();
  request.links.nics_per_group = 1;
  request.links.world = WorldAlgorithm::kHoRing;
  request.bytes.gradient_sum = 4;
  request.activation_bytes = 5e9;
  request.micro_batch = 4;
  request.compute_s = 76;
  return request;
}

const NearMiss& near_miss_of(const Recommendation& all) {
  INFO(all.why());
  REQUIRE(all.near_miss.has_value());
  return *all.near_miss;
}

// The remedy that begins so, or nothing.
std::string remedy(const NearMiss& miss, const std::string& begins) {
  for (const std::string& each : miss.remedies) {
    if (each.find(begins) == 0) {
      return each;
    }
  }
  return {};
}

TEST_CASE("the near miss is what lacks least of what would be faster, with what makes it fit") {
  PlannerRequest request = nearly_fits();
  const Recommendation all = recommendation_for(request);
  CHECK(to_string(all.recommended()) == "IGG");
  const NearMiss& miss = near_miss_of(all);
  CHECK(letters(all.figures[miss.row].strategy) == "IIG");
  CHECK(all.figures[miss.row].missing_bytes == Approx(4.625e9));
  CHECK(miss.remedies ==
        std::vector<std::string>{"sums of gradients in 16 bits (68.4 GB, 88.5 s a step)",
                                 "5 groups of 8 (79.8 GB)",
                                 "activations of at most 375 MB, not 5 GB"});
  // What is said to fit does, and the fewest groups are.
  for (const uint32_t groups : {4U, 5U}) {
    request.world.group_count = groups;
    CHECK(row_of(recommendation_for(request), "IIG").fits() == (groups == 5));
  }
  request = nearly_fits();
  request.bytes.gradient_sum = 0;
  CHECK(to_string(recommendation_for(request).recommended()) == "IIG");
}

TEST_CASE("smaller micro-batches and fewer layers ahead are remedies where they are enough") {
  PlannerRequest request = nearly_fits();
  request.activation_bytes = 8e9;  // of 4 sequences
  request.prefetch = 6;
  request.memory_bytes = 88e9;
  const Recommendation all = recommendation_for(request);
  const NearMiss& miss = near_miss_of(all);
  const StrategyFigures& iig = all.figures[miss.row];
  REQUIRE(letters(iig.strategy) == "IIG");
  const double layer = 2 * 65e9 / 80;
  CHECK(iig.missing_bytes == Approx(87.625e9 + 5 * layer - 88e9));
  INFO(all.why());
  // 7.75 GB are missing: 4 or 6 of 8 GB less are not enough.
  CHECK(remedy(miss, "micro-batches").empty());
  CHECK(has(remedy(miss, "1 layer gathered ahead"), "(87.6 GB, "));
  request.activation_bytes = 16e9;
  request.memory_bytes = 96e9;
  const Recommendation larger = recommendation_for(request);
  CHECK(has(remedy(near_miss_of(larger), "micro-batches of 2, 20 of them"), "(95.8 GB, "));
}

TEST_CASE("a single micro-batch that becomes two needs wider sums") {
  PlannerRequest request = nearly_fits();
  request.micro_batches = 1;
  request.bytes.gradient_sum = 0;
  request.micro_batch = 2;
  request.activation_bytes = 40e9;
  request.links.world_call_s = 1;  // IIG has none of these calls, what needs less has
  const auto micro_batches = [&](double memory_bytes) {
    request.memory_bytes = memory_bytes;
    const Recommendation all = recommendation_for(request);
    const NearMiss& miss = near_miss_of(all);
    REQUIRE(letters(all.figures[miss.row].strategy) == "IIG");
    return remedy(miss, "micro-batches of 1, 2 of them");
  };
  // IIG needs 103.4 GB; 20 GB less of activations are 16.25 GB more of sums.
  CHECK(has(micro_batches(101e9), "(99.6 GB, "));
  CHECK(micro_batches(99e9).empty());
}

TEST_CASE("a remedy that is slower than what fits is none") {
  PlannerRequest request = nearly_fits();
  request.recomputed = {{"selective", 1e9, 1e9, 76, 1.0 / 3},
                        {"full", 0.1e9, 0.1e9, 76 * 4.0 / 3, 1.0 / 2}};
  const NearMiss miss = near_miss_of(recommendation_for(request));
  CHECK(remedy(miss, "selective").empty());  // 600 MB too much
  CHECK(has(remedy(miss, "full recomputation"), "(79.7 GB, "));
  request.recomputed[1].compute_s = 200;  // IGG takes 130 s
  CHECK(remedy(near_miss_of(recommendation_for(request)), "full").empty());
}

TEST_CASE("where nothing fits the near miss is among the fastest of all") {
  PlannerRequest request = nearly_fits();
  // Nothing makes one of these fit: of all it is what lacks least.
  request.memory_bytes = 16e9;
  request.micro_batch = 1;
  const Recommendation small = recommendation_for(request);
  CHECK(letters(small.figures[near_miss_of(small).row].strategy) == "GGG");
  CHECK(has(small.why(), " groups of 8 ("));
  CHECK(has(small.why(), " GGG would take "));
  CHECK_FALSE(has(small.why(), "Of those as fast as the fastest"));
  CHECK_FALSE(has(small.why(), "a smaller micro-batch"));  // there is none
  request.micro_batch = 4;
  request.activation_bytes = 40e9;
  request.memory_bytes = 82e9;
  const Recommendation none = recommendation_for(request);
  REQUIRE(none.recommended() == nullptr);
  const NearMiss& miss = near_miss_of(none);
  double fastest_s = none.figures[0].time.step_s;
  for (const StrategyFigures& each : none.figures) {
    fastest_s = std::min(fastest_s, each.time.step_s);
  }
  const StrategyFigures& nearest = none.figures[miss.row];
  CHECK(as_fast(fastest_s, nearest.time.step_s));
  for (const StrategyFigures& each : none.figures) {
    CHECK((!as_fast(fastest_s, each.time.step_s) || each.missing_bytes >= nearest.missing_bytes));
  }
  CHECK(has(none.why(), "Of those as fast as the fastest IIG would take"));
}

TEST_CASE("what is faster and fits is no near miss, and nothing is where all fits") {
  CHECK_FALSE(recommendation_for(sixty_five_billion()).near_miss.has_value());
  PlannerRequest request = sixty_five_billion();
  request.memory_bytes = 0;
  CHECK_FALSE(recommendation_for(request).near_miss.has_value());
}

TEST_CASE("a reason has two sentences at most, and why is both of them") {
  PlannerRequest nothing = nearly_fits();
  nothing.memory_bytes = 16e9;
  PlannerRequest alone = seven_billion();
  alone.memory_bytes = 6e9;
  for (const PlannerRequest& request : {nearly_fits(), nothing, alone}) {
    const Recommendation all = recommendation_for(request);
    REQUIRE(all.reasons.size() == 2);
    CHECK(all.why() == all.reasons[0] + " " + all.reasons[1]);
    for (const std::string& reason : all.reasons) {
      INFO(reason);
      CHECK(reason.back() == '.');
      CHECK(reason.find(". ") == std::string::npos);
      CHECK(reason.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("where no number of groups is enough the reason says what else might be") {
  PlannerRequest request = seven_billion();
  request.memory_bytes = 10e9;
  request.activation_bytes = 12e9;
  const std::string why = recommendation_for(request).why();
  INFO(why);
  CHECK(has(why, "no number of further groups is enough"));
  CHECK(has(why, "a smaller micro-batch or recomputing activations helps"));
  request.micro_batch = 1;
  CHECK(has(recommendation_for(request).why(), "; recomputing activations helps"));
  request.all_recomputed = true;
  CHECK_FALSE(has(recommendation_for(request).why(), "helps"));  // there is nothing left to do
  request.micro_batch = 2;
  CHECK(has(recommendation_for(request).why(), "; a smaller micro-batch helps"));
}

TEST_CASE("what other dimensions send is exposed communication") {
  PlannerRequest request = seven_billion();
  const StrategyFigures before = row_of(recommendation_for(request), "NNG");
  request.waiting_s = 2;  // of 5.7 s
  const Recommendation all = recommendation_for(request);
  const StepTime& time = row_of(all, "NNG").time;
  CHECK(time.step_s == before.time.step_s);
  CHECK(time.exposed_s == Approx(before.time.exposed_s + 2));
  CHECK(time.range.least_s == Approx(before.time.range.least_s - 2));
  CHECK(time.range.most_s == before.time.range.most_s);
  CHECK(
      all.why().find("what other dimensions of parallelism send is the bottleneck and holds it up "
                     "by 2 s.") != std::string::npos);
}

}  // namespace paro
