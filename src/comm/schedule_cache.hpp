// The plans of one communicator, laid out on its links: each is made by the first call that needs
// it, and kept.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/call_device.hpp"
#include "comm/placement.hpp"
#include "exec/engine.hpp"
#include "exec/schedule.hpp"
#include "plan/plan.hpp"

namespace ho {

// Used by the calling thread only.
class ScheduleCache {
 public:
  // All that is referred to outlives it. `communicator`: its number in messages.
  ScheduleCache(const Placement& placement,
                GlobalRank self,
                uint16_t communicator,
                CallDevice& device,
                Engine& engine)
      : placement_(placement),
        self_(self),
        communicator_(communicator),
        device_(device),
        engine_(engine) {}

  [[nodiscard]] Result<std::shared_ptr<const Schedule>> schedule_for(Collective collective,
                                                                     Algorithm algorithm,
                                                                     GlobalRank root,
                                                                     uint8_t channel);

 private:
  [[nodiscard]] Result<std::shared_ptr<const Schedule>> lay_out(BuiltPlan built, uint8_t channel);

  struct Key {
    Collective collective;
    Algorithm algorithm;
    GlobalRank root;
    uint8_t channel;
    // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm, see base/index.hpp
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  const Placement& placement_;
  const GlobalRank self_;
  const uint16_t communicator_;
  CallDevice& device_;
  Engine& engine_;
  std::map<Key, std::shared_ptr<const Schedule>> schedules_;
};

}  // namespace ho
