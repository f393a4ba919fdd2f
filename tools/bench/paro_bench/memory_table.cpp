#include "bench/paro_bench/memory_table.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/subcommands/table.hpp"

namespace paro::bench {
namespace {

struct StateField {
  Purpose purpose;
  const char* head;
  const char* key;
};

constexpr std::array<StateField, kPurposeCount> kStates{{
    {Purpose::kParameters, "parameters", "parameters"},
    {Purpose::kGradients, "gradients", "gradients"},
    {Purpose::kOptimizer, "optimizer", "optimizer"},
    {Purpose::kGathered, "gathered", "gathered_parameters"},
    {Purpose::kOutput, "backward's output", "backward_output"},
    {Purpose::kScratch, "packing", "packing"},
}};

std::string held_and_predicted(uint64_t held, uint64_t predicted) {
  return ho::megabytes(held) + "/" + ho::megabytes(predicted);
}

}  // namespace

std::string memory_text(std::span<const Outcome> outcomes) {
  std::vector<ho::Column> columns{{"system", true, {}}};
  for (const StateField& field : kStates) {
    columns.push_back({field.head, false, {}});
  }
  columns.push_back({"all", false, {}});
  for (const Outcome& outcome : outcomes) {
    const tool::PeakMemory& memory = outcome.last().memory;
    std::vector<std::string> cells{outcome.system.name};
    for (const StateField& field : kStates) {
      cells.push_back(
          held_and_predicted(memory.actual[field.purpose], memory.predicted[field.purpose]));
    }
    cells.push_back(held_and_predicted(memory.actual.total(), memory.predicted.total()));
    ho::add_row(columns, std::move(cells));
  }
  return "Memory of the fullest rank when it held most, in MB: held/predicted.\n" +
         ho::aligned(columns);
}

nlohmann::json memory_json(const MemoryUse& use) {
  nlohmann::json json = nlohmann::json::object();
  for (const StateField& field : kStates) {
    json[field.key] = use[field.purpose];
  }
  return json;
}

}  // namespace paro::bench
