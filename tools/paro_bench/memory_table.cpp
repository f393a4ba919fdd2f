#include "paro_bench/memory_table.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "paro/columns.hpp"

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
  return fmt::format(
      "{:.2f}/{:.2f}", static_cast<double>(held) / 1e6, static_cast<double>(predicted) / 1e6);
}

}  // namespace

std::string memory_text(std::span<const Outcome* const> outcomes) {
  std::vector<tool::Column> columns{{"system", true, {}}};
  for (const StateField& field : kStates) {
    columns.push_back({field.head, false, {}});
  }
  columns.push_back({"all", false, {}});
  for (const Outcome* outcome : outcomes) {
    const tool::PeakMemory& memory = outcome->last().memory;
    columns.front().cells.push_back(outcome->system.name);
    for (size_t i = 0; i < kStates.size(); ++i) {
      const Purpose purpose = kStates[i].purpose;
      columns[i + 1].cells.push_back(
          held_and_predicted(memory.actual[purpose], memory.predicted[purpose]));
    }
    columns.back().cells.push_back(
        held_and_predicted(memory.actual.total(), memory.predicted.total()));
  }
  return "Memory of the fullest rank when it held most, in MB: held/predicted.\n" +
         tool::aligned(columns);
}

nlohmann::json memory_json(const MemoryUse& use) {
  nlohmann::json json = nlohmann::json::object();
  for (const StateField& field : kStates) {
    json[field.key] = use[field.purpose];
  }
  return json;
}

}  // namespace paro::bench
