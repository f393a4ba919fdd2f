// A communicator in use. A start checks the arguments, chooses an algorithm, finds its plan, binds
// the call to the device and gives it to the engine: none of these calls back.
#include "comm/communicator.hpp"

#include <spdlog/fmt/fmt.h>

#include "base/env.hpp"
#include "base/log.hpp"
#include "comm/counted_exchange.hpp"

namespace ho {
namespace {

void write_trace(const std::string& path,
                 const TraceBuffer& trace,
                 GlobalRank rank,
                 uint64_t job_id) {
  const Status status = trace.append_to(path, rank.value(), job_id);
  if (!status.ok()) {
    log_error("{}: {}", env::kTrace.name, status.message());
  }
}

}  // namespace

void Communicator::close() {
  if (control_ == nullptr) {
    return;
  }
  if (engine_ != nullptr) {
    // First of all: others may wait for operations that this rank will not enter, and requests of
    // this rank for theirs.
    control_->leave(identity_.communicator_id);
    engine_->close();
    if (!settings_.trace_path.empty()) {
      write_trace(settings_.trace_path,
                  engine_->trace(),
                  identity_.ranks[self_.at()],
                  control_->plane().job_id());
    }
  }
  control_->remove(identity_.communicator_id);
  control_.reset();
}

Communicator::~Communicator() {
  close();
}

Status Communicator::abort(const std::string& reason) {
  const GlobalRank world = identity_.ranks[self_.at()];
  const Status why(
      StatusCode::kAborted,
      fmt::format("{}rank {} called abort: {}",
                  identity_.id == 0 ? "" : fmt::format("communicator {}: ", identity_.id),
                  world.value(),
                  reason.empty() ? "no reason given" : reason));
  engine_->fail(why);
  control_->fail(identity_.communicator_id,
                 {StatusCode::kAborted, world, std::nullopt, why.message()});
  // What was split from it has ended on this rank too when this returns.
  (void)control_->await_end(identity_.communicator_id, why);
  return {};
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
    return start_counted(requested, background);
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

Result<std::shared_ptr<Operation>> Communicator::start_counted(const CollectiveCall& requested,
                                                               bool background) {
  const uint32_t world = placement_.map.world_size();
  HORING_TRY(check_counted_world(world));
  PartToCome data;
  const auto wanted =
      requested.options.algorithm ? requested.options.algorithm : settings_.rules.forced;
  data.rows = std::make_shared<CountRows>(requested, wanted, world);
  data.call = maker_.begin(requested, Algorithm::kHoRing);
  data.call.counts_per_pair = true;
  HORING_TRY(bind_to_device(requested, data.call));
  data.rules = settings_.rules;
  data.input = shape_.selection_input(requested);
  data.most = shape_.most_per_rank(requested.dtype);
  for (const Algorithm algorithm :
       {wanted.value_or(Algorithm::kHoRing), wanted.value_or(Algorithm::kDirect)}) {
    HORING_ASSIGN(data.schedules[algorithm],
                  schedules_->schedule_for(
                      requested.collective, algorithm, GlobalRank(0), data.call.channel));
  }

  const CollectiveCall rows = rows_call(data.rows, requested.options);
  SelectionRules by_size = settings_.rules;
  by_size.forced.reset();
  HORING_ASSIGN(const Algorithm algorithm, select_algorithm(by_size, shape_.selection_input(rows)));
  HORING_ASSIGN(
      auto schedule,
      schedules_->schedule_for(rows.collective, algorithm, GlobalRank(0), data.call.channel));
  Call call = maker_.make(rows, algorithm, schedule->built.plan);
  call.collective = requested.collective;
  call.channel = data.call.channel;
  call.counts_per_pair = true;
  call.deadline = data.call.deadline;
  data.call.digest = call.digest;  // the counts are compared by themselves
  auto entry = device_.entry_of(data.call, requested.options.stream);
  if (!entry.ok()) {
    return end_by_device(data.call, entry.status());
  }
  return engine_->submit({std::move(call),
                          std::move(schedule),
                          background,
                          std::make_shared<const PartToCome>(std::move(data)),
                          *std::move(entry)});
}

Result<std::shared_ptr<Operation>> Communicator::start(const PointToPointCall& requested,
                                                       bool background) {
  const Transfer transfer = maker_.transfer(requested);
  HORING_TRY(shape_.check(transfer));
  const void* buffer = requested.sends ? requested.data : requested.into;
  if (device_.work() != nullptr && requested.count > 0) {
    HORING_ASSIGN(const bool on_device,
                  device_.is_device_memory(transfer.name(), buffer, transfer.bytes()));
    if (on_device) {
      return Status(StatusCode::kUnsupported,
                    transfer.name() +
                        ": device memory; sends and receives move memory of the host, copy it "
                        "there first");
    }
  }
  return engine_->submit(transfer, background);
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
