// What NCCL's collectives move in a step on devices, at each scope, is what the step plan has.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "on_doubles.hpp"
#include "step/traffic.hpp"

using namespace paro;
using namespace paro::test;
using ho::test::left_on_doubles;
using ho::test::must_have;
using ho::test::reset_doubles;
namespace nccl_double = ho::nccl_double;

namespace {

using TrafficByName = std::map<std::string, Traffic>;

std::string scope_text(Domain domain, const std::string& call) {
  return std::string(to_string(domain)) + " " + call;
}

// A line for each scope and call.
std::string to_string(const TrafficByName& all) {
  std::string text;
  for (const auto& [name, traffic] : all) {
    text += name + ": " + std::to_string(traffic.intra_bytes) + " bytes inside and " +
            std::to_string(traffic.inter_bytes) + " between groups\n";
  }
  return text;
}

std::string call_of(Act act) {
  switch (act) {
    case Act::kGather:
      return "ncclAllGather";
    case Act::kReduceScatter:
      return "ncclReduceScatter";
    default:
      return "ncclAllReduce";
  }
}

TrafficByName planned(const StepRunner& runner, const ho::GroupMap& groups) {
  const StepPlan& plan = runner.plan();
  const RunnerConfig& config = runner.config();
  const StepTraffic traffic(
      plan,
      runner.shards().layouts,
      groups,
      groups,
      {ho::size_bytes(config.parameter_dtype), ho::size_bytes(sent_dtype(config))});
  TrafficByName sum;
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    const Action& action = plan.actions[id.at()];
    if (is_collective(action.act)) {
      sum[scope_text(action.domain, call_of(action.act))] += traffic.of(id);
    }
  }
  return sum;
}

// Ranks' devices have their numbers. Data travels as step/traffic.hpp says.
TrafficByName moved(const nccl_double::MovedBytes& all, const ho::GroupMap& groups) {
  TrafficByName sum;
  for (const auto& [of, bytes] : all) {
    const auto& [call, ranks] = of;
    std::set<ho::GroupIndex> spanned;
    for (const int rank : ranks) {
      spanned.insert(groups.group_of(ho::GlobalRank(rank)));
    }
    const Domain domain = ranks.size() == groups.world_size() ? Domain::kWorld
                          : spanned.size() == 1               ? Domain::kIntra
                                                              : Domain::kInter;
    const uint64_t sent = bytes * (call == "ncclAllReduce" ? 2 : 1);
    sum[scope_text(domain, call)] +=
        {(ranks.size() - spanned.size()) * sent, (spanned.size() - 1) * sent};
  }
  return sum;
}

// Of sizes that ranks do not divide; parameters have 2 bytes, gradients that are sent 4.
Job job_of_odd_units(const Strategy& strategy) {
  Job job = job_of(strategy, "2x2");
  job.config.units = {{"embedding", 251, 0, {}},
                      {"first", 509, 61, {}},
                      {"second", 127, 0, {}},
                      {"third", 1, 63, {}},
                      {"head", 0, 0, 0U}};
  job.config.parameter_dtype = ho::DType::kBfloat16;
  job.config.gradient_dtype = ho::DType::kBfloat16;
  job.config.fp32_gradients = true;
  return job;
}

void check_bytes(const std::vector<Strategy>& strategies) {
  const ho::GroupMap groups = ho::GroupMap::parse("2x2").value();
  reset_doubles();
  std::vector<std::string> is;
  std::vector<std::string> wanted;
  ho::test::require_job({"2x2"}, [&](ho_comm* comm) {
    const RankDevice device(comm);
    for (const Strategy& strategy : strategies) {
      Job job = job_of_odd_units(strategy);
      job.config.on_device = device.use();
      const auto runner = make_runner(comm, job.config, device.memory());
      load_initial(*runner);
      nccl_double::MovedBytes bytes;
      for (uint32_t step = 0; step < 3; ++step) {  // the last is like all that follow
        run_hooks(*runner);
        static_cast<void>(must_have(runner->step()));
        all_come(comm);
        if (ho_comm_rank(comm) == 0) {
          bytes = nccl_double::take_moved_bytes();
        }
        all_come(comm);
      }
      if (ho_comm_rank(comm) == 0) {
        is.push_back(letters(strategy) + "\n" + to_string(moved(bytes, groups)));
        wanted.push_back(letters(strategy) + "\n" + to_string(planned(*runner, groups)));
      }
    }
  });
  CHECK(is == wanted);
  CHECK(is.size() == strategies.size());
  CHECK(left_on_doubles() == "");
}

}  // namespace

TEST_CASE("a step on devices moves at each scope what its plan has") {
  check_bytes({parse_strategy("NIG").value(), parse_strategy("IIG").value()});
}

TEST_CASE("a step of any strategy on devices moves at each scope what its plan has", "[.more]") {
  check_bytes({all_strategies().begin(), all_strategies().end()});
}
