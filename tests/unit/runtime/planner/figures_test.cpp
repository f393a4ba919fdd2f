// Memory and time of each strategy: the method's published and derived figures, and what must hold
// between the formulas and the critical path.
#include "planner/figures.hpp"

#include <array>
#include <map>
#include <set>
#include <vector>

#include "catch.hpp"
#include "method_figures.hpp"
#include "requests.hpp"

namespace paro {
namespace {

using test::check_figure;
using test::seven_billion_memory_gb;

struct Figure {
  double value;
  double digit;
};

void check_communication(const PlannerRequest& request,
                         const std::map<std::string, Figure>& figures) {
  const Recommendation all = recommendation_for(request);
  for (const auto& [name, figure] : figures) {
    INFO(name);
    check_figure(row_of(all, name).time.communication_s, figure.value, figure.digit);
  }
}

// Requests that differ in model, links and step: every two of these choices meet.
std::vector<PlannerRequest> many_requests() {
  constexpr std::array kWorlds{
      WorldShape{4, 8}, WorldShape{1, 4}, WorldShape{3, 1}, WorldShape{16, 2}};
  constexpr std::array kNics{1.0, 4.0};
  constexpr std::array kAlgorithms{
      WorldAlgorithm::kRing, WorldAlgorithm::kMultiRing, WorldAlgorithm::kHoRing};
  const std::array models{seven_billion(),
                          sixty_five_billion(),
                          request_for(7e9, 7e9 / 16, 32),
                          request_for(65e9, 195e6, 80)};
  std::vector<PlannerRequest> requests;
  for (size_t m = 0; m < models.size(); ++m) {
    for (size_t w = 0; w < kWorlds.size(); ++w) {
      PlannerRequest request = models[m];
      request.world = kWorlds[w];
      request.links.nics_per_group = kNics[(m + w) % kNics.size()];
      request.links.world = kAlgorithms[(m + 2 * w) % kAlgorithms.size()];
      request.micro_batches = 3;
      requests.push_back(request);
    }
  }
  return requests;
}

}  // namespace

TEST_CASE("memory of 7B on 4 groups of 8 is what the paper has") {
  const auto& figures = seven_billion_memory_gb();
  const Recommendation all = recommendation_for(seven_billion());
  REQUIRE(all.figures.size() == figures.size());
  for (const StrategyFigures& row : all.figures) {
    INFO(letters(row.strategy));
    check_figure(row.memory.states.total() / 1e9, figures.at(letters(row.strategy)), 0.1);
  }
}

TEST_CASE("65B fits 80 GB with four strategies, buffers included") {
  const std::map<std::string, double> figures{
      {"IIG", 56.9}, {"IGG", 44.7}, {"GIG", 44.7}, {"GGG", 32.5}};
  for (const StrategyFigures& row : recommendation_for(sixty_five_billion()).figures) {
    const auto figure = figures.find(letters(row.strategy));
    INFO(letters(row.strategy));
    CHECK(row.fits() == (figure != figures.end()));
    if (figure != figures.end()) {
      check_figure(row.memory.states.total() / 1e9, figure->second, 0.1);
    } else {
      CHECK(row.missing_bytes == Approx(row.memory.total() - 80e9));
    }
  }
}

TEST_CASE("communication of 7B is what the paper has, with a NIC for each rank") {
  check_communication(seven_billion(),
                      {{"NII", {0.80, 0.01}},
                       {"INI", {1.29, 0.01}},
                       {"III", {1.73, 0.01}},
                       {"IIG", {1.73, 0.01}},
                       {"NIG", {1.98, 0.01}},
                       {"ING", {2.47, 0.01}},
                       {"NNG", {2.71, 0.01}},
                       {"IGG", {14.7, 0.1}},
                       {"NGG", {14.9, 0.1}},
                       {"GIG", {27.7, 0.1}},
                       {"GNG", {28.5, 0.1}},
                       {"GGG", {40.7, 0.1}}});
}

TEST_CASE("communication of 65B is what the paper has, with a NIC for each rank") {
  check_communication(
      sixty_five_billion(),
      {{"IIG", {16.1, 0.1}}, {"IGG", {136, 1}}, {"GIG", {258, 1}}, {"GGG", {378, 1}}});
}

TEST_CASE("communication of 7B is what the paper has where a group shares one NIC") {
  PlannerRequest request = seven_billion();
  request.links.nics_per_group = 1;
  check_communication(request,
                      {{"NNI", {2.20, 0.01}},
                       {"NII", {2.64, 0.01}},
                       {"NNG", {2.71, 0.01}},
                       {"NIG", {2.90, 0.01}},
                       {"INI", {3.13, 0.01}},
                       {"ING", {3.39, 0.01}},
                       {"IIG", {3.57, 0.01}},
                       {"III", {3.57, 0.01}}});
}

TEST_CASE("the paper's T and its indicator are in the figures") {
  const Recommendation all = recommendation_for(seven_billion());
  CHECK(row_of(all, "NII").time.paper_step_s == 5.7);
  CHECK(row_of(all, "NII").time.indicator == Approx(-std::log(5.7)));
  CHECK(row_of(all, "GGG").time.paper_step_s == row_of(all, "GGG").time.communication_s);
}

// One case: under sanitizers the figures of all these requests take half a minute.
TEST_CASE(
    "collectives take what the formula says, and a step no less than any link or computation is "
    "busy, and no longer than all") {
  for (const PlannerRequest& request : many_requests()) {
    for (const StrategyFigures& row : recommendation_for(request).figures) {
      INFO(letters(row.strategy) << " of " << request.model.parameters << " on "
                                 << request.world.group_count << "x" << request.world.group_size);
      const StepTime& time = row.time;
      CHECK(time.intra.busy_s + time.inter.busy_s == Approx(time.communication_s).margin(1e-9));
      const double rounding = 1e-9 * time.step_s;
      CHECK(time.step_s >= time.intra.busy_s - rounding);
      CHECK(time.step_s >= time.inter.busy_s - rounding);
      CHECK(time.step_s <= request.compute_s + time.communication_s + rounding);
      CHECK(time.exposed_s >= 0);
      CHECK(time.step_s == Approx(request.compute_s + time.exposed_s));
    }
  }
}

TEST_CASE("each call takes its time beside its bytes, and an all-reduce is one call") {
  PlannerRequest request = seven_billion();  // 32 layers
  request.compute_s = 0;
  request.micro_batches = 3;
  request.prefetch = 0;
  const Recommendation without = recommendation_for(request);
  request.links.intra_call_s = 10;
  request.links.inter_call_s = 1000;
  request.links.world_call_s = 100000;
  const Recommendation with = recommendation_for(request);
  const auto added = [&](const std::string& name) {
    const auto busy = [](const StrategyFigures& row) {
      return row.time.intra.busy_s + row.time.inter.busy_s;
    };
    return busy(row_of(with, name)) - busy(row_of(without, name));
  };
  constexpr double kLayers = 32;
  CHECK(added("NNN") == Approx(kLayers * 100000));
  CHECK(added("NIG") == Approx(kLayers * (3 * 10 + 1000 + 100000)));
  CHECK(added("GGG") == Approx(kLayers * 3 * 3 * 100000));
  CHECK(added("III") == Approx(kLayers * (3 * 3 * 10 + 1000)));
  for (const char* name : {"NNN", "NIG", "GGG", "III"}) {
    INFO(name);
    CHECK(row_of(with, name).time.communication_s - row_of(without, name).time.communication_s ==
          Approx(added(name)));
  }
}

TEST_CASE("an update takes a rank's part of its time, and is no communication") {
  PlannerRequest request = seven_billion();
  const Recommendation without = recommendation_for(request);
  request.update_s = 1000;
  for (const StrategyFigures& row : recommendation_for(request).figures) {
    const StepTime& before = row_of(without, letters(row.strategy)).time;
    const double part = 1000 / sharers(row.strategy.optimizer, request.world);
    INFO(letters(row.strategy));
    CHECK(row.time.step_s <= Approx(before.step_s + part));
    CHECK(row.time.step_s >= Approx(request.compute_s + part));
    CHECK(row.time.exposed_s == Approx(row.time.step_s - request.compute_s - part).margin(1e-9));
  }
}

TEST_CASE("without overlap a step is the sum of its parts") {
  PlannerRequest request = seven_billion();
  request.update_s = 8;
  request.overlap = false;
  for (const StrategyFigures& row : recommendation_for(request).figures) {
    INFO(letters(row.strategy));
    const StepTime& time = row.time;
    CHECK(time.exposed_s == Approx(time.communication_s).margin(1e-9));
    CHECK(time.intra.gain_s == time.intra.busy_s);
    CHECK(time.step_s == Approx(request.compute_s + time.communication_s +
                                8 / sharers(row.strategy.optimizer, request.world)));
  }
}

TEST_CASE("more NICs make no strategy slower") {
  for (const auto algorithm : {WorldAlgorithm::kRing, WorldAlgorithm::kHoRing}) {
    PlannerRequest request = seven_billion();
    request.links.world = algorithm;
    std::map<std::string, StepTime> before;
    for (const double nics : {1.0, 2.0, 4.0, 8.0, 16.0}) {
      request.links.nics_per_group = nics;
      for (const StrategyFigures& row : recommendation_for(request).figures) {
        const std::string name = letters(row.strategy);
        INFO(name << " with " << nics << " NICs");
        if (before.count(name) > 0) {
          CHECK(row.time.communication_s <= before[name].communication_s);
          CHECK(row.time.step_s <= before[name].step_s * (1 + 1e-9));
        }
        before[name] = row.time;
      }
    }
  }
}

TEST_CASE("HO-Ring makes no strategy slower than flat rings") {
  for (PlannerRequest request : {seven_billion(), sixty_five_billion()}) {
    for (const double nics : {1.0, 8.0}) {
      request.links.nics_per_group = nics;
      request.links.world = WorldAlgorithm::kRing;
      const Recommendation ring = recommendation_for(request);
      request.links.world = WorldAlgorithm::kHoRing;
      for (const StrategyFigures& row : recommendation_for(request).figures) {
        INFO(letters(row.strategy) << " with " << nics << " NICs");
        const StepTime& flat = row_of(ring, letters(row.strategy)).time;
        CHECK(row.time.communication_s <= flat.communication_s);
        CHECK(row.time.step_s <= flat.step_s * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("what is split is worked on in buffers") {
  PlannerRequest request = seven_billion();
  request.activation_bytes = 3e9;
  const double layer_bytes = 2 * 7e9 / 32;
  Recommendation all = recommendation_for(request);
  CHECK(row_of(all, "NNI").memory.total() == row_of(all, "NNI").memory.states.total() + 3e9);
  CHECK(row_of(all, "ING").memory.gathered == Approx(2 * layer_bytes));
  CHECK(row_of(all, "ING").memory.gradient_buffers == 0);
  CHECK(row_of(all, "NIG").memory.gathered == 0);
  CHECK(row_of(all, "NIG").memory.gradient_buffers == Approx(2 * layer_bytes));
  request.prefetch = 3;
  all = recommendation_for(request);
  CHECK(row_of(all, "GGG").memory.gathered == Approx(4 * layer_bytes));
  // Replicated gradients that are added up wider than they are computed: one unit's at a time.
  request.bytes.gradient_sum = 4;
  all = recommendation_for(request);
  CHECK(row_of(all, "ING").memory.gradient_buffers == Approx(layer_bytes));
  CHECK(row_of(all, "NIG").memory.gradient_buffers == Approx(2 * layer_bytes));
}

TEST_CASE("gathering ahead hides most of the gathers") {
  PlannerRequest request = seven_billion();
  request.prefetch = 0;
  const double without = row_of(recommendation_for(request), "IIG").time.exposed_s;
  request.prefetch = 1;
  CHECK(row_of(recommendation_for(request), "IIG").time.exposed_s < without / 2);
}

TEST_CASE("a step of very many micro-batches is worked out like one of few") {
  PlannerRequest request = seven_billion();
  request.micro_batches = 100'000;
  request.compute_s = 0;
  // With no computation GGG's collectives share one link, one after the other or at once.
  const StepTime busy = figures_of(parse_strategy("GGG").value(), request)->time;
  CHECK(busy.step_s == Approx(busy.communication_s));
  CHECK(busy.inter.busy_s == Approx(busy.communication_s));
  // With much computation it hides all but the ends of a step, which do not grow.
  request.compute_s = 57'000;
  const StepTime calm = figures_of(parse_strategy("NIG").value(), request)->time;
  const StepTime few = figures_of(parse_strategy("NIG").value(), seven_billion())->time;
  CHECK(calm.exposed_s == Approx(few.exposed_s).margin(0.01));
}

TEST_CASE("links that are not there need no rate") {
  PlannerRequest request = seven_billion();
  request.world = {1, 1};
  request.links = {0, 0, 0, WorldAlgorithm::kHoRing};
  for (const StrategyFigures& row : recommendation_for(request).figures) {
    CHECK(row.time.communication_s == 0);
    CHECK(row.time.step_s == Approx(5.7));
  }
}

TEST_CASE("what a unit shares is gathered and reduced once more, and held once") {
  const PlannerRequest alone = seven_billion();
  PlannerRequest request = alone;
  // A table of 700 million parameters, which two units share.
  request.sharing_units = 2;
  request.model.shared = 2 * 7e8;
  request.model.shared_trainable = 2 * 7e8;
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy));
    const StrategyFigures with = figures_of(strategy, request).value();
    const StrategyFigures without = figures_of(strategy, alone).value();
    CHECK(with.memory.states.total() == without.memory.states.total());
    const StepSeconds& terms = with.time.terms;
    CHECK(terms.parameters == Approx(without.time.terms.parameters * 1.2));
    CHECK(terms.gradients == Approx(without.time.terms.gradients * 1.2));
    CHECK(terms.sync_g == without.time.terms.sync_g);
    CHECK(terms.sync_p == without.time.terms.sync_p);
    // The step plan moves as much.
    CHECK(with.time.intra.busy_s + with.time.inter.busy_s ==
          Approx(with.time.communication_s).margin(1e-9));
    CHECK(with.time.step_s >= request.compute_s);
    // The table is larger than a layer of (7e9 - 7e8) / 32, and each buffer holds one unit.
    const bool splits_parameters = strategy.parameters != Scope::kReplicated;
    const bool splits_gradients = strategy.gradients != Scope::kReplicated;
    CHECK(with.memory.gathered == Approx(splits_parameters ? 2 * 2 * 7e8 : 0));
    CHECK(with.memory.gradient_buffers == Approx(splits_gradients ? 2 * 2 * 7e8 : 0));
  }
  // Of a step without communication nothing but the shares of computation has changed.
  request.world = {1, 1};
  CHECK(figures_of(parse_strategy("GGG").value(), request)->time.step_s == Approx(5.7));
}

TEST_CASE("buckets of layers leave later, and take room") {
  PlannerRequest request = seven_billion();
  const double layer = request.bytes.gradient * 7e9 / 32;
  const StrategyFigures apart = figures_of(parse_strategy("NIG").value(), request).value();
  request.bucket_bytes = static_cast<uint64_t>(4 * layer);
  const StrategyFigures together = figures_of(parse_strategy("NIG").value(), request).value();
  CHECK(together.memory.gradient_buffers == Approx(layer * 4 * 4));
  CHECK(apart.memory.gradient_buffers == Approx(layer * 2));
  // The same bytes move, and the last of them once four layers have been through.
  CHECK(together.time.inter.busy_s == Approx(apart.time.inter.busy_s));
  CHECK(together.time.exposed_s > apart.time.exposed_s);
  request.bucket_bytes = static_cast<uint64_t>(layer);
  CHECK(figures_of(parse_strategy("NIG").value(), request)->memory.total() ==
        Approx(apart.memory.total()));
}

TEST_CASE("a unit that others share is in a bucket with layers where it fits") {
  PlannerRequest request = request_for(3e6, 3e6, 2);
  request.sharing_units = 1;
  request.model.shared = 1e6;
  request.model.shared_trainable = 1e6;
  const double all = request.bytes.gradient * 3e6;
  request.bucket_bytes = static_cast<uint64_t>(1.01 * all);
  const StrategyFigures one = figures_of(parse_strategy("NIG").value(), request).value();
  CHECK(one.memory.gradient_buffers == Approx(all * 4));
  CHECK(figures_of(parse_strategy("NNG").value(), request)->memory.gradient_buffers ==
        Approx(all * 2));
  request.bucket_bytes = static_cast<uint64_t>(0.99 * all);  // for two layers
  const StrategyFigures two = figures_of(parse_strategy("NIG").value(), request).value();
  CHECK(two.memory.gradient_buffers == Approx(all / 3 * 2 * 4));
}

TEST_CASE("links that take no time leave a collective what it takes of the others") {
  // Rings wait inside nodes for a little longer than between them.
  PlannerRequest request = seven_billion();
  request.world = {2, 16};
  request.links.world = WorldAlgorithm::kMultiRing;
  request.links.intra_bytes_per_s = 450e9;
  request.links.inter_bytes_per_s = 241e9 / 8;
  request.links.nics_per_group = 16;
  request.compute_s = 0.3;
  request.micro_batches = 2;
  request.prefetch = 0;
  const auto time_of = [](const PlannerRequest& of) {
    return row_of(recommendation_for(of), "GGG").time;
  };
  const StepTime time = time_of(request);
  REQUIRE(time.intra.busy_s > time.inter.busy_s);
  CHECK(time.intra.gain_s < 0.9 * time.intra.busy_s);
  PlannerRequest faster = request;
  faster.links.intra_bytes_per_s = 1e18;
  CHECK(time.step_s - time.intra.gain_s == Approx(time_of(faster).step_s).epsilon(0.001));
  faster = request;
  faster.links.inter_bytes_per_s = 1e18;
  CHECK(time.step_s - time.inter.gain_s == Approx(time_of(faster).step_s).epsilon(0.001));
}

}  // namespace paro
