#include "cli/plugin/tune_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/quantity.hpp"
#include "cli/subcommands/table.hpp"
#include "core/tuner/chunk.hpp"

namespace ho {
namespace {

using plugin::Choice;
using plugin::Choices;
using plugin::TunedCollective;
using Json = nlohmann::ordered_json;

std::string name(Choice choice) {
  return std::string(to_string(choice));
}

// Why an all-gather or reduce-scatter through CollNet takes the bytes that it takes.
std::string flight_text(const plugin::CommonInputs& inputs,
                        TunedCollective collective,
                        Choice candidate,
                        uint64_t bytes) {
  const uint64_t block = plugin::block_bytes(inputs, bytes);
  if (block == 0) {
    return "";
  }
  const double blocks =
      static_cast<double>(plugin::in_flight_bytes(inputs, collective, candidate, bytes)) /
      static_cast<double>(block);
  const double most = inputs.node_count;
  return ", " + (blocks >= most ? "all" : fmt::format("{:.2g}", blocks)) + " of " +
         std::to_string(inputs.node_count) + " blocks in flight";
}

std::string why(const plugin::CommonInputs& inputs,
                const plugin::Question& question,
                const plugin::Costs& costs,
                const plugin::Decision& decision) {
  if (inputs.node_count < 2) {
    return "one node: no rail";
  }
  if (decision.candidate == Choice::kDefault) {
    return "NCCL allows no rail ring here";
  }
  if (decision.rival == Choice::kDefault) {
    return "NCCL allows nothing but what goes through CollNet";
  }
  std::string text = name(decision.candidate) + " takes " +
                     fixed(costs.of(decision.candidate) / costs.of(decision.rival), 2) + " of " +
                     name(decision.rival) + "'s time";
  if (question.collective != TunedCollective::kAllReduce) {
    text += flight_text(inputs, question.collective, decision.candidate, question.bytes);
  }
  return text;
}

// Of a choice that NCCL does not allow on such nodes.
std::string why_impossible(const TuneOptions& options, TunedCollective collective, Choice choice) {
  if (!plugin::can_be(collective, choice)) {
    return "NCCL has no such algorithm for " + std::string(to_string(collective));
  }
  if (options.nodes < 2) {
    return "one node";
  }
  if (!nccl_settings_leave(options, collective, choice)) {
    return "NCCL_ALGO or NCCL_PROTO leaves it out";
  }
  switch (choice) {
    case Choice::kCollNetDirect:
      return "NCCL rules it out without an NVSwitch, and the tuner allows it again with one rank "
             "per node only; see --nvswitch";
    case Choice::kNvls:
    case Choice::kNvlsTree:
      return "the nodes have no NVLS; see --nvls";
    case Choice::kPat:
      return "NCCL has it with one rank per node only";
    default:
      return "NCCL does not allow it";
  }
}

struct Query {
  const TuneOptions& options;
  const plugin::Tuner& tuner;
  const plugin::TuningFile& file;
  TunedCollective collective;
  Choices allowed;
};

std::string rule_text(const Query& query, uint32_t line) {
  const auto& rules = query.file.rules();
  const auto rule = std::ranges::find(rules, line, &plugin::TuningRule::line);
  const std::string where = query.options.file + ":" + std::to_string(line);
  if (rule == rules.end() || rule->choice == Choice::kDefault || rule->choice == Choice::kOwn ||
      query.allowed.has(rule->choice)) {
    return where;
  }
  return where + " has " + name(rule->choice) + ", which is not possible here (" +
         why_impossible(query.options, query.collective, rule->choice) + ")";
}

uint64_t middle(uint64_t first, uint64_t last) {
  const double product = static_cast<double>(first) * static_cast<double>(last);
  return std::clamp(static_cast<uint64_t>(std::sqrt(product)), first, last);
}

TuneRow row_of(const Query& query, const plugin::ChoiceRange& range, uint64_t end) {
  TuneRow row;
  row.first_bytes = std::max(range.first_bytes, query.options.min_bytes);
  row.last_bytes = std::min(end, query.options.max_bytes);
  row.choice = range.choice;
  for (const Choice choice : plugin::kOwnChoices) {
    row.own = query.allowed.has(choice) ? row.own.with(choice) : row.own;
  }
  if (row.choice == Choice::kOwn && row.own == Choices()) {
    row.choice =
        Choice::kDefault;  // where nothing else is allowed the tuner leaves the table alone
  }
  row.timed_bytes = middle(row.first_bytes, row.last_bytes);
  const plugin::CommonInputs& inputs = query.tuner.inputs();
  const plugin::Question question{query.collective, row.timed_bytes, false};
  row.costs = modelled_costs(inputs, question);
  for (const Choice choice : plugin::kAlgorithmChoices) {
    if (!query.allowed.has(choice)) {
      row.costs.ns[static_cast<size_t>(choice)] = std::numeric_limits<double>::infinity();
    }
  }
  row.why = range.line != 0 ? rule_text(query, range.line)
            : query.allowed == Choices()
                ? "NCCL_ALGO and NCCL_PROTO leave nothing: NCCL ends with an error"
                : why(inputs, question, row.costs, decide(row.costs, query.allowed));
  return row;
}

std::vector<TuneRow> rows_of(const Query& query) {
  std::vector<TuneRow> rows;
  const auto ranges =
      query.tuner.ranges(query.collective, false, allowed_by_nccl(query.options, query.collective));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const uint64_t end = i + 1 < ranges.size() ? ranges[i + 1].first_bytes - 1 : UINT64_MAX;
    if (end >= query.options.min_bytes && ranges[i].first_bytes <= query.options.max_bytes) {
      rows.push_back(row_of(query, ranges[i], end));
    }
  }
  return rows;
}

// The algorithms that any row has a time of.
std::vector<Choice> timed(const std::vector<TuneRow>& rows) {
  std::vector<Choice> found;
  for (const Choice choice : plugin::kAlgorithmChoices) {
    if (std::ranges::any_of(
            rows, [&](const TuneRow& row) { return std::isfinite(row.costs.of(choice)); })) {
      found.push_back(choice);
    }
  }
  return found;
}

// "ring or tree": what NCCL has to choose among where it is left its own.
std::string own_text(Choices allowed) {
  std::string text;
  for (const Choice choice : plugin::kOwnChoices) {
    if (allowed.has(choice)) {
      text += (text.empty() ? "" : " or ") + name(choice);
    }
  }
  return text;
}

std::string choice_text(const TuneRow& row) {
  switch (row.choice) {
    case Choice::kDefault:
      return "NCCL's";
    case Choice::kOwn:
      return own_text(row.own);
    default:
      return name(row.choice);
  }
}

std::string rows_text(const std::vector<TuneRow>& rows) {
  const std::vector<Choice> algorithms = timed(rows);
  auto columns = headed("rrrr", {"from", "to", "choice", "us at"});
  for (const Choice choice : algorithms) {
    columns.push_back({name(choice), false, {}});
  }
  columns.push_back({"why", true, {}});
  for (const TuneRow& row : rows) {
    std::vector<std::string> cells{exact_bytes_text(row.first_bytes),
                                   exact_bytes_text(row.last_bytes),
                                   choice_text(row),
                                   exact_bytes_text(row.timed_bytes)};
    for (const Choice choice : algorithms) {
      const double ns = row.costs.of(choice);
      cells.push_back(std::isfinite(ns) ? fixed(ns / 1000, 1) : "-");
    }
    cells.push_back(row.why);
    add_row(columns, std::move(cells));
  }
  return aligned(columns, "  ");
}

std::string inputs_text(const plugin::CommonInputs& inputs) {
  const std::string intra = inputs.intra_mbps == 0
                                ? "no limit inside"
                                : fmt::format("{:g} Gbit/s inside", inputs.intra_mbps / 1e3);
  return counted(inputs.node_count, "node") + " of " + counted(inputs.most_local_ranks, "rank") +
         ", " + counted(inputs.nic_count, "NIC") + " and " + counted(inputs.head_count, "head") +
         " each; per NIC " + std::to_string(inputs.rail_mbps) + " Mbit/s for rail rings and " +
         std::to_string(inputs.nic_mbps) + " for NCCL's sends; " + intra + "; " +
         fmt::format("{:g} us per hop; ", inputs.hop_ns / 1e3) +
         counted(inputs.channels(), "channel") + " of " + exact_bytes_text(inputs.buffer_bytes) +
         "\n";
}

Json row_json(const TuneRow& row) {
  Json times = Json::object();
  for (const Choice choice : plugin::kAlgorithmChoices) {
    if (std::isfinite(row.costs.of(choice))) {
      times[name(choice)] = row.costs.of(choice) / 1000;
    }
  }
  Json json = {
      {"min_bytes", row.first_bytes}, {"max_bytes", row.last_bytes}, {"choice", name(row.choice)}};
  if (row.choice == Choice::kOwn) {
    json["own"] = Json::array();
    for (const Choice choice : plugin::kOwnChoices) {
      if (row.own.has(choice)) {
        json["own"].push_back(name(choice));
      }
    }
  }
  json["timed_bytes"] = row.timed_bytes;
  json["times_us"] = std::move(times);
  json["why"] = row.why;
  return json;
}

}  // namespace

