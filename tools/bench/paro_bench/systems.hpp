// What is compared: libparo's strategies, and what users run today, as those systems do it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "cost/links.hpp"
#include "strategy/strategy.hpp"

namespace paro::bench {

struct System {
  std::string name;  // "IIG", "IIG/ring", "zero3"
  Strategy strategy;
  WorldAlgorithm world = WorldAlgorithm::kHoRing;
  bool is_baseline = false;  // what each does: docs/reference/measuring.md
  // Gradients go to the optimizer's scope after every micro-batch, not once per step. libparo does
  // that as steps of one micro-batch each, so such a system updates as often too.
  bool syncs_each_micro_batch = false;
};

// Names with commas between: strategies by letters ("IIG": with HO-Ring; "IIG/ring": its
// collectives over all ranks as flat rings, one for every NIC), baselines ("zero3"), "ours" (all
// 14), "baselines", "all". Each once.
[[nodiscard]] ho::Result<std::vector<System>> parse_systems(std::string_view text);

// ddp, zero1, zero2, zero3, mics, hsdp, hpz. All with flat rings over the world, one for
// every NIC, as NCCL has.
[[nodiscard]] const std::vector<System>& baselines();

}  // namespace paro::bench
