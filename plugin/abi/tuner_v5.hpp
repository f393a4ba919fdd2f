// Tuner plugins, version 5 (since NCCL 2.28): the constants of NCCL's cost model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "abi/tuner_v3.hpp"

namespace nccl_abi::v5 {

using v3::cost_of;
using v3::kIgnoredCost;

// Indices of TunerConstants count these.
inline constexpr int kLinkCount = 3;        // NVLink, PCI, network
inline constexpr int kGenerationCount = 4;  // Volta, Ampere, Hopper, Blackwell
inline constexpr int kScaleCount = 3;       // one node, two nodes, more

struct NvlDomainInfo {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
};
static_assert(offsetof(NvlDomainInfo, nNvlDomains) == 0);
static_assert(offsetof(NvlDomainInfo, minRanksPerNvlDomain) == 4);
static_assert(offsetof(NvlDomainInfo, maxRanksPerNvlDomain) == 8);
static_assert(sizeof(NvlDomainInfo) == 12);

// Holds NCCL's own values when init() is called, and counts from its return on.
struct TunerConstants {
  double baseLatencies[kAlgorithmCount][kProtocolCount];  // us, like the next
  double hwLatencies[kLinkCount][kAlgorithmCount][kProtocolCount];
  double llMaxBws[kGenerationCount][kScaleCount];  // GB/s, like what follows
  double perChMaxRingLL128Bws[kGenerationCount][kScaleCount];
  double perChMaxTreeLL128Bws[kGenerationCount][kScaleCount];
  double perChMaxTreeBws[kGenerationCount][kScaleCount];
  double perChMaxNVLSTreeBws[kGenerationCount][kScaleCount];
};
static_assert(offsetof(TunerConstants, baseLatencies) == 0);
static_assert(offsetof(TunerConstants, hwLatencies) == 168);
static_assert(offsetof(TunerConstants, llMaxBws) == 672);
static_assert(offsetof(TunerConstants, perChMaxRingLL128Bws) == 768);
static_assert(offsetof(TunerConstants, perChMaxTreeLL128Bws) == 864);
static_assert(offsetof(TunerConstants, perChMaxTreeBws) == 960);
static_assert(offsetof(TunerConstants, perChMaxNVLSTreeBws) == 1056);
static_assert(sizeof(TunerConstants) == 1152);

// Of version 6 too.
using TunerInit = Result(void** context,
                         uint64_t communicator_id,
                         size_t ranks,
                         size_t nodes,
                         DebugLogger logger,
                         NvlDomainInfo* domains,
                         TunerConstants* constants);

struct Tuner {
  const char* name;
  TunerInit* init;
  // `costs`: see v3::cost_of().
  CostsInfo* getCollInfo;
  Result (*finalize)(void* context);
};
static_assert(tuner_in_place<Tuner>());
static_assert(sizeof(Tuner) == 32);

}  // namespace nccl_abi::v5
