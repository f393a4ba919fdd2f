#include "cli/paro/validation/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/names.hpp"
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

std::string speed_text(double tokens_per_s) {
  constexpr double kFew = 100;
  return fmt::format("{:.{}f}", tokens_per_s, tokens_per_s < kFew ? 1 : 0);
}

// "NNN", and what is beside data parallelism.
std::string strategy_text(const PublishedRow& row) {
  const std::string name = letters(row.strategy);
  if (!row.shape || row.shape->sizes.alone()) {
    return name;
  }
  const Parallelism& sizes = row.shape->sizes;
  return fmt::format("{}, tp {} pp {}", name, sizes.tensor, sizes.pipeline);
}

constexpr ho::Names<3> kRecomputationTexts{"", ", selective", ", full"};

// Rows of a table with shapes differ in it.
std::string model_text(const PublishedRow& row) {
  return row.shape ? row.model + std::string(ho::name_in(kRecomputationTexts, row.recomputation))
                   : row.model;
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
                {model_text(row),
                 fmt::format("{}", row.gpus),
                 fmt::format("{} x {}", row.micro_batch, row.accumulation),
                 strategy_text(row),
                 speed_text(row.tokens_per_s),
                 speed_text(each.tokens_per_s),
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

constexpr std::string_view kNotHeldOut =
    "default MFU: computation by the GPU's default MFU, nothing calibrated; errors are of the "
    "step's "
    "seconds. The A100's default comes from llm-foundry's MPT 1B and 3B on 8 GPUs, and was chosen "
    "when these tables were known: not held out.";

struct MemoryScore {
  double mean = 0;
  double worst = 0;
};
MemoryScore memory_score(const std::vector<MemoryPrediction>& memory) {
  MemoryScore score;
  for (const MemoryPrediction& each : memory) {
    score.mean += std::abs(each.error()) / static_cast<double>(memory.size());
    score.worst = std::max(score.worst, std::abs(each.error()));
  }
  return score;
}

std::string memory_lines(const std::vector<MemoryPrediction>& memory) {
  std::vector<ho::Column> columns{{"table", true, {}},
                                  {"model", true, {}},
                                  {"", true, {}},
                                  {"published", false, {}},
                                  {"planned", false, {}},
                                  {"error %", false, {}}};
  for (const MemoryPrediction& each : memory) {
    ho::add_row(columns,
                {each.table->name,
                 std::string(each.model),
                 std::string(each.what),
                 fmt::format("{:.2f}", each.published_gib),
                 fmt::format("{:.2f}", each.planned_gib),
                 signed_percent(each.error())});
  }
  return fmt::format("\nMemory of a GPU in GiB: mean error {} % (target {} %).\n\n{}",
                     percent(memory_score(memory).mean),
                     kMemoryTarget * 100,
                     ho::aligned(columns));
}

Json memory_json(const std::vector<MemoryPrediction>& memory) {
  const MemoryScore score = memory_score(memory);
  Json json = {{"target", kMemoryTarget},
               {"mean_error", score.mean},
               {"worst_error", score.worst},
               {"rows", Json::array()}};
  for (const MemoryPrediction& each : memory) {
    json["rows"].push_back({{"table", each.table->name},
                            {"model", each.model},
                            {"what", each.what},
                            {"published_gib", each.published_gib},
                            {"planned_gib", each.planned_gib},
                            {"error", each.error()}});
  }
  return json;
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
    rows.push_back({{"model", model_text(row)},
                    {"gpus", row.gpus},
                    {"micro_batch", row.micro_batch},
                    {"accumulation", row.accumulation},
                    {"strategy", strategy_text(row)},
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

std::string validation_text(const ValidationReport& report) {
  const auto& [tables, predictions, memory, effects] = report;
  std::string text = fmt::format(
      "Tokens per second and GPU. Slowdown {}, jitter {}, launch {} us.\n"
      "Computation is calibrated on one row of each table, model and recomputation; the others are "
      "scored.\nwithout: every row as fast as the calibrated one, no communication.\n{}\n",
      effects.slowdown,
      effects.jitter,
      effects.launch_s * 1e6,
      kNotHeldOut);
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
  for (const TableUse use : {TableUse::kFit, TableUse::kHeldOut, TableUse::kDefaultMfu}) {
    add_score(columns, "all", to_string(use), score_of(of_use(predictions, use)));
  }
  return text +
         fmt::format(
             "\nErrors by table. In order: pairs of rows of one model that differ by more "
             "than 5 %. Target of default MFU: a mean of {} %.\n\n",
             kDefaultMfuTarget * 100) +
         ho::aligned(columns) + memory_lines(memory);
}

std::string validation_json(const ValidationReport& report) {
  const auto& [tables, predictions, memory, effects] = report;
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
  json["default_mfu"] = score_json(score_of(of_use(predictions, TableUse::kDefaultMfu)));
  json["default_mfu"]["target"] = kDefaultMfuTarget;
  json["default_mfu"]["note"] = kNotHeldOut;
  json["memory"] = memory_json(memory);
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
