#include "plan_command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/escaped.hpp"
#include "cli/plan/window_request.hpp"
#include "core/rail/window_plan.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"
#include "plan/print.hpp"
#include "plan/summary.hpp"
#include "plan/verify.hpp"

namespace ho {
namespace {

using Json = nlohmann::ordered_json;

// All ranks' ops are held at once, and a flat ring has as many per rank as there are ranks.
constexpr uint32_t kMaxRanks = 256;

struct PlanArguments {
  std::string collective = "all_gather";
  std::string algorithm = "ho_ring";
  std::string groups = "4x4";
  std::optional<uint32_t> rings;
  std::optional<uint32_t> rails;
  uint32_t root = 0;
  uint32_t rank = 0;
  bool json = false;
  bool verify = false;
  WindowOptions window;
};

void declare(CLI::App& app, PlanArguments& arguments) {
  app.add_option(
         "--collective,-c",
         arguments.collective,
         "all_gather, reduce_scatter, all_reduce, broadcast, all_to_all, gather, scatter or "
         "reduce")
      ->capture_default_str();
  app.add_option(
         "--algorithm,-a", arguments.algorithm, "ring, multi_ring, hierarchical, ho_ring or direct")
      ->capture_default_str();
  app.add_option("--groups,-g", arguments.groups, "groups x ranks (4x4) or the groups' sizes (1+3)")
      ->capture_default_str();
  app.add_option(
      "--rings", arguments.rings, "rings of multi_ring: 1 to the number of rails (default: all)");
  app.add_option("--rails",
                 arguments.rails,
                 "rails between the groups: 1 to the ranks of the smallest group (default: all); a "
                 "job uses one per NIC");
  app.add_option("--root", arguments.root, "of broadcast, gather, scatter and reduce")
      ->capture_default_str();
  app.add_option("--rank", arguments.rank, "the rank whose ops and links are printed")
      ->capture_default_str();
  app.add_flag("--json", arguments.json, "print as JSON, the ops of all ranks included");
  app.add_flag("--verify", arguments.verify, "prove the plan correct first");
  declare_window(app, arguments.window);
}

struct BuiltForShow {
  GroupMap map;
  WholePlan whole;
  GlobalRank rank;
  std::string head;  // before the printed plan
};

Status bad_rank(const char* name, uint32_t value, uint32_t world, const std::string& of) {
  return invalid(std::string(name) + " " + std::to_string(value) + ": use 0 to " +
                 std::to_string(world - 1) + " with " + of);
}

Result<BuiltForShow> build_window(const PlanArguments& arguments) {
  HORING_ASSIGN(const Collective collective, parse_collective(arguments.collective));
  HORING_ASSIGN(const WindowRequest request, window_request(arguments.window, collective));
  const uint32_t members = request.window.members;
  if (arguments.rank >= members) {
    return bad_rank("--rank", arguments.rank, members, "--members " + std::to_string(members));
  }
  HORING_ASSIGN(plugin::rail::WindowPlan plan,
                plugin::rail::window_plan({request.window}, request.wanted_piece_bytes));
  return BuiltForShow{
      std::move(plan.map), std::move(plan.whole), GlobalRank(arguments.rank), to_string(request)};
}

Result<BuiltForShow> build(const PlanArguments& arguments) {
  HORING_ASSIGN(GroupMap map, GroupMap::parse(arguments.groups));
  HORING_ASSIGN(const Collective collective, parse_collective(arguments.collective));
  HORING_ASSIGN(const Algorithm algorithm, parse_algorithm(arguments.algorithm));
  if (arguments.rails && (*arguments.rails == 0 || *arguments.rails > map.smallest_group())) {
    return invalid("--rails " + std::to_string(*arguments.rails) + ": use 1 to " +
                   std::to_string(map.smallest_group()) + " with groups " + arguments.groups);
  }
  map = map.with_rails(arguments.rails.value_or(map.smallest_group()));
  const uint32_t world = map.world_size();
  if (world > kMaxRanks) {
    return invalid("groups " + arguments.groups + " have " + std::to_string(world) +
                   " ranks: this command builds all of them and takes at most " +
                   std::to_string(kMaxRanks));
  }
  for (const auto& [name, value] :
       {std::pair("--rank", arguments.rank), std::pair("--root", arguments.root)}) {
    if (value >= world) {
      return bad_rank(name, value, world, "groups " + arguments.groups);
    }
  }
  if (!has_root(collective) && arguments.root != 0) {
    return invalid("--root is for --collective broadcast, gather, scatter and reduce only");
  }
  if (algorithm != Algorithm::kMultiRing && arguments.rings) {
    return invalid("--rings is for --algorithm multi_ring only");
  }
  const uint32_t rings =
      algorithm == Algorithm::kMultiRing ? arguments.rings.value_or(map.rail_count()) : 1;
  const PlanRequest request = {collective, algorithm, rings, GlobalRank(arguments.root)};
  HORING_ASSIGN(WholePlan whole, build_whole_plan(map, request));
  return BuiltForShow{std::move(map), std::move(whole), GlobalRank(arguments.rank), {}};
}

Json flow_json(const Flow& flow, uint64_t data) {
  return {{"in", fraction(flow.in, data)}, {"out", fraction(flow.out, data)}};
}

Json op_json(const Plan& plan, const PlanOp& op) {
  Json json = {{"kind", to_string(op.kind)}, {"phase", op.phase}, {"step", op.step}};
  if (op.kind != OpKind::kCopy) {
    json["peer"] = op.peer.value();
    json["lane"] = to_string(op.lane);
    json["rail"] = op.rail.value();
    if (plan.connection_count > 1) {
      json["connection"] = op.connection;
    }
  }
  if (op.kind != OpKind::kRecv) {
    json["src"] = to_string(op.src);
  }
  if (op.kind != OpKind::kSend) {
    json["dst"] = to_string(op.dst);
  }
  if (op.final_sum) {
    json["final"] = true;
  }
  json["chunks"] = Json::array();
  for (const ChunkIndex chunk : op.chunks) {
    json["chunks"].push_back(chunk.value());
  }
  json["deps"] = op.deps;
  return json;
}

Json traffic_json(const PlanSummary& summary) {
  const Traffic& traffic = summary.traffic;
  Json json = {{"groups", Json::array()}, {"ranks", Json::array()}, {"links", Json::array()}};
  for (size_t g = 0; g < traffic.boundary.size(); ++g) {
    Json group = flow_json(traffic.boundary[g], traffic.data);
    for (const Flow& rail : traffic.rails[g]) {
      group["rails"].push_back(flow_json(rail, traffic.data));
    }
    json["groups"].push_back(std::move(group));
  }
  for (size_t r = 0; r < traffic.intra.size(); ++r) {
    json["ranks"].push_back({{"intra", flow_json(traffic.intra[r], traffic.data)},
                             {"inter", flow_json(traffic.inter[r], traffic.data)}});
  }
  for (const LinkShare& link : summary.links) {
    Json entry = flow_json(link.units, traffic.data);
    entry["peer"] = link.peer.value();
    entry["lane"] = to_string(link.lane);
    entry["rail"] = link.rail.value();
    json["links"].push_back(std::move(entry));
  }
  return json;
}

Json overlap_json(const Plan& plan, const PlanSummary& summary) {
  Json json = Json::array();
  for (const StepOverlap& overlap : summary.overlaps) {
    Json entry = {{"phase", plan.phase_names[overlap.phase]},
                  {"inter_step", overlap.step},
                  {"intra", Json::array()}};
    for (const IntraShare& intra : overlap.intra) {
      entry["intra"].push_back({{"phase", plan.phase_names[intra.phase]},
                                {"step", intra.step},
                                {"transfers", intra.free},
                                {"of", intra.total}});
    }
    json.push_back(std::move(entry));
  }
  return json;
}

Json rank_json(const std::optional<GlobalRank>& rank) {
  return rank ? Json(rank->value()) : Json();
}

Json plan_json(const BuiltForShow& built, const PlanSummary& summary) {
  const Plan& plan = built.whole.plan;
  Json json = {{"collective", to_string(plan.collective)},
               {"algorithm", to_string(plan.algorithm)},
               {"groups", built.map.to_string()},
               {"ranks", built.map.world_size()},
               {"rails", built.map.rail_count()},
               {"rank", built.rank.value()},
               {"root", plan.root.value()},
               {"whole_ops", plan.whole_ops},
               {"phase_barrier", plan.phase_barrier},
               {"blocks", plan.block_count},
               {"critical_inter_messages", summary.inter_messages},
               {"critical_inter_hops", summary.inter_hops},
               {"scratch", fraction(summary.scratch, summary.traffic.data)}};
  for (size_t p = 0; p < plan.phase_names.size(); ++p) {
    json["phases"].push_back({{"name", plan.phase_names[p]},
                              {"inter_steps", summary.steps[p].inter},
                              {"intra_steps", summary.steps[p].intra}});
  }
  json["bytes"] = traffic_json(summary);
  json["overlap"] = overlap_json(plan, summary);
  for (const BlockRole& role : plan.block_roles) {
    json["block_roles"].push_back({{"from", rank_json(role.from)}, {"to", rank_json(role.to)}});
  }
  for (const Chunk& chunk : plan.chunks) {
    json["chunks"].push_back(
        {{"block", chunk.block}, {"part", chunk.part}, {"parts", chunk.parts}});
  }
  for (const RankPlan& rank : built.whole.ranks) {
    Json ops = Json::array();
    for (const PlanOp& op : rank.ops) {
      ops.push_back(op_json(plan, op));
    }
    json["ops"].push_back(std::move(ops));
  }
  return json;
}

int fail(const Status& status) {
  std::fprintf(stderr, "horing plan: %s\n", message_text(status.to_string()).c_str());
  return status.code() == StatusCode::kInvalidArgument ? 2 : 1;
}

int show(const BuiltForShow& built, const PlanArguments& arguments) {
  if (arguments.verify) {
    if (const Status status = verify(built.whole, built.map); !status.ok()) {
      return fail(status);
    }
  }
  const auto summary = summarize(built.whole, built.map, built.rank);
  if (!summary.ok()) {
    return fail(summary.status());
  }
  if (arguments.json) {
    Json json = plan_json(built, *summary);
    json["verified"] = arguments.verify;
    std::puts(json.dump(1).c_str());
    return 0;
  }
  std::fputs((built.head + print_plan(built.whole, built.map, *summary, built.rank)).c_str(),
             stdout);
  if (arguments.verify) {
    size_t ops = 0;
    for (const RankPlan& rank : built.whole.ranks) {
      ops += rank.ops.size();
    }
    std::printf(
        "verified: %zu ops of %zu ranks pair up without a cycle or a race, in place and out of "
        "place; every contribution arrives exactly once\n",
        ops,
        built.whole.ranks.size());
  }
  return 0;
}

}  // namespace

int plan_command(int argc, const char* const* argv) {
  CLI::App app("Prints a plan: steps, bytes per link, what overlaps with what.", "horing plan");
  PlanArguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  const auto built = arguments.window.plugin_window ? build_window(arguments) : build(arguments);
  return built.ok() ? show(*built, arguments) : fail(built.status());
}

}  // namespace ho
