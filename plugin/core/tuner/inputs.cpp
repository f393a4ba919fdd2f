#include "core/tuner/inputs.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/env.hpp"

namespace ho::plugin {
namespace {

constexpr uint32_t kMaxAssumedChannels = 32;
constexpr uint32_t kMinBufferBytes = 4096;

Status untrue(const std::string& what) {
  return invalid("tuner: " + what);
}

std::string shape_text(const CommonInputs& inputs) {
  return std::to_string(inputs.node_count) + " nodes of " +
         std::to_string(inputs.least_local_ranks) + " to " +
         std::to_string(inputs.most_local_ranks) + " ranks";
}

// "0x400000" too, as NCCL reads its numbers.
std::optional<uint32_t> nccl_number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text, &end, 0);
  if (errno != 0 || *end != '\0' || value < 0 || value > UINT32_MAX) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(value);
}

bool is_set(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

// NCCL keeps to these whatever it finds.
uint32_t within_nccl_limits(uint32_t channels) {
  const uint32_t least = nccl_number("NCCL_MIN_NCHANNELS").value_or(0);
  const uint32_t most = nccl_number("NCCL_MAX_NCHANNELS").value_or(0);
  channels = std::max(channels, std::min(least, kMaxAssumedChannels));
  return most == 0 ? channels : std::min(channels, most);
}

Status take(const env::Variable& variable, uint32_t& value, uint32_t unit) {
  if (!env::text_if_set(variable)) {
    return {};
  }
  HORING_ASSIGN(const uint64_t number, env::number(variable));
  value = static_cast<uint32_t>(number) * unit;
  return {};
}

}  // namespace

uint32_t CommonInputs::channels() const {
  if (channel_count != 0) {
    return channel_count;
  }
  return std::clamp(nic_count, 1U, kMaxAssumedChannels);
}

Status check(const CommonInputs& inputs) {
  if (inputs.node_count == 0 || inputs.least_local_ranks == 0 ||
      inputs.least_local_ranks > inputs.most_local_ranks) {
    return untrue("no communicator has " + shape_text(inputs));
  }
  const uint64_t nodes = inputs.node_count;
  if (inputs.rank_count < nodes * inputs.least_local_ranks ||
      inputs.rank_count > nodes * inputs.most_local_ranks) {
    return untrue(shape_text(inputs) + " do not have " + std::to_string(inputs.rank_count) +
                  " ranks in all");
  }
  if (inputs.buffer_bytes < kSteps) {
    return untrue("a buffer of " + std::to_string(inputs.buffer_bytes) + " bytes has no " +
                  std::to_string(kSteps) + " slots");
  }
  const std::array flags{inputs.collnet_connected,
                         inputs.whole_windows,
                         inputs.sets_chunk_size,
                         inputs.reduces_all_types,
                         inputs.algorithms_filtered};
  if (std::ranges::any_of(flags, [](uint8_t flag) { return flag > 1; })) {
    return untrue("a flag is neither 0 nor 1");
  }
  return {};
}

std::string consistency_text(const CommonInputs& inputs) {
  std::string text;
  const auto add = [&text](const std::string& what, uint64_t value) {
    text += what + "=" + std::to_string(value) + "\n";
  };
  const auto named = [](const char* what, const env::Variable& variable) {
    return std::string(what) + " (" + std::string(variable.name) + ")";
  };
  add(named("numbers of NICs", env::kTunerNics), inputs.nic_count);
  add(named("Mbit/s of a NIC", env::kTunerNicMbps), inputs.nic_mbps);
  add(named("Mbit/s of a rail", env::kTunerRailMbps), inputs.rail_mbps);
  add(named("Mbit/s of a GPU inside its node", env::kTunerIntraMbps), inputs.intra_mbps);
  add(named("channels of CollNet", env::kTunerChannels), inputs.channel_count);
  add(named("ns per hop", env::kTunerHopUs), inputs.hop_ns);
  add("bytes of NCCL's buffers (NCCL_BUFFSIZE)", inputs.buffer_bytes);
  add("whether NCCL_ALGO or NCCL_PROTO is set,", inputs.algorithms_filtered);
  const uint64_t digest = inputs.tuning_file_digest;
  text += named("tuning files", env::kTuningFile) + "=" +
          (digest == 0                ? "no rules"
           : digest == kBadTuningFile ? "a file that cannot be used (see that rank's log)"
                                      : "rules of digest " + std::to_string(digest)) +
          "\n";
  return text;
}

Result<CommonInputs> with_environment(CommonInputs inputs) {
  HORING_TRY(take(env::kTunerNics, inputs.nic_count, 1));
  HORING_TRY(take(env::kTunerNicMbps, inputs.nic_mbps, 1));
  if (inputs.rail_mbps == 0) {
    inputs.rail_mbps = inputs.nic_mbps;
  }
  HORING_TRY(take(env::kTunerRailMbps, inputs.rail_mbps, 1));
  HORING_TRY(take(env::kTunerIntraMbps, inputs.intra_mbps, 1));
  HORING_TRY(take(env::kTunerHopUs, inputs.hop_ns, 1000));
  inputs.channel_count = within_nccl_limits(inputs.channels());
  HORING_TRY(take(env::kTunerChannels, inputs.channel_count, 1));
  // NCCL uses its default where it cannot read the number.
  inputs.buffer_bytes =
      std::max(nccl_number("NCCL_BUFFSIZE").value_or(inputs.buffer_bytes), kMinBufferBytes);
  if (is_set("NCCL_ALGO") || is_set("NCCL_PROTO")) {
    inputs.algorithms_filtered = 1;
  }
  return inputs;
}

}  // namespace ho::plugin
