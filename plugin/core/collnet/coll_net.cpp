#include "core/collnet/coll_net.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "base/log.hpp"
#include "core/driver/handles.hpp"

namespace ho::plugin {
namespace {

// The largest value that NCCL accepts.
constexpr size_t kMaxWindowBytes = size_t{1} << 40U;

// The text goes to the log, since NCCL has no place for it.
Reply answer(const Status& status, std::string_view call) {
  if (!status.ok()) {
    log_warn("CollNet {}: {}", call, status.message());
  }
  return reply_of(status.code());
}

Reply answer(const Result<CollRequest*>& entered, std::string_view call, void** request) {
  *request = entered.ok() ? *entered : nullptr;
  return answer(entered.status(), call);
}

CollComm& comm_of(void* comm) {
  return *static_cast<CollComm*>(comm);
}

CollBuffer buffer_of(const CollNet::Part& part) {
  return {part.data, part.bytes, static_cast<const rail::Registration*>(part.memory)};
}

// The first of ours have NCCL's numbers; what comes after them there (a release's new types, what
// users define) is something else.
constexpr int32_t kNcclDTypeCount = static_cast<int32_t>(DType::kFloat8E5m2) + 1;
constexpr int32_t kNcclReduceOpCount = static_cast<int32_t>(ReduceOp::kAvg) + 1;

bool is_known(const CollNet::Reduction& reduction) {
  return reduction.dtype >= 0 && reduction.dtype < kNcclDTypeCount && reduction.op >= 0 &&
         reduction.op < kNcclReduceOpCount;
}

Status closed_already(const char* what) {
  return invalid(fmt::format("there is no such {}, or it is closed already", what));
}

Reply unknown(const CollNet::Reduction& reduction, std::string_view call) {
  return answer({StatusCode::kInvalidArgument,
                 fmt::format("type {}, operation {}", reduction.dtype, reduction.op)},
                call);
}

}  // namespace

Reply CollNet::open(uint64_t comm_id, int32_t traffic_class, void** context) {
  auto made = std::make_unique<Context>();
  made->comm_id = comm_id;
  NetDriver::Opening opening;
  opening.comm_id = comm_id;
  opening.traffic_class = traffic_class;
  const Reply reply = driver_.open(opening, &made->of_driver);
  if (reply == Reply::kSuccess) {
    *context = made.get();
    const std::lock_guard lock(mutex_);
    contexts_[*context] = std::move(made);
  }
  return reply;
}

// NCCL also closes what it never opened, with null, when another network's opening failed.
Reply CollNet::close(void* context) {
  if (context == nullptr) {
    return Reply::kSuccess;
  }
  const std::unique_ptr<Context> owned = take_out(mutex_, contexts_, context);
  if (owned == nullptr) {
    return answer(closed_already("context"), "finalize");
  }
  return driver_.close(owned->of_driver);
}

Reply CollNet::device_count(int32_t* count) {
  *count = 0;
  int32_t devices = 0;
  if (const Reply reply = driver_.device_count(&devices); reply != Reply::kSuccess) {
    return reply;
  }
  for (int32_t device = 0; device < devices; ++device) {
    DeviceProperties properties;
    if (const Reply reply = driver_.properties(device, &properties); reply != Reply::kSuccess) {
      return reply;
    }
    if ((properties.memory_kinds & ~kHostMemory) != 0 && !settings_.host_memory_wanted) {
      if (!refusal_said_.exchange(true)) {
        log_info(
            "CollNet offers no devices: {} of {} moves GPU memory itself, which NCCL would give up "
            "for CollNet on host memory; HORING_COLLNET_HOST=1 prefers CollNet",
            properties.name,
            driver_.name());
      }
      return Reply::kSuccess;
    }
  }
  *count = devices;
  return Reply::kSuccess;
}

Reply CollNet::properties(int32_t device, DeviceProperties* properties) {
  const Reply reply = driver_.properties(device, properties);
  // NCCL takes the device's properties from here: they must be true of what rails do, which work on
  // host memory, register it for one rail, and cut windows of any size into pieces.
  properties->memory_kinds = kHostMemory;
  properties->force_flush = false;
  properties->registration_is_global = false;
  properties->device_type = 0;
  properties->device_version = 0;
  properties->max_collective_bytes = kMaxWindowBytes;
  return reply;
}

Reply CollNet::make_virtual_device(const int32_t* parts, int32_t count, int32_t* device) {
  return driver_.make_virtual_device(parts, count, device);
}

Result<std::unique_ptr<rail::RailListener>> CollNet::open_rail(int32_t device) const {
  if (settings_.off) {
    return Status(StatusCode::kUnsupported, settings_.off->why);
  }
  HORING_ASSIGN(const SocketAddress address, settings_.rendezvous_address(device));
  return rail::RailListener::open(device, address);
}

// An error would end the communicator, or leave its other members waiting. So a member that cannot
// listen sends the reason in the handle's place, and all of them refuse CollNet for that reason.
Reply CollNet::listen(void* context, int32_t device, void* handle, void** listener) {
  auto made = std::make_unique<Listener>();
  made->context = static_cast<Context*>(context);
  auto rail = open_rail(device);
  if (rail.ok()) {
    const rail::HandleBytes bytes = rail::encode((*rail)->handle);
    std::memcpy(handle, bytes.data(), bytes.size());
    made->rail = *std::move(rail);
  } else if (rail.status().code() == StatusCode::kInvalidArgument) {
    return answer(rail.status(), "listen");  // no such device
  } else {
    if (!settings_.off) {  // else it has been logged
      log_warn("CollNet listen: {}", rail.status().message());
    }
    made->off = turned_off_here(rail.status());
    encode(made->off,
           std::span<std::byte, kHandleBytes>(static_cast<std::byte*>(handle), kHandleBytes));
  }
  *listener = made.get();
  const std::lock_guard lock(mutex_);
  listeners_[*listener] = std::move(made);
  return Reply::kSuccess;
}

Reply CollNet::close_listen(void* listener) {
  const std::lock_guard lock(mutex_);
  return listener == nullptr || listeners_.erase(listener) > 0
             ? Reply::kSuccess
             : answer(closed_already("listener"), "closeListen");
}

Result<std::unique_ptr<CollComm>> CollNet::connect_rail(void* const* handles,
                                                        int32_t members,
                                                        int32_t rank,
                                                        Listener& listener) {
  if (members < 1 || rank < 0 || rank >= members) {
    return invalid(fmt::format("member {} of {} cannot be", rank, members));
  }
  if (listener.rail == nullptr) {
    return Status(StatusCode::kConnection, listener.off.why);
  }
  std::vector<rail::HandleBytes> all(static_cast<size_t>(members));
  for (size_t i = 0; i < all.size(); ++i) {
    std::memcpy(all[i].data(), handles[i], all[i].size());
  }
  rail::RailMember::Setup setup;
  setup.driver = &driver_;
  setup.context = listener.context == nullptr ? nullptr : listener.context->of_driver;
  setup.job_key = settings_.job_key;
  setup.timeout = settings_.timeout;
  setup.wanted_piece_bytes = settings_.wanted_piece_bytes;
  setup.consistency = settings_.consistency ? settings_.consistency() : std::string();
  HORING_ASSIGN(auto member,
                rail::RailMember::connect(setup, all, static_cast<uint32_t>(rank), *listener.rail));
  NetDriver::Owner owner =
      setup.context == nullptr ? NetDriver::Owner{} : driver_.owner_of(setup.context);
  owner.comm_id = listener.context == nullptr ? 0 : listener.context->comm_id;
  return std::make_unique<CollComm>(std::move(member), owner);
}

Reply CollNet::connect(
    void* const* handles, int32_t members, int32_t rank, void* listener, void** comm) {
  *comm = nullptr;
  auto connected = connect_rail(handles, members, rank, *static_cast<Listener*>(listener));
  if (!connected.ok()) {
    log_warn(
        "CollNet is not used: {}. All members of this rail refuse it, and NCCL goes on without",
        connected.status().message());
    Context* const context = static_cast<Listener*>(listener)->context;
    if (context != nullptr && connected.status().code() == StatusCode::kMismatch) {
      const std::lock_guard lock(mutex_);
      context->members_differ = true;
    }
    return reply_of(connected.status().code());
  }
  const std::lock_guard lock(mutex_);
  *comm = connected->get();
  comms_[*comm] = *std::move(connected);
  return Reply::kSuccess;
}

Reply CollNet::close_comm(void* comm) {
  // Ends its threads, so outside of the lock.
  const std::unique_ptr<CollComm> owned = take_out(mutex_, comms_, comm);
  return comm == nullptr || owned != nullptr ? Reply::kSuccess
                                             : answer(closed_already("communicator"), "closeColl");
}

std::vector<WatchedRing> CollNet::rings() const {
  const std::lock_guard lock(mutex_);
  std::vector<WatchedRing> all;
  for (const auto& [key, comm] : comms_) {
    all.push_back(comm->watched());
  }
  return all;
}

bool CollNet::is_connected(uint64_t comm_id) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      comms_, [comm_id](const auto& each) { return each.second->owner().comm_id == comm_id; });
}

