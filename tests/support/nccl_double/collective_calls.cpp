// Collectives: compared between ranks, and given to their streams.
#include <algorithm>

#include "state.hpp"

namespace ho::nccl_double {
namespace {

using nccl::CommHandle;
using nccl::DataType;
using nccl::Reduction;
using nccl::ResultCode;
using nccl::StreamHandle;

// Between ncclGroupStart and ncclGroupEnd.
thread_local int group_depth = 0;
thread_local std::vector<Started> in_group;

// The rank's next one; null where it is the first rank to come to it.
Collective* next_of(const Communicator& comm) {
  RankSet& set = *comm.set;
  const uint64_t at = comm.started - set.forgotten;
  return at < set.collectives.size() ? &set.collectives[at] : nullptr;
}

std::set<int> devices_of(const RankSet& set) {
  std::set<int> devices;
  for (const auto& [rank, device] : set.devices) {
    devices.insert(device);
  }
  return devices;
}

// Those of all ranks' parts.
size_t bytes_of(const RankSet& set, const Shape& shape) {
  size_t bytes = 0;
  for (const auto& range : touched(shape, static_cast<size_t>(set.ranks), 0, nullptr, nullptr)) {
    bytes = std::max(bytes, range.bytes);
  }
  return bytes;
}

int64_t takes_ns(const Config& config, const RankSet& set, const Started& started) {
  return config.takes_ns
             ? config.takes_ns(started.call, bytes_of(set, started.shape), devices_of(set))
             : 0;
}

Collective& add_collective(Call& call, const Communicator& comm, const Started& started) {
  const Shape& shape = started.shape;
  RankSet& set = *comm.set;
  const auto over = [&](const Collective& each) {
    return each.came == static_cast<size_t>(set.ranks) && each.work->done();
  };
  while (!set.collectives.empty() && over(set.collectives.front())) {
    set.collectives.pop_front();
    ++set.forgotten;
  }
  const auto ranks = static_cast<size_t>(set.ranks);
  auto buffers = std::make_shared<Buffers>();
  buffers->send.resize(ranks);
  buffers->recv.resize(ranks);
  auto work = std::make_shared<cuda_double::JointWork>(
      ranks,
      [shape, buffers](const cuda_double::Translate& translate) {
        compute(shape, *buffers, translate);
      },
      takes_ns(call->config, set, started));
  set.collectives.push_back(
      {comm.started + 1, shape, comm.rank, 0, std::move(buffers), std::move(work), {}});
  return set.collectives.back();
}

ResultCode launch(Call& call, Communicator& comm, const Started& started) {
  Collective* found = next_of(comm);
  Collective& collective = found == nullptr ? add_collective(call, comm, started) : *found;
  ++comm.started;
  if (++collective.came == static_cast<size_t>(comm.set->ranks)) {
    call->moved[{started.call, devices_of(*comm.set)}] += bytes_of(*comm.set, collective.shape);
  }
  const std::string what = rank_text(comm) + ": collective " + std::to_string(collective.number);
  std::shared_ptr<cuda_double::JointWork> work = collective.work;
  if (collective.shape != started.shape) {
    static_cast<void>(call.violation("of " + what + ", " + to_string(started.shape) +
                                     ", where rank " + std::to_string(collective.first_rank) +
                                     " has " + to_string(collective.shape)));
    // Neither begins: the others wait for this rank's part, and this rank for nobody.
    work = std::make_shared<cuda_double::JointWork>(2, [](const cuda_double::Translate&) {});
    collective.different.push_back(work);
  }
  const auto rank = static_cast<size_t>(comm.rank);
  collective.buffers->send[rank] = started.send;
  collective.buffers->recv[rank] = started.recv;
  std::string circle;
  const device::DriverResult result = work->enqueue(
      started.stream,
      what + ", " + to_string(started.shape),
      touched(
          started.shape, collective.buffers->send.size(), comm.rank, started.send, started.recv),
      circle);
  if (!circle.empty()) {
    static_cast<void>(call.violation("is launched in another order on another device: " + circle));
  }
  return result == device::kSuccess ? nccl::kSuccess : nccl::kUnhandledCudaError;
}

bool connected(const RankSet& set, Kind kind) {
  const auto found = set.connected.find(kind);
  return found == set.connected.end() || found->second.size() == static_cast<size_t>(set.ranks);
}

ResultCode start(Call& call, const Started& started, bool grouped) {
  Communicator* const comm = call.find(started.handle);
  if (comm == nullptr) {
    return nccl::kInvalidArgument;
  }
  if (comm->phase != Phase::kReady || (!comm->to_launch.empty() && !grouped)) {
    return call.violation("on " + rank_text(*comm) + ", which is not ready");
  }
  if (started.shape.type < 0 || started.shape.type > nccl::kBfloat16 || started.shape.root < 0 ||
      started.shape.root >= comm->set->ranks) {
    return nccl::kInvalidArgument;
  }
  RankSet& set = *comm->set;
  if (call->config.first_ones_connect) {
    set.connected[started.shape.kind].insert(comm->rank);
  }
  if (call->config.polls_to_launch == 0 && connected(set, started.shape.kind)) {
    return launch(call, *comm, started);
  }
  comm->polls_left = call->config.polls_to_launch - 1;
  comm->to_launch.push_back(started);
  return nccl::kInProgress;
}

ResultCode start_or_group(const Started& started) {
  Call call(started.call);
  if (call.refused() != nccl::kSuccess) {
    return call.refused();
  }
  if (group_depth > 0) {
    in_group.push_back(started);
    return nccl::kSuccess;
  }
  return start(call, started, false);
}

ResultCode all_gather(const void* send,
                      void* recv,
                      size_t count,
                      DataType type,
                      CommHandle comm,
                      StreamHandle stream) {
  return start_or_group(
      {"ncclAllGather", comm, {Kind::kAllGather, count, type, 0, 0}, send, recv, stream});
}

ResultCode reduce_scatter(const void* send,
                          void* recv,
                          size_t count,
                          DataType type,
                          Reduction op,
                          CommHandle comm,
                          StreamHandle stream) {
  return start_or_group(
      {"ncclReduceScatter", comm, {Kind::kReduceScatter, count, type, op, 0}, send, recv, stream});
}

ResultCode all_reduce(const void* send,
                      void* recv,
                      size_t count,
                      DataType type,
                      Reduction op,
                      CommHandle comm,
                      StreamHandle stream) {
  return start_or_group(
      {"ncclAllReduce", comm, {Kind::kAllReduce, count, type, op, 0}, send, recv, stream});
}

ResultCode broadcast(const void* send,
                     void* recv,
                     size_t count,
                     DataType type,
                     int root,
                     CommHandle comm,
                     StreamHandle stream) {
  return start_or_group(
      {"ncclBroadcast", comm, {Kind::kBroadcast, count, type, 0, root}, send, recv, stream});
}

ResultCode group_start() {
  const Call call("ncclGroupStart");
  if (call.refused() == nccl::kSuccess) {
    ++group_depth;
  }
  return call.refused();
}

ResultCode group_end() {
  Call call("ncclGroupEnd");
  if (group_depth == 0) {
    return call.violation("has no ncclGroupStart before it");
  }
  if (--group_depth > 0) {
    return call.refused();
  }
  ResultCode first = call.refused();
  for (const Started& each : std::exchange(in_group, {})) {
    if (first == nccl::kSuccess || first == nccl::kInProgress) {
      const ResultCode result = start(call, each, true);
      first = result == nccl::kSuccess ? first : result;
    }
  }
  return first;
}

}  // namespace

bool waits_for_ranks(const Communicator& comm) {
  return std::any_of(comm.to_launch.begin(), comm.to_launch.end(), [&](const Started& each) {
    return !connected(*comm.set, each.shape.kind);
  });
}

ResultCode launch_started(Call& call, Communicator& comm) {
  ResultCode first = nccl::kSuccess;
  for (const Started& each : std::exchange(comm.to_launch, {})) {
    first = first == nccl::kSuccess ? launch(call, comm, each) : first;
  }
  return first;
}

void fill_collective_calls(nccl::Nccl& table) {
  table.all_gather = all_gather;
  table.reduce_scatter = reduce_scatter;
  table.all_reduce = all_reduce;
  table.broadcast = broadcast;
  table.group_start = group_start;
  table.group_end = group_end;
}

}  // namespace ho::nccl_double