Result<TuneReport> tune_report(const TuneOptions& options, const plugin::TuningFile& file) {
  HORING_ASSIGN(const plugin::Tuner tuner, plugin::Tuner::make(inputs_of(options), file));
  TuneReport report;
  report.inputs = tuner.inputs();
  report.from_environment = options.from_environment;
  for (const TunedCollective collective : plugin::kTunedCollectives) {
    report.rows[static_cast<size_t>(collective)] =
        rows_of({options, tuner, file, collective, allowed_by(options, collective)});
  }
  return report;
}

std::string to_string(const TuneReport& report) {
  std::string text = inputs_text(report.inputs);
  for (const std::string& variable : report.from_environment) {
    text += "from the environment: " + variable + "\n";
  }
  for (const TunedCollective collective : plugin::kTunedCollectives) {
    text += "\n" + std::string(to_string(collective)) + "\n" +
            rows_text(report.rows[static_cast<size_t>(collective)]);
  }
  return text;
}

std::string to_json(const TuneReport& report) {
  const plugin::CommonInputs& inputs = report.inputs;
  Json json = {{"nodes", inputs.node_count},
               {"ranks_per_node", inputs.most_local_ranks},
               {"nics", inputs.nic_count},
               {"heads", inputs.head_count},
               {"rail_mbps", inputs.rail_mbps},
               {"nic_mbps", inputs.nic_mbps},
               {"intra_mbps", inputs.intra_mbps},
               {"hop_us", inputs.hop_ns / 1e3},
               {"channels", inputs.channels()},
               {"buffer_bytes", inputs.buffer_bytes},
               {"sets_chunk_size", inputs.sets_chunk_size == 1}};
  json["from_environment"] = report.from_environment;
  for (const TunedCollective collective : plugin::kTunedCollectives) {
    Json rows = Json::array();
    for (const TuneRow& row : report.rows[static_cast<size_t>(collective)]) {
      rows.push_back(row_json(row));
    }
    json["collectives"][std::string(to_string(collective))] = std::move(rows);
  }
  // A file's path may be no UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ho
