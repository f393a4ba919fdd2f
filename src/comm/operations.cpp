// Calls become plans bound to memory: arguments are checked, an algorithm is chosen, its plan is
// built (or found again), and the engine gets both.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"
#include "comm/communicator.hpp"
#include "plan/verify.hpp"

namespace ho {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
constexpr uint8_t kPointToPointChannel = 3;

// All-gathers and reduce-scatters do not queue behind each other, nor behind the rest.
uint8_t channel_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return 0;
    case Collective::kReduceScatter:
      return 1;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return 2;
  }
  return 2;
}

bool reduces(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllReduce;
}

bool by_rank(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter;
}

Status invalid(const CollectiveCall& call, std::string_view what) {
  return {StatusCode::kInvalidArgument,
          std::string(to_string(call.collective)) + ": " + std::string(what)};
}

// Of what is not in a message header as it is.
uint16_t digest_of(const CollectiveCall& call) {
  Hash hash;
  hash.add(call.collective == Collective::kBroadcast ? call.root.value() : 0);
  for (const size_t count : call.counts) {
    hash.add(count);
  }
  return static_cast<uint16_t>(hash.value());
}

struct Range {
  uintptr_t begin;
  uintptr_t end;
  [[nodiscard]] bool overlaps(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
};

Range range_of(const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + bytes};
}

Status check_counts(const CollectiveCall& call, uint32_t world) {
  if (!call.counts.empty() && call.counts.size() != world) {
    return invalid(call, fmt::format("{} counts for {} ranks", call.counts.size(), world));
  }
  const uint64_t most = kMaxBytes / size_bytes(call.dtype) / world;
  const auto too_large = [most](size_t count) { return count > most; };
  if (too_large(call.count) || std::any_of(call.counts.begin(), call.counts.end(), too_large)) {
    return invalid(call, "a count beyond 64 TiB in all; is it negative?");
  }
  if (call.collective == Collective::kBroadcast && call.root.value() >= world) {
    return invalid(call, fmt::format("root {} of {} ranks", call.root.value(), world));
  }
  return {};
}

Status check_reduction(const CollectiveCall& call) {
  if (reduces(call.collective) && !reduction_supported(call.dtype, call.op)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: no {} of {}; average a wider type, or sum and divide",
                        to_string(call.collective),
                        to_string(call.op),
                        to_string(call.dtype))};
  }
  const bool narrow = call.dtype == DType::kFloat16 || call.dtype == DType::kBfloat16;
  const bool sums = call.op == ReduceOp::kSum || call.op == ReduceOp::kAvg;
  if (call.options.fp32_sums && (!reduces(call.collective) || !narrow || !sums)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: fp32_sums is for sum and avg of half and bfloat16",
                        to_string(call.collective))};
  }
  return {};
}

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

uint64_t Communicator::total_count(const CollectiveCall& call) const {
  if (!call.counts.empty()) {
    uint64_t sum = 0;
    for (const size_t count : call.counts) {
      sum += count;
    }
    return sum;
  }
  return by_rank(call.collective) ? uint64_t{call.count} * placement_.map.world_size() : call.count;
}

Status Communicator::check(const CollectiveCall& call) const {
  HORING_TRY(check_counts(call, placement_.map.world_size()));
  HORING_TRY(check_reduction(call));
  return check_buffers(call);
}

// Null buffers, and overlaps that are not the in-place ones of horing.h.
Status Communicator::check_buffers(const CollectiveCall& call) const {
  const size_t element = size_bytes(call.dtype);
  const uint64_t total = total_count(call) * element;
  const uint64_t own = (call.counts.empty() ? call.count : call.counts[self_.at()]) * element;
  const bool gathers = call.collective == Collective::kAllGather;
  const bool scatters = call.collective == Collective::kReduceScatter;
  const uint64_t send_bytes = gathers ? own : total;
  const uint64_t recv_bytes = scatters ? own : total;
  const bool reads =
      send_bytes > 0 && (call.collective != Collective::kBroadcast || call.root == self_);
  if ((reads && call.send == nullptr) || (recv_bytes > 0 && call.recv == nullptr)) {
    return invalid(call, "a null buffer with elements to move");
  }
  uint64_t before = 0;
  for (uint32_t r = 0; r < self_.value(); ++r) {
    before += (call.counts.empty() ? call.count : call.counts[r]) * element;
  }
  const Range send = range_of(call.send, send_bytes);
  const Range recv = range_of(call.recv, recv_bytes);
  const bool in_place = send.begin + (scatters ? before : 0) == recv.begin + (gathers ? before : 0);
  if (reads && !in_place && send.overlaps(recv)) {
    return invalid(call,
                   "send and receive buffers overlap without being in place; horing.h says which "
                   "addresses are in place");
  }
  return {};
}

void Communicator::set_deadline(Call& call, const CallOptions& options) const {
  call.timeout = options.timeout.value_or(settings_.timeout);
  call.deadline = deadline_after(call.timeout);
}

