#include "cli/paro/names_table.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <string>
#include <vector>

#include "cli/subcommands/table.hpp"
#include "machine/machine.hpp"
#include "model/known_models.hpp"

namespace paro::tool {
namespace {

struct NamedModel {
  std::string_view name;
  Transformer model;
};

const std::array kModelFields{
    ho::Field<NamedModel>{"model", true, [](const auto& row) { return std::string(row.name); }},
    ho::Field<NamedModel>{"family", true, [](const auto& row) { return row.model.family; }},
    ho::Field<NamedModel>{
        "parameters",
        false,
        [](const auto& row) { return fmt::format("{:.0f}", parameters_of(row.model).total); }},
    ho::Field<NamedModel>{
        "of a token",
        false,
        [](const auto& row) { return fmt::format("{:.0f}", parameters_of(row.model).active); }},
    ho::Field<NamedModel>{
        "layers", false, [](const auto& row) { return std::to_string(row.model.layers.size()); }},
    ho::Field<NamedModel>{
        "hidden", false, [](const auto& row) { return fmt::format("{}", row.model.hidden); }},
};

template <Precision kPrecision>
std::string tflops(const Gpu& gpu) {
  const double rate = gpu.tflops.at(static_cast<size_t>(kPrecision));
  return rate > 0 ? fmt::format("{}", rate) : "-";
}

const std::array kGpuFields{
    ho::Field<Gpu>{"GPU", true, [](const Gpu& gpu) { return std::string(gpu.name); }},
    ho::Field<Gpu>{"GB", false, [](const Gpu& gpu) { return fmt::format("{}", gpu.memory_gb); }},
    ho::Field<Gpu>{"fp32", false, tflops<Precision::kFp32>},
    ho::Field<Gpu>{"tf32", false, tflops<Precision::kTf32>},
    ho::Field<Gpu>{"fp16", false, tflops<Precision::kFp16>},
    ho::Field<Gpu>{"bf16", false, tflops<Precision::kBf16>},
    ho::Field<Gpu>{"fp8", false, tflops<Precision::kFp8>},
    ho::Field<Gpu>{"link", true, [](const Gpu& gpu) { return std::string(to_string(gpu.link)); }},
    ho::Field<Gpu>{
        "GB/s", false, [](const Gpu& gpu) { return fmt::format("{}", gpu.link_gbytes); }},
    ho::Field<Gpu>{"read", true, [](const Gpu& gpu) { return std::string(gpu.source.read); }},
    ho::Field<Gpu>{"source", true, [](const Gpu& gpu) { return std::string(gpu.source.page); }},
};

const std::array kMachineFields{
    ho::Field<Instance>{"machine", true, [](const auto& row) { return std::string(row.name); }},
    ho::Field<Instance>{"GPUs", false, [](const auto& row) { return std::to_string(row.gpus); }},
    ho::Field<Instance>{"GPU", true, [](const auto& row) { return std::string(row.gpu); }},
    ho::Field<Instance>{"NICs", false, [](const auto& row) { return std::to_string(row.nics); }},
    ho::Field<Instance>{
        "Gbit/s", false, [](const auto& row) { return fmt::format("{}", row.nic_gbit); }},
    ho::Field<Instance>{
        "network", true, [](const auto& row) { return std::string(to_string(row.network)); }},
    ho::Field<Instance>{"read", true, [](const auto& row) { return std::string(row.source.read); }},
    ho::Field<Instance>{
        "source", true, [](const auto& row) { return std::string(row.source.page); }},
};

}  // namespace

std::string names_text() {
  std::vector<NamedModel> models;
  for (const std::string_view name : known_models()) {
    if (const auto model = known_model(name); model.ok()) {
      models.push_back({name, *model});
    }
  }
  const std::vector<Gpu> gpus(known_gpus().begin(), known_gpus().end());
  const std::vector<Instance> machines(known_instances().begin(), known_instances().end());
  return ho::aligned(ho::columns_of(kModelFields, models)) + "\n" +
         ho::aligned(ho::columns_of(kGpuFields, gpus)) + "\n" +
         ho::aligned(ho::columns_of(kMachineFields, machines));
}

}  // namespace paro::tool
