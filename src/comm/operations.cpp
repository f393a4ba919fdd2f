// Calls become plans bound to memory: arguments are checked, an algorithm is chosen, its plan is
// built (or found again), and the engine gets both.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "comm/communicator.hpp"
#include "plan/verify.hpp"

namespace ho {
namespace {

// Ranks that build different plans would only time out later; small worlds are proven here.
Status verify_in_debug_builds([[maybe_unused]] const GroupMap& map,
                              [[maybe_unused]] const PlanRequest& request) {
#ifdef HORING_VERIFY_PLANS
  constexpr uint32_t kLargestWorld = 64;
  if (map.world_size() <= kLargestWorld) {
    HORING_ASSIGN(const WholePlan whole, build_whole_plan(map, request));
    return verify(whole, map);
  }
#endif
  return {};
}

}  // namespace

Result<std::shared_ptr<const Schedule>> Communicator::lay_out(BuiltPlan built, uint8_t channel) {
  return engine_->exclusively([&](ShmTransport& shm, Transport* network) {
    return make_schedule(std::move(built), [&](GlobalRank peer, Lane lane, RailIndex rail) {
      if (lane == Lane::kIntra && placement_.same_host(self_, peer)) {
        return device_.staged(peer, shm.link({peer, RailIndex(0), identity_.id, channel}));
      }
      if (network == nullptr) {
        return Result<Link*>(
            Status(StatusCode::kInternal,
                   fmt::format("no network for the link to rank {}", peer.value())));
      }
      if (lane == Lane::kIntra) {
        // A group may span hosts; both ends of such a link take the lower rank's rail.
        rail = placement_.map.rail_of(std::min(self_, peer)).value_or(RailIndex(0));
      }
      return device_.staged(peer, network->link({peer, rail, identity_.id, channel}));
    });
  });
}

Result<std::shared_ptr<const Schedule>> Communicator::schedule_for(Collective collective,
                                                                   Algorithm algorithm,
                                                                   GlobalRank root,
                                                                   Collective operation) {
  const ScheduleKey key{
      collective, algorithm, has_root(collective) ? root : GlobalRank(0), channel_of(operation)};
  if (const auto found = schedules_.find(key); found != schedules_.end()) {
    return found->second;
  }
  const PlanRequest request{collective, algorithm, placement_.ring_count(), key.root};
  HORING_TRY(verify_in_debug_builds(placement_.map, request));
  HORING_ASSIGN(BuiltPlan built, build_plan(placement_.map, request, self_));
  HORING_ASSIGN(auto schedule, lay_out(std::move(built), key.channel));
  schedules_.emplace(key, schedule);
  return schedule;
}

Status Communicator::bind_to_device(const CollectiveCall& requested, Call& call) {
  if (device_.work() == nullptr) {
    return {};
  }
  Result<DeviceBuffers> buffers = device_.buffers_of(requested, shape_.buffer_use(requested));
  if (!buffers.ok()) {
    // What a caller did wrong leaves the communicator as it is.
    const StatusCode code = buffers.status().code();
    return code == StatusCode::kInvalidArgument || code == StatusCode::kUnsupported
               ? buffers.status()
               : end_by_device(call, buffers.status());
  }
  call.device = *buffers;
  return {};
}

Status Communicator::end_by_device(const Call& call, const Status& status) {
  return engine_->fail_everywhere(
      {status.with_context(std::string(to_string(call.collective))), std::nullopt});
}

Result<std::shared_ptr<Operation>> Communicator::start(const CollectiveCall& requested,
                                                       bool background) {
  HORING_TRY(shape_.check(requested));
  if (!requested.recv_counts.empty()) {
    return start_all_to_all_counts(requested, background);
  }
  if (shape_.total_count(requested) == 0) {
    return std::shared_ptr<Operation>();
  }
  HORING_ASSIGN(const Algorithm algorithm,
                select_algorithm(settings_.rules, shape_.selection_input(requested)));
  HORING_ASSIGN(
      auto schedule,
      schedule_for(requested.collective, algorithm, requested.root, requested.collective));
  Call call = maker_.make(requested, algorithm, schedule->built.plan);
  HORING_TRY(bind_to_device(requested, call));
  if (call.op == ReduceOp::kPremulSum) {
    HORING_TRY(scale_input(call, requested.options.scale));
  }
  auto entry = device_.entry_of(call, requested.options.stream);
  if (!entry.ok()) {
    return end_by_device(call, entry.status());
  }
  return engine_->submit({std::move(call), std::move(schedule), background, {}, *std::move(entry)});
}

Status Communicator::finish(const std::shared_ptr<Operation>& operation) {
  if (operation == nullptr) {
    return {};
  }
  return engine_->wait(*operation, Deadline::max()).value_or(Status());
}

bool Communicator::has_device_memory(const std::shared_ptr<Operation>& operation) const {
  return device_.exists() && operation != nullptr && engine_->has_device_memory(*operation);
}

std::optional<Status> Communicator::join(const std::shared_ptr<Operation>& operation,
                                         device::StreamHandle stream,
                                         Deadline deadline) {
  HORING_TRY(device_.check_not_captured(stream).with_context("join"));
  return operation == nullptr ? Status() : engine_->join(*operation, stream, deadline);
}

Result<std::shared_ptr<Operation>> Communicator::start_barrier(const CallOptions& options,
                                                               bool background) {
  const auto token = std::make_shared<uint8_t>(uint8_t{0});
  CollectiveCall call;
  call.collective = Collective::kAllReduce;
  call.send = token.get();
  call.recv = token.get();
  call.count = 1;
  call.dtype = DType::kUint8;
  call.op = ReduceOp::kMax;
  call.options = options;
  call.options.algorithm = Algorithm::kDirect;
  call.owned = token;
  return start(call, background);
}

Status Communicator::barrier(const CallOptions& options) {
  HORING_ASSIGN(const auto operation, start_barrier(options, false));
  return finish(operation);
}

}  // namespace ho
