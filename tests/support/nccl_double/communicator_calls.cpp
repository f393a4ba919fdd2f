// Communicators: made, polled, ended.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include "os/clock.hpp"
#include "state.hpp"

namespace ho::nccl_double {
namespace {

using nccl::CommHandle;
using nccl::ResultCode;

ResultCode get_unique_id(nccl::UniqueId* id) {
  Call call("ncclGetUniqueId");
  if (call.refused() != nccl::kSuccess) {
    return call.refused();
  }
  std::memset(id->bytes, 0, sizeof id->bytes);
  const uint64_t number = ++call->ids;
  std::memcpy(id->bytes, "double", 6);
  std::memcpy(id->bytes + 8, &number, sizeof number);
  const std::string key(id->bytes, sizeof id->bytes);
  call->sets[key] = std::make_shared<RankSet>();
  call->sets[key]->number = ++call->set_numbers;
  return nccl::kSuccess;
}

ResultCode check_config(Call& call, const nccl::Config* config) {
  if (config == nullptr || config->magic != nccl::kConfigMagic ||
      config->size < offsetof(nccl::Config, cluster_size) || config->size > sizeof(nccl::Config) ||
      static_cast<int>(config->version) > call->config.version) {
    return call.violation("has a configuration that is not NCCL's");
  }
  return config->blocking == 0 ? nccl::kSuccess
                               : call.violation("makes a communicator that blocks");
}

ResultCode comm_init(
    CommHandle* handle, int ranks, nccl::UniqueId id, int rank, nccl::Config* config) {
  const int device = cuda_double::current_device();
  Call call("ncclCommInitRankConfig");
  *handle = nullptr;
  if (call.refused() != nccl::kSuccess) {
    return call.refused();
  }
  if (const ResultCode result = check_config(call, config); result != nccl::kSuccess) {
    return result;
  }
  const auto found = call->sets.find(std::string(id.bytes, sizeof id.bytes));
  if (device < 0 || found == call->sets.end()) {
    return call.violation(device < 0 ? "is called without a device" : "has an id of nobody's");
  }
  RankSet& set = *found->second;
  if (set.ranks == 0) {
    set.ranks = ranks;
  }
  if (set.ranks != ranks || rank < 0 || rank >= ranks || set.devices.contains(rank)) {
    return call.violation("of rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                          ", but another has come as one of " + std::to_string(set.ranks));
  }
  for (const auto& [other, its_device] : set.devices) {
    if (its_device == device) {
      return nccl::kInvalidUsage;  // the real one says "Duplicate GPU detected"
    }
  }
  set.devices[rank] = device;
  *handle = std::bit_cast<CommHandle>(call->handles += 16);
  Communicator& comm = call->communicators[*handle];
  comm.set = found->second;
  comm.rank = rank;
  comm.device = device;
  comm.polls_left = call->config.polls_to_make;
  return nccl::kInProgress;
}

// One look at what is in progress.
ResultCode poll(Call& call, Communicator& comm) {
  RankSet& set = *comm.set;
  switch (comm.phase) {
    case Phase::kMaking:
      if (set.devices.size() < static_cast<size_t>(set.ranks) || comm.polls_left-- > 0) {
        return nccl::kInProgress;
      }
      comm.phase = Phase::kReady;
      return nccl::kSuccess;
    case Phase::kReady:
      if (comm.to_launch.empty()) {
        return nccl::kSuccess;
      }
      return waits_for_ranks(comm) || comm.polls_left-- > 0 ? nccl::kInProgress
                                                            : launch_started(call, comm);
    case Phase::kFinalizing: {
      const auto over = [](const Collective& each) { return each.work->done(); };
      if (set.finalized < static_cast<size_t>(set.ranks) ||
          !std::all_of(set.collectives.begin(), set.collectives.end(), over)) {
        return nccl::kInProgress;
      }
      comm.phase = Phase::kFinalized;
      return nccl::kSuccess;
    }
    case Phase::kFinalized:
      return nccl::kSuccess;
  }
  return nccl::kInternalError;
}

ResultCode comm_async_error(CommHandle handle, ResultCode* error) {
  Call call("ncclCommGetAsyncError");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr || call.refused() != nccl::kSuccess) {
    return comm == nullptr ? nccl::kInvalidArgument : call.refused();
  }
  if (comm->async_error == nccl::kSuccess && comm->set->aborted &&
      call->config.aborts_reach_peers) {
    comm->async_error = nccl::kRemoteError;
  }
  *error = comm->async_error != nccl::kSuccess ? comm->async_error : poll(call, *comm);
  return nccl::kSuccess;
}

void end(Call& call, CommHandle handle, const char* by) {
  call->communicators.erase(handle);
  call->ended[handle] = by;
}

// Longer than any test holds collectives: whoever waits so long does so for ever.
constexpr std::chrono::seconds kForEver{20};

bool ends_return() {
  const std::lock_guard lock(state().mutex);
  return state().config.ends_return;
}

// Holds no lock. Device -1: does not wait for it.
void wait_for_end(const char* call, int device) {
  const auto give_up_at = Clock::now() + kForEver;
  const auto waits = [device] { return device >= 0 && cuda_double::joint_work(device) > 0; };
  while (waits() || !ends_return()) {
    if (Clock::now() > give_up_at) {
      const std::lock_guard lock(state().mutex);
      state().violations.push_back(std::string(call) +
                                   (waits() ? " waits for collectives of device " +
                                                  std::to_string(device) + " that nobody ends"
                                            : " is waited for, and does not return"));
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

ResultCode abort_without_wait(CommHandle handle, int& waits_for) {
  Call call("ncclCommAbort");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr) {
    return nccl::kInvalidArgument;
  }
  for (const Collective& each : comm->set->collectives) {
    each.work->give_up(comm->device);
    for (const auto& work : each.different) {
      work->give_up(comm->device);
    }
  }
  comm->set->aborted = true;
  waits_for = call->config.ends_wait_for_device ? comm->device : -1;
  end(call, handle, "ncclCommAbort");
  return call.refused();
}

ResultCode comm_abort(CommHandle handle) {
  int waits_for = -1;
  const ResultCode result = abort_without_wait(handle, waits_for);
  wait_for_end("ncclCommAbort", waits_for);
  return result;
}

ResultCode comm_finalize(CommHandle handle) {
  Call call("ncclCommFinalize");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr || call.refused() != nccl::kSuccess) {
    return comm == nullptr ? nccl::kInvalidArgument : call.refused();
  }
  if (comm->phase != Phase::kReady || !comm->to_launch.empty()) {
    return call.violation("of " + rank_text(*comm) + ", which is not ready");
  }
  comm->phase = Phase::kFinalizing;
  ++comm->set->finalized;
  return nccl::kInProgress;
}

ResultCode destroy_without_wait(CommHandle handle, int& waits_for) {
  Call call("ncclCommDestroy");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr || call.refused() != nccl::kSuccess) {
    return comm == nullptr ? nccl::kInvalidArgument : call.refused();
  }
  if (comm->phase != Phase::kFinalized) {
    return call.violation("of " + rank_text(*comm) + ", which is not finalized");
  }
  waits_for = call->config.ends_wait_for_device ? comm->device : -1;
  end(call, handle, "ncclCommDestroy");
  return nccl::kSuccess;
}

ResultCode comm_destroy(CommHandle handle) {
  int waits_for = -1;
  const ResultCode result = destroy_without_wait(handle, waits_for);
  wait_for_end("ncclCommDestroy", waits_for);
  return result;
}

ResultCode comm_count(CommHandle handle, int* ranks) {
  Call call("ncclCommCount");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr || call.refused() != nccl::kSuccess) {
    return comm == nullptr ? nccl::kInvalidArgument : call.refused();
  }
  *ranks = comm->set->ranks;
  return nccl::kSuccess;
}

ResultCode comm_rank(CommHandle handle, int* rank) {
  Call call("ncclCommUserRank");
  Communicator* const comm = call.find(handle);
  if (comm == nullptr || call.refused() != nccl::kSuccess) {
    return comm == nullptr ? nccl::kInvalidArgument : call.refused();
  }
  *rank = comm->rank;
  return nccl::kSuccess;
}

}  // namespace

void fill_communicator_calls(nccl::Nccl& table) {
  table.get_unique_id = get_unique_id;
  table.comm_init = comm_init;
  table.comm_async_error = comm_async_error;
  table.comm_abort = comm_abort;
  table.comm_finalize = comm_finalize;
  table.comm_destroy = comm_destroy;
  table.comm_count = comm_count;
  table.comm_rank = comm_rank;
}

}  // namespace ho::nccl_double
