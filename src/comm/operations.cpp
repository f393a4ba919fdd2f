// Calls become plans bound to memory: arguments are checked, an algorithm is chosen, its plan is
// built (or found again), and the engine gets both.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include "base/hash.hpp"
#include "comm/communicator.hpp"
#include "plan/verify.hpp"
#include "reduce/reduce.hpp"

namespace ho {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

// All-gathers and reduce-scatters do not queue behind each other, nor behind the rest.
uint8_t channel_of(Collective collective) {
  switch (collective) {
    case Collective::kAllGather:
      return 0;
    case Collective::kReduceScatter:
      return 1;
    default:
      return 2;
  }
}

Status refused(const CollectiveCall& call, std::string_view what) {
  return invalid(std::string(to_string(call.collective)) + ": " + std::string(what));
}

// What is not elsewhere in a message header. A world has at most 65536 ranks.
uint16_t digest_of(const CollectiveCall& call) {
  const uint64_t label = call.options.label;
  if (has_root(call.collective) && label == 0) {
    return static_cast<uint16_t>(call.root.value());
  }
  Hash hash;
  if (label != 0) {
    hash.add(label);
    hash.add(call.root.value());
  }
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

Status check_counts(const CollectiveCall& call, uint32_t world, uint64_t most) {
  for (const auto counts : {call.counts, call.recv_counts}) {
    if (!counts.empty() && counts.size() != world) {
      return refused(call, fmt::format("{} counts for {} ranks", counts.size(), world));
    }
  }
  const auto too_large = [most](size_t count) { return count > most; };
  if (too_large(call.count) || std::any_of(call.counts.begin(), call.counts.end(), too_large) ||
      std::any_of(call.recv_counts.begin(), call.recv_counts.end(), too_large)) {
    return refused(call, "a count beyond 64 TiB in all; is it negative?");
  }
  if (has_root(call.collective) && call.root.value() >= world) {
    return refused(call, fmt::format("root {} of {} ranks", call.root.value(), world));
  }
  return {};
}

Status check_reduction(const CollectiveCall& call) {
  if (has_sums(call.collective) && !reduction_supported(call.dtype, call.op)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: no {} of {}; {}",
                        to_string(call.collective),
                        to_string(call.op),
                        to_string(call.dtype),
                        instead_of(call.dtype, call.op))};
  }
  const bool narrow = call.dtype == DType::kFloat16 || call.dtype == DType::kBfloat16;
  const bool sums =
      call.op == ReduceOp::kSum || call.op == ReduceOp::kAvg || call.op == ReduceOp::kPremulSum;
  if (call.options.fp32_sums && (!has_sums(call.collective) || !narrow || !sums)) {
    return {StatusCode::kUnsupported,
            fmt::format("{}: fp32_sums is for sum, avg and premul_sum of half and bfloat16",
                        to_string(call.collective))};
  }
  return {};
}

// Before anything is sent. An all-reduce goes on in its output; other operations have a copy until
// they end: the input may be const.
Status scale_input(Call& call, double scale) {
  if (call.device.work != nullptr) {
    call.device.factor = scale;  // the run's to begin with
    return {};
  }
  auto* scaled = call.output;
  if (call.collective != Collective::kAllReduce) {
    call.scaled_bytes = call.count * size_bytes(call.dtype);
    call.scaled = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[call.scaled_bytes]);
    scaled = call.scaled.get();
  }
  if (scaled == nullptr) {
    return {StatusCode::kOutOfMemory,
            fmt::format("{}: no memory for {} bytes of scaled input",
                        to_string(call.collective),
                        call.scaled_bytes)};
  }
  premultiply(call.dtype, scaled, call.input, call.count, scale);
  call.input = scaled;
  return {};
}

uint64_t sum_of(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
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
    return sum_of(call.counts);
  }
  const uint32_t world = placement_.map.world_size();
  return blocks_of(call.collective, world) ? uint64_t{call.count} * world : call.count;
}

uint64_t Communicator::most_per_rank(DType dtype) const {
  return kMaxBytes / size_bytes(dtype) / placement_.map.world_size();
}

Status Communicator::check(const CollectiveCall& call) const {
  HORING_TRY(check_counts(call, placement_.map.world_size(), most_per_rank(call.dtype)));
  HORING_TRY(check_reduction(call));
  return check_buffers(call);
}

Communicator::BufferUse Communicator::buffer_use(Collective collective,
                                                 bool is_root,
                                                 const Sizes& size) {
  switch (collective) {
    case Collective::kAllGather:
      return {size.own, size.all, 0, size.before};
    case Collective::kReduceScatter:
      return {size.all, size.own, size.before, 0};
    case Collective::kAllReduce:
      return {size.all, size.all};
    case Collective::kBroadcast:
      return {is_root ? size.all : 0, size.all};
    case Collective::kAllToAll:
      return {size.all, size.all, 0, 0, false};
    case Collective::kGather:
      return {size.own, is_root ? size.all : 0, 0, size.before};
    case Collective::kScatter:
      return {is_root ? size.all : 0, size.own, size.before, 0};
    case Collective::kReduce:
      return {size.all, is_root ? size.all : 0};
  }
  return {};
}

