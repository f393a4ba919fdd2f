#include "comm/settings.hpp"

#include "base/env.hpp"
#include "os/affinity.hpp"
#include "os/copy_rate.hpp"
#include "plan/plan.hpp"
#include "transport/frame.hpp"
#include "transport/network/networks.hpp"

namespace ho {
namespace {

Result<std::optional<Algorithm>> forced_algorithm() {
  const std::string name = env::text(env::kAlgorithm);
  if (name == "auto") {
    return std::optional<Algorithm>();
  }
  Result<Algorithm> parsed = parse_algorithm(name);
  if (!parsed.ok()) {
    return parsed.status().with_context(std::string(env::kAlgorithm.name));
  }
  return std::optional<Algorithm>(*parsed);
}

}  // namespace

Result<CommunicatorSettings> CommunicatorSettings::from_environment() {
  static_assert(env::kPieceBytes.range->most <= kMaxPayloadBytes, "a piece is one message");
  // All of them, also those that are read later or only in some cases.
  env::warn_of_misspelt_names();
  HORING_TRY(env::check_numbers());
  CommunicatorSettings settings;
  HORING_ASSIGN(settings.rules.forced, forced_algorithm());
  HORING_ASSIGN(settings.rules.direct_max_bytes, env::number(env::kDirectMaxBytes));
  HORING_ASSIGN(settings.limits.piece_bytes, env::number(env::kPieceBytes));
  HORING_ASSIGN(settings.limits.scratch_bytes, env::number(env::kScratchBytes));
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kTimeoutMs));
  HORING_ASSIGN(const uint64_t connect_ms, env::number(env::kConnectTimeoutMs));
  HORING_ASSIGN(settings.ring_bytes, env::number(env::kShmRingBytes));
  HORING_ASSIGN(settings.device_sharing, env::flag(env::kDeviceSharing));
  HORING_TRY(env::check_value(env::kDeviceSums));
  if (const std::string adds = env::text(env::kDeviceSums); adds != "auto") {
    settings.device_adds_pinned = adds == "device";
  }
  if (env::text(env::kShmSingleCopy) == "auto") {
    settings.single_copy = single_copy_is_faster();
  } else {
    HORING_ASSIGN(settings.single_copy, env::flag(env::kShmSingleCopy));
  }
  settings.timeout = std::chrono::milliseconds(timeout_ms);
  settings.connect_timeout = std::chrono::milliseconds(connect_ms);
  HORING_ASSIGN(settings.network, network_of(env::text(env::kTransport)));
  settings.trace_path = env::text(env::kTrace);
  settings.record_dir = env::text(env::kRecordDir);
  return settings;
}

// Spinning while another rank waits for the core only delays that rank.
Result<std::chrono::nanoseconds> spin_time(size_t ranks_on_host) {
  if (env::text(env::kSpinUs) != "auto") {
    HORING_ASSIGN(const uint64_t us, env::number(env::kSpinUs));
    return std::chrono::nanoseconds(std::chrono::microseconds(us));
  }
  HORING_ASSIGN(const auto cpus, allowed_cpus());
  constexpr std::chrono::microseconds kSpin{20};
  return ranks_on_host < cpus.size() ? std::chrono::nanoseconds(kSpin)
                                     : std::chrono::nanoseconds(0);
}

}  // namespace ho
