#include "cli/paro/validation/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/subcommands/table.hpp"

namespace paro::tool {
namespace {

using Json = nlohmann::ordered_json;
using Predictions = std::vector<RowPrediction>;

template <typename Take>
Predictions those(const Predictions& all, Take take) {
  Predictions found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), take);
  return found;
}

Predictions of_table(const Predictions& all, const PublishedTable& table) {
  return those(all, [&](const RowPrediction& each) { return each.table == &table; });
}

Predictions of_use(const Predictions& all, TableUse use) {
  return those(all, [&](const RowPrediction& each) { return each.table->use == use; });
}

std::string percent(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f}", 100 * share);
}

void add_score(std::vector<ho::Column>& columns,
               std::string name,
               std::string_view use,
               const Score& score) {
  ho::add_row(columns,
              {std::move(name),
               std::string(use),
               fmt::format("{}", score.rows),
               percent(score.mean),
               percent(score.worst),
               percent(score.without),
               fmt::format("{} of {}", score.in_order, score.pairs)});
}

std::string row_lines(const PublishedTable& table, const Predictions& predictions) {
  std::vector<ho::Column> columns{{"model", true, {}},
                                  {"GPUs", false, {}},
                                  {"batch", false, {}},
                                  {"strategy", true, {}},
                                  {"published", false, {}},
                                  {"planned", false, {}},
                                  {"error %", false, {}},
                                  {"without %", false, {}},
                                  {"", true, {}}};
  std::string notes;
  for (const RowPrediction& each : of_table(predictions, table)) {
    const PublishedRow& row = *each.row;
    ho::add_row(columns,
                {row.model,
                 fmt::format("{}", row.gpus),
                 fmt::format("{} x {}", row.micro_batch, row.accumulation),
                 letters(row.strategy),
                 fmt::format("{:.0f}", row.tokens_per_s),
                 fmt::format("{:.0f}", each.tokens_per_s),
                 each.calibrates ? "" : signed_percent(each.error()),
                 each.calibrates ? "" : signed_percent(each.without_error),
                 each.calibrates ? "calibrated" : ""});
    if (!row.note.empty()) {
      notes += fmt::format("  note: {} on {} GPUs: {}\n", row.model, row.gpus, row.note);
    }
  }
  std::string text = fmt::format(
      "\n{} ({})\n  {}, read {}\n", table.name, to_string(table.use), table.source, table.read);
  for (const std::string& assumed : table.assumed) {
    text += "  assumed: " + assumed + "\n";
  }
  return text + notes + ho::aligned(columns, "  ");
}

Json score_json(const Score& score) {
  return {{"rows", score.rows},
          {"mean_error", score.mean},
          {"worst_error", score.worst},
          {"mean_error_without_communication", score.without},
          {"pairs", score.pairs},
          {"pairs_in_order", score.in_order}};
}

Json rows_json(const Predictions& predictions) {
  Json rows = Json::array();
  for (const RowPrediction& each : predictions) {
    const PublishedRow& row = *each.row;
    rows.push_back({{"model", row.model},
                    {"gpus", row.gpus},
                    {"micro_batch", row.micro_batch},
                    {"accumulation", row.accumulation},
                    {"strategy", letters(row.strategy)},
                    {"published_tokens_per_s", row.tokens_per_s},
                    {"planned_tokens_per_s", each.tokens_per_s},
                    {"calibrates", each.calibrates},
                    {"error", each.error()},
                    {"error_without_communication", each.without_error},
                    {"note", row.note}});
  }
  return rows;
}

Json effects_json(const Effects& effects) {
  return {
      {"slowdown", effects.slowdown}, {"jitter", effects.jitter}, {"launch_s", effects.launch_s}};
}

}  // namespace

std::string validation_text(const std::vector<PublishedTable>& tables,
                            const Predictions& predictions,
                            const Effects& effects) {
  std::string text = fmt::format(
      "Tokens per second and GPU. Slowdown {}, jitter {}, launch {} us.\n"
      "Computation is calibrated on one row of each table, model and recomputation; the others are "
      "scored.\nwithout: every row as fast as the calibrated one, no communication.\n",
      effects.slowdown,
      effects.jitter,
      effects.launch_s * 1e6);
  for (const PublishedTable& table : tables) {
    text += row_lines(table, predictions);
  }
  std::vector<ho::Column> columns{{"table", true, {}},
                                  {"use", true, {}},
                                  {"rows", false, {}},
                                  {"mean %", false, {}},
                                  {"worst %", false, {}},
                                  {"without %", false, {}},
                                  {"in order", false, {}}};
  for (const PublishedTable& table : tables) {
    add_score(columns, table.name, to_string(table.use), score_of(of_table(predictions, table)));
  }
  for (const TableUse use : {TableUse::kFit, TableUse::kHeldOut}) {
    add_score(columns, "all", to_string(use), score_of(of_use(predictions, use)));
  }
  return text +
         "\nErrors by table. In order: pairs of rows of one model that differ by more than 5 "
         "%.\n\n" +
         ho::aligned(columns);
}

std::string validation_json(const std::vector<PublishedTable>& tables,
                            const Predictions& predictions,
                            const Effects& effects) {
  Json json = {{"effects", effects_json(effects)}, {"tables", Json::array()}};
  for (const PublishedTable& table : tables) {
    const Predictions rows = of_table(predictions, table);
    json["tables"].push_back({{"name", table.name},
                              {"use", to_string(table.use)},
                              {"source", table.source},
                              {"published", table.published},
                              {"read", table.read},
                              {"assumed", table.assumed},
                              {"score", score_json(score_of(rows))},
                              {"rows", rows_json(rows)}});
  }
  json["fit"] = score_json(score_of(of_use(predictions, TableUse::kFit)));
  json["held_out"] = score_json(score_of(of_use(predictions, TableUse::kHeldOut)));
  return json.dump(2) + "\n";
}

std::string fit_text(const Effects& effects, const Effects& in_use) {
  return fmt::format(
      "fitted:  slowdown {:.2f}, jitter {:.3f}\nin use:  slowdown {:.2f}, jitter {:.3f}\n",
      effects.slowdown,
      effects.jitter,
      in_use.slowdown,
      in_use.jitter);
}

std::string fit_json(const Effects& effects, const Effects& in_use) {
  const Json json = {{"fitted", effects_json(effects)}, {"in_use", effects_json(in_use)}};
  return json.dump(2) + "\n";
}

}  // namespace paro::tool
