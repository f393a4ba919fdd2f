#include "comm/join_job.hpp"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <thread>

#include "base/log.hpp"
#include "bootstrap/control/store_rendezvous.hpp"
#include "exec/failures.hpp"

namespace ho {

Status reported_as(const Status& why, const std::string& own_trouble) {
  const bool of_others = why.code() == StatusCode::kTimeout || why.code() == StatusCode::kPeerLost;
  return of_others ? why : why.with_context(own_trouble);
}

void tell_others(ControlPlane& plane, const Status& why) {
  const uint32_t self = plane.rendezvous().rank;
  const Status reported = reported_as(why, fmt::format("rank {} created no communicator", self));
  plane.report({reported.code(), GlobalRank(self), {}, reported.message()});
}

Status first_of(const Status& own, const Status& said) {
  const bool explains = said.code() != StatusCode::kTimeout || own.code() == StatusCode::kTimeout;
  return said.ok() || !explains ? own : said;
}

Status first_cause(ControlPlane& plane, Status own) {
  if (plane.rendezvous().world_size == 1) {
    return own;
  }
  constexpr std::chrono::milliseconds kLongest =
      Failures::kDecisionTimeout;  // the control plane ends it earlier
  constexpr std::chrono::milliseconds kPause{5};
  const Deadline end = deadline_after(kLongest);
  Status said = plane.why_over({});
  while (said.ok() && !passed(end)) {
    std::this_thread::sleep_for(kPause);
    said = plane.why_over({});
  }
  return first_of(own, said);
}

Result<KeyedPlane> join_job(const CommunicatorConfig& config, Deadline deadline) {
  if (config.store != nullptr) {
    return join_through_store(*config.store, config.store_key, config.rendezvous, deadline);
  }
  HORING_ASSIGN(auto plane, ControlPlane::create(config.rendezvous, config.key, deadline));
  return KeyedPlane{std::move(plane), config.key};
}

Status join_to_refuse(const CommunicatorConfig& config, Status why) {
  // The others may never connect.
  constexpr std::chrono::seconds kTimeToTell{10};
  if (config.rendezvous.world_size > 1) {
    log_error("{}; waiting at most {} s for the other ranks, to report it to them",
              why.message(),
              kTimeToTell.count());
    const auto joined = join_job(config, deadline_after(kTimeToTell));
    if (joined.ok()) {
      tell_others(*joined->plane, why);
    }
  }
  return why;
}

}  // namespace ho