bool CollNet::members_differ(uint64_t comm_id) const {
  const std::lock_guard lock(mutex_);
  return comm_id != 0 && std::ranges::any_of(contexts_, [comm_id](const auto& each) {
           return each.second->comm_id == comm_id && each.second->members_differ;
         });
}

bool CollNet::reduces(int32_t dtype, int32_t op) {
  return is_known({dtype, op}) && static_cast<ReduceOp>(op) != ReduceOp::kAvg &&
         reduction_supported(static_cast<DType>(dtype), static_cast<ReduceOp>(op));
}

bool CollNet::reduces_all() {
  for (int32_t dtype = 0; dtype < kNcclDTypeCount; ++dtype) {
    for (int32_t op = 0; op < kNcclReduceOpCount; ++op) {
      if (static_cast<ReduceOp>(op) != ReduceOp::kAvg && !reduces(dtype, op)) {
        return false;
      }
    }
  }
  return true;
}

Reply CollNet::register_memory(void* comm, void* data, size_t bytes, int32_t kind, void** memory) {
  *memory = nullptr;
  if (kind != kHostMemory) {
    log_warn("CollNet regMr: memory of kind {}; rails work on host memory", kind);
    return Reply::kInvalidUsage;
  }
  const auto registered = comm_of(comm).register_memory(data, bytes, kind);
  if (registered.ok()) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): NCCL's handles are not const
    *memory = const_cast<rail::Registration*>(*registered);
  }
  return answer(registered.status(), "regMr");
}

