// Published tables of training throughput, as data: tables/*.json, which the build takes in. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "model/flops.hpp"
#include "planner/nccl.hpp"
#include "planner/parallelism.hpp"
#include "strategy/strategy.hpp"

namespace paro::tool {

// Of a GPT whose computation is planned, not calibrated.
struct PublishedShape {
  double hidden = 0;
  double heads = 0;
  Parallelism sizes;
};

struct PublishedRow {
  std::string model;
  double parameters = 0;
  uint32_t layers = 1;
  uint32_t gpus = 1;
  uint32_t micro_batch = 1;   // sequences of a GPU
  uint32_t accumulation = 1;  // micro-batches of a step
  Strategy strategy;
  Recompute recomputation = Recompute::kNone;
  double tokens_per_s = 0;              // of a GPU
  std::string note;                     // on what is odd about it; may be empty
  std::optional<PublishedShape> shape;  // where the table's use is kDefaultMfu
};

// Of a GPU, in GiB.
struct PublishedMemory {
  size_t row = 0;  // the first one of that model
  double states_gib = 0;
  double activations_gib = 0;
  double selective_gib = 0;  // with selective recomputation and sequence parallelism
};

// What a table is there for: constants are fitted on it, it was held out from that, it is planned
// with the GPU's default MFU, or it lacks what a score would need.
enum class TableUse : uint8_t { kFit, kHeldOut, kDefaultMfu, kListed };
// Of the mean error of what is planned with the default MFU, and of memory.
inline constexpr double kDefaultMfuTarget = 0.12;
inline constexpr double kMemoryTarget = 0.03;
[[nodiscard]] std::string_view to_string(TableUse use);

struct PublishedTable {
  std::string name;
  TableUse use = TableUse::kListed;
  std::string source;
  std::string published;  // 2023-11
  std::string read;       // when the source was read
  std::vector<std::string> assumed;
  GpuCluster machine;  // its nodes come from a row's GPUs
  double sequence = 0;
  double parameter_bytes = 2;
  double gradient_bytes = 2;
  bool overlap = true;
  std::string gpu;        // by name, where the use is kDefaultMfu
  double vocabulary = 0;  // the same
  std::vector<PublishedRow> rows;
  std::vector<PublishedMemory> memory;
};

// The machines of a row.
[[nodiscard]] GpuCluster cluster_of(const PublishedTable& table, const PublishedRow& row);

// `name` stands for the file in errors.
[[nodiscard]] ho::Result<PublishedTable> parse_published(std::string_view text,
                                                         std::string_view name);

// Those that the build took in, fitted ones first.
[[nodiscard]] ho::Result<std::vector<PublishedTable>> published_tables();

}  // namespace paro::tool
