// Where an engine's errors and questions go: to the other members of its communicator, by
// JobControl. And what the engine asks back: rails, and the second part of an operation.
#pragma once

#include <optional>

#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/job_control.hpp"
#include "comm/placement.hpp"
#include "exec/engine_owner.hpp"

namespace ho {

class EngineUpcalls final : public EngineOwner {
 public:
  // All that is referred to outlives the engine's last turn.
  EngineUpcalls(JobControl& control,
                const JobControl::Identity& identity,
                const Placement& placement,
                GlobalRank self)
      : control_(control), identity_(identity), placement_(placement), self_(self) {}

  void on_failure(const RunError& error) override;
  void on_doubt(const MadeCall& call) override;
  [[nodiscard]] std::optional<RailIndex> rail_to(GlobalRank peer) const override;
  [[nodiscard]] Result<NextPart> make_next_part(const PartToCome& part) override;

 private:
  JobControl& control_;
  const JobControl::Identity& identity_;
  const Placement& placement_;
  const GlobalRank self_;
};

}  // namespace ho