Result<Call> Communicator::make_call(const CollectiveCall& asked,
                                     Algorithm algorithm,
                                     const Plan& plan) const {
  Call call;
  call.collective = asked.collective;
  call.algorithm = algorithm;
  call.dtype = asked.dtype;
  call.op = reduces(asked.collective) ? asked.op : ReduceOp::kSum;
  call.fp32_sums = asked.options.fp32_sums;
  const bool root_reads = asked.collective != Collective::kBroadcast || asked.root == self_;
  call.input = static_cast<const std::byte*>(root_reads ? asked.send : asked.recv);
  call.output = static_cast<std::byte*>(asked.recv);
  call.count = total_count(asked);
  call.digest = digest_of(asked);
  call.self = self_;
  call.world_size = placement_.map.world_size();
  call.communicator = id_;
  call.channel = channel_of(asked.collective);
  call.block_counts.reserve(plan.block_count);
  for (uint32_t b = 0; b < plan.block_count; ++b) {
    if (!by_rank(asked.collective)) {
      const uint64_t end = call.count * (b + 1) / plan.block_count;
      call.block_counts.push_back(end - call.count * b / plan.block_count);
    } else {
      call.block_counts.push_back(asked.counts.empty() ? asked.count : asked.counts[b]);
    }
  }
  set_deadline(call, asked.options);
  return call;
}

Result<std::shared_ptr<const Schedule>> Communicator::lay_out(BuiltPlan built, uint8_t channel) {
  return engine_->exclusively([&](ShmTransport& shm, Transport* network) {
    return make_schedule(std::move(built), [&](GlobalRank peer, Lane lane, RailIndex rail) {
      if (lane == Lane::kIntra && placement_.same_host(self_, peer)) {
        return shm.link({peer, RailIndex(0), id_, channel});
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
      return network->link({peer, rail, id_, channel});
    });
  });
}

Result<std::shared_ptr<const Schedule>> Communicator::schedule_for(Collective collective,
                                                                   Algorithm algorithm,
                                                                   GlobalRank root) {
  const ScheduleKey key{
      collective, algorithm, collective == Collective::kBroadcast ? root : GlobalRank(0)};
  if (const auto found = schedules_.find(key); found != schedules_.end()) {
    return found->second;
  }
  const PlanRequest request{collective, algorithm, placement_.ring_count(), key.root};
  HORING_TRY(verify_in_debug_builds(placement_.map, request));
  HORING_ASSIGN(BuiltPlan built, build_plan(placement_.map, request, self_));
  HORING_ASSIGN(auto schedule, lay_out(std::move(built), channel_of(collective)));
  schedules_.emplace(key, schedule);
  return schedule;
}

Result<std::shared_ptr<Operation>> Communicator::start(const CollectiveCall& asked,
                                                       bool background) {
  HORING_TRY(check(asked));
  if (total_count(asked) == 0) {
    return std::shared_ptr<Operation>();
  }
  const SelectionInput input{asked.collective,
                             total_count(asked) * size_bytes(asked.dtype),
                             asked.options.fp32_sums,
                             asked.options.algorithm};
  HORING_ASSIGN(const Algorithm algorithm, select_algorithm(settings_.rules, input));
  HORING_ASSIGN(auto schedule, schedule_for(asked.collective, algorithm, asked.root));
  HORING_ASSIGN(Call call, make_call(asked, algorithm, schedule->built.plan));
  return engine_->submit(std::move(call), std::move(schedule), background);
}

Result<std::shared_ptr<Operation>> Communicator::start(const PointToPointCall& asked,
                                                       bool background) {
  const char* verb = asked.sends ? "send" : "recv";
  if (asked.peer.value() >= placement_.map.world_size() || asked.peer == self_) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: peer {} of {} ranks; it must be another rank",
                              verb,
                              asked.peer.value(),
                              placement_.map.world_size()));
  }
  if (asked.count == 0) {
    return std::shared_ptr<Operation>();
  }
  if ((asked.sends ? asked.data : asked.into) == nullptr ||
      asked.count > kMaxBytes / size_bytes(asked.dtype)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: a null buffer, or a count beyond 64 TiB", verb));
  }
  auto& schedule = point_to_point_[{asked.peer, asked.sends}];
  if (schedule == nullptr) {
    BuiltPlan built;
    built.plan.collective = Collective::kBroadcast;
    built.plan.block_count = 1;
    built.plan.chunks = {Chunk{}};
    PlanOp op;
    op.kind = asked.sends ? OpKind::kSend : OpKind::kRecv;
    const bool same_group = placement_.map.group_of(self_) == placement_.map.group_of(asked.peer);
    op.lane = same_group ? Lane::kIntra : Lane::kInter;
    op.peer = asked.peer;
    op.rail = placement_.map.rail_of(std::min(self_, asked.peer)).value_or(RailIndex(0));
    op.chunks = {ChunkIndex(0)};
    built.mine.ops.push_back(std::move(op));
    HORING_ASSIGN(schedule, lay_out(std::move(built), kPointToPointChannel));
  }
  Call call;
  call.collective = Collective::kBroadcast;
  call.point_to_point = true;
  call.dtype = asked.dtype;
  call.input = static_cast<const std::byte*>(asked.data);
  call.output = static_cast<std::byte*>(asked.into);
  call.count = asked.count;
  call.block_counts = {asked.count};
  call.self = self_;
  call.world_size = placement_.map.world_size();
  call.communicator = id_;
  call.channel = kPointToPointChannel;
  set_deadline(call, asked.options);
  return engine_->submit(std::move(call), schedule, background);
}

Status Communicator::finish(const std::shared_ptr<Operation>& operation) {
  if (operation == nullptr) {
    return {};
  }
  return engine_->wait(*operation, Deadline::max()).value_or(Status());
}

Status Communicator::barrier(const CallOptions& options) {
  uint8_t token = 0;
  CollectiveCall call;
  call.collective = Collective::kAllReduce;
  call.send = &token;
  call.recv = &token;
  call.count = 1;
  call.dtype = DType::kUint8;
  call.op = ReduceOp::kMax;
  call.options = options;
  call.options.algorithm = Algorithm::kDirect;
  HORING_ASSIGN(const auto operation, start(call, false));
  return finish(operation);
}

}  // namespace ho
