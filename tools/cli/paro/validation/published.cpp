#include "cli/paro/validation/published.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/names.hpp"
#include "base/quantity.hpp"
#include "cli/paro/validation/embedded.hpp"

namespace paro::tool {
namespace {

constexpr ho::Names<4> kUses{"fit", "held out", "default MFU", "shown"};
constexpr ho::Names<3> kRecomputations{"none", "selective", "full"};

// at() of a key that is not there, and values of another type, throw: parse_published() catches.
template <typename Enumerator, size_t kCount>
Enumerator named(const nlohmann::json& json, const char* key, const ho::Names<kCount>& names) {
  const auto text = json.at(key).get<std::string>();
  const auto* const found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw std::invalid_argument(fmt::format("{} {}: takes {}", key, text, fmt::join(names, ", ")));
  }
  return static_cast<Enumerator>(found - names.begin());
}

double rate(const nlohmann::json& json, const char* key) {
  const auto parsed = ho::parse_rate(key, json.at(key).get<std::string>());
  if (!parsed.ok()) {
    throw std::invalid_argument(std::string(parsed.status().message()));
  }
  return *parsed;
}

// Operations of a token as Megatron's paper counts them: with recomputation, and all of attention.
double megatron_flops(const PublishedTable& table, const PublishedRow& row) {
  const double h = row.shape->hidden;
  const double layers = row.layers;
  return 96 * layers * h * h *
         (1 + table.sequence / (6 * h) + table.vocabulary / (16 * layers * h));
}

// A row with a shape: its batch is of all GPUs, its speed in TFLOP/s of a GPU or a step's seconds.
void set_shape(PublishedRow& row, const nlohmann::json& json, const PublishedTable& table) {
  PublishedShape shape;
  shape.hidden = json.at("hidden").get<double>();
  shape.heads = json.at("heads").get<double>();
  shape.sizes.tensor = json.at("tp").get<uint32_t>();
  shape.sizes.pipeline = json.at("pp").get<uint32_t>();
  shape.sizes.parts = json.value("interleave", 1U);
  row.shape = shape;
  const auto batch = json.at("batch").get<uint32_t>();
  const uint64_t of_micro_batches =
      row.gpus / shape.sizes.ranks_of_replica() * row.micro_batch;  // sequences on all GPUs
  if (of_micro_batches == 0 || batch % of_micro_batches != 0) {
    throw std::invalid_argument(row.model +
                                ": batch is no multiple of the replicas' micro-batches");
  }
  row.accumulation = static_cast<uint32_t>(batch / of_micro_batches);
  row.tokens_per_s = json.contains("step_s")
                         ? batch * table.sequence / row.gpus / json.at("step_s").get<double>()
                         : json.at("tflops").get<double>() * 1e12 / megatron_flops(table, row);
}

PublishedRow row_of(const nlohmann::json& json, const PublishedTable& table) {
  PublishedRow row;
  row.model = json.at("model").get<std::string>();
  row.layers = json.at("layers").get<uint32_t>();
  row.gpus = json.at("gpus").get<uint32_t>();
  row.micro_batch = json.at("micro_batch").get<uint32_t>();
  const auto strategy = parse_strategy(json.at("strategy").get<std::string>());
  if (!strategy.ok()) {
    throw std::invalid_argument(std::string(strategy.status().message()));
  }
  row.strategy = *strategy;
  row.recomputation = named<Recompute>(json, "recompute", kRecomputations);
  row.note = json.value("note", "");
  if (table.use == TableUse::kDefaultMfu) {
    set_shape(row, json, table);
    return row;
  }
  row.parameters = json.at("parameters").get<double>();
  row.accumulation = json.at("accumulation").get<uint32_t>();
  row.tokens_per_s = json.at("tokens_per_s").get<double>();
  return row;
}

PublishedMemory memory_of(const nlohmann::json& json, const PublishedTable& table) {
  const auto model = json.at("model").get<std::string>();
  const auto row =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const PublishedRow& each) {
        return each.model == model && each.shape;
      });
  if (row == table.rows.end()) {
    throw std::invalid_argument(fmt::format("memory_gib: no row has the shape of {}", model));
  }
  return {static_cast<size_t>(row - table.rows.begin()),
          json.at("states").get<double>(),
          json.at("activations").get<double>(),
          json.at("activations, selective").get<double>()};
}

GpuCluster machine_of(const nlohmann::json& json) {
  GpuCluster machine;
  machine.gpus_per_node = json.at("gpus_per_node").get<uint32_t>();
  machine.gpu_bytes_per_s = rate(json, "nvlink");
  machine.nics = json.at("nics").get<double>();
  machine.nic_bytes_per_s = rate(json, "nic");
  machine.network = json.at("network").get<std::string>();
  return machine;
}

PublishedTable table_of(const nlohmann::json& json) {
  PublishedTable table;
  table.name = json.at("name").get<std::string>();
  table.use = named<TableUse>(json, "use", kUses);
  table.source = json.at("source").get<std::string>();
  table.published = json.at("published").get<std::string>();
  table.read = json.at("read").get<std::string>();
  table.assumed = json.at("assumed").get<std::vector<std::string>>();
  table.machine = machine_of(json.at("machine"));
  table.sequence = json.at("sequence").get<double>();
  if (table.use == TableUse::kDefaultMfu) {
    table.gpu = json.at("gpu").get<std::string>();
    table.vocabulary = json.at("vocabulary").get<double>();
  } else {
    table.parameter_bytes = json.at("parameter_bytes").get<double>();
    table.gradient_bytes = json.at("gradient_bytes").get<double>();
    table.overlap = json.at("overlap").get<bool>();
  }
  for (const nlohmann::json& row : json.at("rows")) {
    table.rows.push_back(row_of(row, table));
    if (table.rows.back().tokens_per_s <= 0 || table.rows.back().gpus == 0) {
      throw std::invalid_argument("a row without tokens_per_s or gpus");
    }
  }
  for (const nlohmann::json& memory : json.value("memory_gib", nlohmann::json::array())) {
    table.memory.push_back(memory_of(memory, table));
  }
  return table;
}

}  // namespace

GpuCluster cluster_of(const PublishedTable& table, const PublishedRow& row) {
  GpuCluster cluster = table.machine;
  cluster.gpus_per_node = std::min(cluster.gpus_per_node, row.gpus);
  cluster.nodes = row.gpus / cluster.gpus_per_node;
  return cluster;
}

std::string_view to_string(TableUse use) {
  return ho::name_in(kUses, use);
}

ho::Result<PublishedTable> parse_published(std::string_view text, std::string_view name) {
  try {
    return table_of(nlohmann::json::parse(text));
  } catch (const std::exception& error) {
    return ho::invalid(fmt::format("{}: {}", name, error.what()));
  }
}

ho::Result<std::vector<PublishedTable>> published_tables() {
  std::vector<PublishedTable> tables;
  for (const EmbeddedFile& file : embedded_tables()) {
    HORING_ASSIGN(PublishedTable table, parse_published(file.text, file.name));
    tables.push_back(std::move(table));
  }
  std::stable_sort(
      tables.begin(), tables.end(), [](const auto& a, const auto& b) { return a.use < b.use; });
  return tables;
}

}  // namespace paro::tool
