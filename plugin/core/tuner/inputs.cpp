#include "core/tuner/inputs.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/env.hpp"

namespace ho::plugin {
namespace {

constexpr uint32_t kMostAssumedChannels = 32;

Status untrue(const std::string& what) {
  return {StatusCode::kInvalidArgument, "tuner: " + what};
}

// Of two values of which 0 means not known.
uint32_t least_known(uint32_t one, uint32_t other) {
  if (one == 0 || other == 0) {
    return std::max(one, other);
  }
  return std::min(one, other);
}

std::string shape_text(const AgreedInputs& inputs) {
  return std::to_string(inputs.node_count) + " nodes of " +
         std::to_string(inputs.least_local_ranks) + " to " +
         std::to_string(inputs.most_local_ranks) + " ranks";
}

// A rank may know its own node's ranks only.
Status check_statement(const AgreedInputs& stated) {
  if (stated.node_count == 0 || stated.least_local_ranks == 0 ||
      stated.least_local_ranks > stated.most_local_ranks) {
    return untrue("no communicator has " + shape_text(stated));
  }
  if (stated.buffer_bytes < kSteps) {
    return untrue("a buffer of " + std::to_string(stated.buffer_bytes) + " bytes has no " +
                  std::to_string(kSteps) + " slots");
  }
  const std::array flags{stated.collnet_connected,
                         stated.whole_windows,
                         stated.sets_chunk_size,
                         stated.reduces_all_types,
                         stated.algorithms_filtered};
  if (std::any_of(flags.begin(), flags.end(), [](uint8_t flag) { return flag > 1; })) {
    return untrue("a flag is neither 0 nor 1");
  }
  return {};
}

Status check_equal(const AgreedInputs& one, const AgreedInputs& other) {
  if (one.node_count != other.node_count || one.rank_count != other.rank_count) {
    return {StatusCode::kMismatch,
            "tuner: ranks disagree about the communicator: " + std::to_string(one.rank_count) +
                " ranks on " + std::to_string(one.node_count) + " nodes, and " +
                std::to_string(other.rank_count) + " on " + std::to_string(other.node_count)};
  }
  if (one.tuning_file_digest != other.tuning_file_digest) {
    return {StatusCode::kMismatch,
            "tuner: ranks have different tuning files; give all ranks the same " +
                std::string(env::kTuningFile.name) + " with the same contents"};
  }
  return {};
}

// A rate that is not known to one rank is not known: the ranks could not use another's guess.
void merge(AgreedInputs& all, const AgreedInputs& one) {
  all.least_local_ranks = std::min(all.least_local_ranks, one.least_local_ranks);
  all.most_local_ranks = std::max(all.most_local_ranks, one.most_local_ranks);
  all.nic_count = std::min(all.nic_count, one.nic_count);
  all.head_count = std::min(all.head_count, one.head_count);
  all.channel_count = least_known(all.channel_count, one.channel_count);
  all.buffer_bytes = std::min(all.buffer_bytes, one.buffer_bytes);
  all.nic_mbps = std::min(all.nic_mbps, one.nic_mbps);
  all.rail_mbps = std::min(all.rail_mbps, one.rail_mbps);
  all.intra_mbps = least_known(all.intra_mbps, one.intra_mbps);
  all.hop_ns = std::max(all.hop_ns, one.hop_ns);
  all.intra_hop_ns = std::max(all.intra_hop_ns, one.intra_hop_ns);
  all.collnet_connected = std::min(all.collnet_connected, one.collnet_connected);
  all.whole_windows = std::min(all.whole_windows, one.whole_windows);
  all.sets_chunk_size = std::min(all.sets_chunk_size, one.sets_chunk_size);
  all.reduces_all_types = std::min(all.reduces_all_types, one.reduces_all_types);
  all.algorithms_filtered = std::max(all.algorithms_filtered, one.algorithms_filtered);
}

Status take(const env::Variable& variable, uint32_t& value, uint32_t unit) {
  if (env::text_if_set(variable).value_or("").empty()) {
    return {};
  }
  HORING_ASSIGN(const uint64_t number, env::number(variable));
  value = static_cast<uint32_t>(number) * unit;
  return {};
}

}  // namespace

uint32_t AgreedInputs::channels() const {
  if (channel_count != 0) {
    return channel_count;
  }
  return std::clamp(2 * std::min(nic_count, kMostAssumedChannels), 2U, kMostAssumedChannels);
}

Status check(const AgreedInputs& agreed) {
  HORING_TRY(check_statement(agreed));
  const uint64_t nodes = agreed.node_count;
  if (agreed.rank_count < nodes * agreed.least_local_ranks ||
      agreed.rank_count > nodes * agreed.most_local_ranks) {
    return untrue(shape_text(agreed) + " do not have " + std::to_string(agreed.rank_count) +
                  " ranks in all");
  }
  return {};
}

Result<AgreedInputs> agree(std::span<const AgreedInputs> stated) {
  if (stated.empty()) {
    return untrue("nobody stated anything");
  }
  AgreedInputs all = stated.front();
  for (size_t i = 0; i < stated.size(); ++i) {
    if (const Status status = check_statement(stated[i]); !status.ok()) {
      return status.with_context("statement " + std::to_string(i));
    }
    HORING_TRY(check_equal(all, stated[i]));
    merge(all, stated[i]);
  }
  std::fill(std::begin(all.unused), std::end(all.unused), uint8_t{0});
  HORING_TRY(check(all));
  return all;
}

Result<AgreedInputs> with_environment(AgreedInputs stated) {
  HORING_TRY(take(env::kTunerNicMbps, stated.nic_mbps, 1));
  if (stated.rail_mbps == 0) {
    stated.rail_mbps = stated.nic_mbps;
  }
  HORING_TRY(take(env::kTunerRailMbps, stated.rail_mbps, 1));
  HORING_TRY(take(env::kTunerIntraMbps, stated.intra_mbps, 1));
  HORING_TRY(take(env::kTunerHopUs, stated.hop_ns, 1000));
  return stated;
}

}  // namespace ho::plugin
