// Calls become plans bound to memory: arguments are checked, an algorithm is chosen, its plan is
// built (or found again), and the engine gets both.
#include "comm/communicator.hpp"

namespace ho {

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
      schedules_->schedule_for(
          requested.collective, algorithm, requested.root, channel_of(requested.collective)));
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