Communicator::BufferUse Communicator::buffer_use(const CollectiveCall& call) const {
  const size_t element = size_bytes(call.dtype);
  const bool counted = !call.counts.empty();
  const uint64_t own = counted ? call.counts[self_.at()] : call.count;
  const uint64_t before =
      counted ? sum_of(call.counts.first(self_.at())) : uint64_t{call.count} * self_.value();
  BufferUse use = buffer_use(call.collective,
                             call.root == self_,
                             {own * element, before * element, total_count(call) * element});
  if (!call.recv_counts.empty()) {
    use.recv = sum_of(call.recv_counts) * element;
  }
  return use;
}

// Null buffers, and overlaps that are not the in-place ones of horing.h.
Status Communicator::check_buffers(const CollectiveCall& call) const {
  const BufferUse use = buffer_use(call);
  if ((use.send > 0 && call.send == nullptr) || (use.recv > 0 && call.recv == nullptr)) {
    return refused(call, "a null buffer with elements to move");
  }
  const Range send = range_of(call.send, use.send);
  const Range recv = range_of(call.recv, use.recv);
  const bool in_place =
      use.can_be_in_place && send.begin + use.into_send == recv.begin + use.into_recv;
  if (use.send > 0 && use.recv > 0 && !in_place && send.overlaps(recv)) {
    return refused(call,
                   "send and receive buffers overlap without being in place; horing.h says which "
                   "addresses are in place");
  }
  return {};
}

// All but the sizes of blocks.
Call Communicator::begin_call(const CollectiveCall& requested, Algorithm algorithm) const {
  Call call;
  call.collective = requested.collective;
  call.algorithm = algorithm;
  call.dtype = requested.dtype;
  call.op = has_sums(requested.collective) ? requested.op : ReduceOp::kSum;
  call.fp32_sums = requested.options.fp32_sums;
  call.input = static_cast<const std::byte*>(requested.send);
  call.output = static_cast<std::byte*>(requested.recv);
  call.count = total_count(requested);
  call.labelled = requested.options.label != 0;
  call.digest = digest_of(requested);
  call.self = self_;
  call.world_size = placement_.map.world_size();
  call.communicator = identity_.id;
  call.channel = channel_of(requested.collective);
  call.owned = requested.owned;
  call.timeout = requested.options.timeout.value_or(settings_.timeout);
  call.deadline = deadline_after(call.timeout);
  return call;
}

Result<Call> Communicator::make_call(const CollectiveCall& requested,
                                     Algorithm algorithm,
                                     const Plan& plan) const {
  Call call = begin_call(requested, algorithm);
  if (blocks_of(requested.collective, call.world_size)) {
    call.block_counts = requested.counts.empty()
                            ? BlockCounts(requested.count)
                            : BlockCounts({requested.counts.begin(), requested.counts.end()});
    return call;
  }
  std::vector<uint64_t> counts;
  for (uint32_t b = 0; b < plan.block_count; ++b) {
    const uint64_t end = call.count * (b + 1) / plan.block_count;
    counts.push_back(end - call.count * b / plan.block_count);
  }
  call.block_counts = BlockCounts(std::move(counts));
  return call;
}

Result<std::shared_ptr<const Schedule>> Communicator::lay_out(BuiltPlan built, uint8_t channel) {
  return engine_->exclusively([&](ShmTransport& shm, Transport* network) {
    return make_schedule(std::move(built), [&](GlobalRank peer, Lane lane, RailIndex rail) {
      if (lane == Lane::kIntra && placement_.same_host(self_, peer)) {
        return staged(peer, shm.link({peer, RailIndex(0), identity_.id, channel}));
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
      return staged(peer, network->link({peer, rail, identity_.id, channel}));
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

SelectionInput Communicator::selection_input(const CollectiveCall& requested) const {
  const uint64_t total = total_count(requested) * size_bytes(requested.dtype);
  uint64_t message = total;
  if (requested.collective == Collective::kAllToAll) {
    // All that goes from one group to another, or inside one to a rail's rank.
    const uint64_t block = total / placement_.map.world_size();
    const uint64_t largest = placement_.map.largest_group();
    message = block * largest * largest;
  }
  return {requested.collective,
          total,
          message,
          requested.options.fp32_sums,
          requested.options.algorithm};
}

Result<std::shared_ptr<Operation>> Communicator::start(const CollectiveCall& requested,
                                                       bool background) {
  HORING_TRY(check(requested));
  if (!requested.recv_counts.empty()) {
    return start_all_to_all_counts(requested, background);
  }
  if (total_count(requested) == 0) {
    return std::shared_ptr<Operation>();
  }
  HORING_ASSIGN(const Algorithm algorithm,
                select_algorithm(settings_.rules, selection_input(requested)));
  HORING_ASSIGN(
      auto schedule,
      schedule_for(requested.collective, algorithm, requested.root, requested.collective));
  HORING_ASSIGN(Call call, make_call(requested, algorithm, schedule->built.plan));
  HORING_TRY(bind_to_device(requested, call));
  if (call.op == ReduceOp::kPremulSum) {
    HORING_TRY(scale_input(call, requested.options.scale));
  }
  auto entry = entry_of(call, requested.options.stream);
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
