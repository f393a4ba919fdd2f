// How a rank joins its job, and what the other ranks hear of one that cannot go on. Nobody may wait
// for such a rank, and its own error may only follow from another rank's.
#pragma once

#include <string>

#include "base/status.hpp"
#include "bootstrap/control/control_plane.hpp"
#include "comm/configuration.hpp"
#include "os/clock.hpp"

namespace ho {

// Collective over the job.
[[nodiscard]] Result<KeyedPlane> join_job(const CommunicatorConfig& config, Deadline deadline);
// For a rank that cannot take part: joins the job only to report `why`, which it returns.
[[nodiscard]] Status join_to_refuse(const CommunicatorConfig& config, Status why);

// Why this rank could not go on, as reported to the others. A timeout, or that a peer is gone, is
// not this rank's own failure: such a text names the rank to blame first.
[[nodiscard]] Status reported_as(const Status& why, const std::string& own_trouble);
// A rank cannot take part. The others wait for it, and would otherwise see only that it is gone.
void tell_others(ControlPlane& plane, const Status& why);

// Chooses between this rank's own error and the reported one: its own may only be a consequence.
// A reported timeout explains nothing but other timeouts.
[[nodiscard]] Status first_of(const Status& own, const Status& said);
// The same of this rank's own error and the job's, for which it waits some seconds.
[[nodiscard]] Status first_cause(ControlPlane& plane, Status own);

}  // namespace ho
