#include "core/tuner/basis.hpp"

#include <algorithm>
#include <utility>

#include "base/env.hpp"
#include "base/log.hpp"

namespace ho::plugin {
namespace {

uint32_t clamped(uint64_t number) {
  return static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX));
}

// Where nodes cannot have equally many, the fewest and the most that any of them can have.
CommunicatorShape::Local assumed(const CommunicatorShape& shape) {
  if (shape.nodes == 0 || shape.ranks < shape.nodes) {
    return {};
  }
  const uint64_t even = shape.ranks / shape.nodes;
  return shape.ranks % shape.nodes == 0
             ? CommunicatorShape::Local{even, even}
             : CommunicatorShape::Local{1, shape.ranks - shape.nodes + 1};
}

bool fits(const CommunicatorShape& shape, const CommunicatorShape::Local& local) {
  return local.least > 0 && shape.nodes <= shape.ranks / local.least &&
         local.most >= (shape.ranks + shape.nodes - 1) / std::max<uint64_t>(1, shape.nodes) &&
         local.most <= shape.ranks;
}

CommonInputs with_shape(CommonInputs inputs, const CommunicatorShape& shape) {
  const CommunicatorShape::Local local =
      shape.local && fits(shape, *shape.local) ? *shape.local : assumed(shape);
  inputs.node_count = clamped(shape.nodes);
  inputs.rank_count = clamped(shape.ranks);
  inputs.least_local_ranks = clamped(local.least);
  inputs.most_local_ranks = clamped(local.most);
  return inputs;
}

}  // namespace

Result<TunerBasis> TunerBasis::from_environment(std::span<const uint32_t> nic_mbps,
                                                bool reduces_all_types) {
  CommonInputs inputs;
  inputs.reduces_all_types = reduces_all_types ? 1 : 0;
  Result<TuningFile> file = tuning_file_from_environment();
  inputs.tuning_file_digest = file.ok() ? file->digest() : kBadTuningFile;
  if (nic_mbps.empty()) {
    return TunerBasis(inputs, std::move(file));
  }
  inputs.nic_count = clamped(nic_mbps.size());
  inputs.nic_mbps = *std::ranges::min_element(nic_mbps);
  HORING_ASSIGN(const CommonInputs with_settings, with_environment(inputs));
  TunerBasis basis(with_settings, std::move(file));
  basis.devices_ = inputs;
  basis.levels_ = levels_from_environment();
  return basis;
}

TunerBasis::TunerBasis(const CommonInputs& inputs, Result<TuningFile> file)
    : inputs_(inputs), file_(std::move(file)) {}

Result<std::unique_ptr<Tuner>> TunerBasis::tuner_for(const CommunicatorShape& shape) const {
  if (!file_.ok()) {
    return file_.status();
  }
  if (!levels_.ok()) {
    return levels_.status();
  }
  CommonInputs inputs = with_shape(inputs_, shape);
  if (*levels_ && inputs.node_count > 1) {
    auto found = on_levels(**levels_, with_shape(devices_, shape));
    if (found.ok()) {
      HORING_ASSIGN(inputs, with_environment(*found));
    } else {
      log_warn("horing plugin: {}: {}; the tuner goes by this node's devices",
               env::kLevelsFile.name,
               found.status().message());
    }
  }
  inputs.head_count = std::min({inputs.nic_count, inputs.most_local_ranks, kMaxDirectRanks});
  inputs.sets_chunk_size = shape.asks_chunk_sizes ? 1 : 0;
  inputs.collnet_connected = shape.collnet_connected ? 1 : 0;
  HORING_ASSIGN(Tuner tuner, Tuner::make(inputs, *file_));
  return std::make_unique<Tuner>(std::move(tuner));
}

}  // namespace ho::plugin
