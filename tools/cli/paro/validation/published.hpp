// Published tables of training throughput, as data: tables/*.json, which the build takes in. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "planner/nccl.hpp"
#include "strategy/strategy.hpp"

namespace paro::tool {

enum class Recomputation : uint8_t { kNone, kSelective, kFull };

struct PublishedRow {
  std::string model;
  double parameters = 0;
  uint32_t layers = 1;
  uint32_t gpus = 1;
  uint32_t micro_batch = 1;   // sequences of a GPU
  uint32_t accumulation = 1;  // micro-batches of a step
  Strategy strategy;
  Recomputation recomputation = Recomputation::kNone;
  double tokens_per_s = 0;  // of a GPU
  std::string note;         // on what is odd about it; may be empty
};

// What a table is there for: constants are fitted on it, it was held out from that, or it lacks
// what a score would need.
enum class TableUse : uint8_t { kFit, kHeldOut, kListed };
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
  std::vector<PublishedRow> rows;
};

// `name` stands for the file in errors.
[[nodiscard]] ho::Result<PublishedTable> parse_published(std::string_view text,
                                                         std::string_view name);

// Those that the build took in, fitted ones first.
[[nodiscard]] ho::Result<std::vector<PublishedTable>> published_tables();

}  // namespace paro::tool