Reply CollNet::deregister(void* comm, void* memory) {
  return answer(comm_of(comm).deregister(static_cast<const rail::Registration*>(memory)),
                "deregMr");
}

Reply CollNet::all_reduce(void* comm,
                          const Part& from,
                          const Part& to,
                          uint64_t count,
                          const Reduction& reduction,
                          void** request) {
  if (!is_known(reduction)) {
    return unknown(reduction, "iallreduce");
  }
  return answer(comm_of(comm).all_reduce(buffer_of(from),
                                         buffer_of(to),
                                         count,
                                         static_cast<DType>(reduction.dtype),
                                         static_cast<ReduceOp>(reduction.op)),
                "iallreduce",
                request);
}

Reply CollNet::all_gather(
    void* comm, const Part& from, const Part& to, const Blocks& blocks, void** request) {
  return answer(comm_of(comm).all_gather(
                    buffer_of(from), buffer_of(to), blocks.block_bytes, blocks.window_offset),
                "iallgather",
                request);
}

Reply CollNet::reduce_scatter(void* comm,
                              const Part& from,
                              const Part& to,
                              const Blocks& blocks,
                              const Reduction& reduction,
                              void** request) {
  if (!is_known(reduction)) {
    return unknown(reduction, "ireducescatter");
  }
  return answer(comm_of(comm).reduce_scatter(buffer_of(from),
                                             buffer_of(to),
                                             blocks.block_bytes,
                                             blocks.window_offset,
                                             static_cast<DType>(reduction.dtype),
                                             static_cast<ReduceOp>(reduction.op)),
                "ireducescatter",
                request);
}

Reply CollNet::test(void* request, int32_t* done, int32_t* size) {
  *done = 0;
  if (request == nullptr) {
    return answer({StatusCode::kInvalidArgument, "there is no request"}, "test");
  }
  auto& outstanding = *static_cast<CollRequest*>(request);
  const Result<bool> complete = outstanding.comm->test(outstanding);
  if (!complete.ok()) {
    return reply_of(complete.status().code());  // logged once, by the ring
  }
  *done = *complete ? 1 : 0;
  if (*complete && size != nullptr) {
    constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
    *size = static_cast<int32_t>(std::min(outstanding.byte_count, kMax));
  }
  return Reply::kSuccess;
}

}  // namespace ho::plugin
