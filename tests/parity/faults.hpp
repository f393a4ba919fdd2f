// Classic mistakes of sharded training, put between libparo and what it calls: the linker sends the
// calls that meson.build lists to faults.cpp (--wrap). Nothing of it is in libparo.
#pragma once

#include <cstdint>

namespace paro::test {

enum class Fault : uint8_t {
  kNone,
  kAverageTwice,           // a reduction averages, and the optimizer divides again
  kNormOverGroup,          // the squared norm summed inside the group only
  kSkipGroupsOfOne,        // no sync-g between groups where groups have one rank
  kFlagInGroup,            // the overflow flag shared inside the group only
  kOverwriteAccumulation,  // each micro-batch's gradients replace those before
  kForgetUnitOfBucket,     // a bucket's last unit is not in its messages
};

// In every job of this process from now on; between jobs.
void inject(Fault fault);
// Plans that verify() should have refused since then, and did not.
[[nodiscard]] uint32_t wrong_plans_accepted();
// Those that it has refused.
[[nodiscard]] uint32_t wrong_plans_refused();

}  // namespace paro::test
