#include "core/builtin/builtin_net.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "base/env.hpp"
#include "base/log.hpp"
#include "core/builtin/net_calls.hpp"
#include "core/builtin/recv_comm.hpp"
#include "core/builtin/send_comm.hpp"
#include "core/driver/handles.hpp"
#include "os/clock.hpp"

namespace ho::plugin {
namespace {

// IP has a byte for it.
bool is_traffic_class(int32_t number) {
  constexpr int32_t kMax = 255;
  if (number > kMax) {
    log_error(
        "traffic class {}: the builtin network takes 0 to {}, IP's TOS byte; change "
        "trafficClass in the communicator's configuration",
        number,
        kMax);
  }
  return number <= kMax;
}

}  // namespace

Result<BuiltinConfig> BuiltinConfig::from_environment() {
  static_assert(env::kTcpStreams.range->most <= kMaxConnections, "all can be opened");
  BuiltinConfig config;
  HORING_ASSIGN(config.key, JobKey::from_environment());
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kConnectTimeoutMs));
  HORING_ASSIGN(const uint64_t connections, env::number(env::kTcpStreams));
  config.options.connect_timeout = std::chrono::milliseconds(timeout_ms);
  config.options.connections = static_cast<uint32_t>(connections);
  HORING_ASSIGN(BuiltinDevices devices, discover_devices());
  config.devices = std::move(devices.taken);
  config.left_out = std::move(devices.left_out);
  return config;
}

bool BuiltinConfig::emulated() const {
  return std::ranges::any_of(devices,
                             [](const BuiltinDevice& device) { return device.rail.emulated; });
}

bool BuiltinConfig::paced() const {
  return std::ranges::any_of(
      devices, [](const BuiltinDevice& device) { return device.rail.pace.has_value(); });
}

Result<std::unique_ptr<BuiltinNet>> BuiltinNet::create(BuiltinConfig config) {
  if (config.key == nullptr) {
    return Status(StatusCode::kInternal, "a network without a key object");
  }
  std::vector<RailInterface> rails;
  for (const BuiltinDevice& device : config.devices) {
    rails.push_back(device.rail);
  }
  HORING_ASSIGN(config.options.pacer, tcp::Pacer::create(rails));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  return std::unique_ptr<BuiltinNet>(new BuiltinNet(std::move(config)));
}

BuiltinNet::BuiltinNet(BuiltinConfig config) : config_(std::move(config)) {}
BuiltinNet::~BuiltinNet() = default;

bool BuiltinNet::has_device(int32_t device) const {
  return device >= 0 && static_cast<size_t>(device) < config_.devices.size();
}

std::optional<BuiltinDevice> BuiltinNet::device_for(void* context,
                                                    int32_t device,
                                                    int32_t traffic_class) {
  if (!has_device(device) || !is_traffic_class(traffic_class)) {
    return std::nullopt;
  }
  BuiltinDevice chosen = config_.devices[static_cast<size_t>(device)];
  chosen.rail.traffic_class = traffic_class;
  if (context == nullptr) {
    return chosen;
  }
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) {
    return std::nullopt;
  }
  if (traffic_class < 0) {
    chosen.rail.traffic_class = found->second->traffic_class;
  }
  return chosen;
}

NetDriver::Owner BuiltinNet::known_owner(const void* context) const {
  const auto found = contexts_.find(context);
  return found == contexts_.end() ? Owner{} : found->second->owner;
}

NetDriver::Owner BuiltinNet::owner_of(void* context) const {
  const std::lock_guard lock(mutex_);
  return known_owner(context);
}

void* BuiltinNet::keep(std::unique_ptr<Comm> comm, const Owner& owner) {
  Comm* const key = comm.get();
  comms_[key] = {std::move(comm), owner};
  return key;
}

Reply BuiltinNet::open(const Opening& opening, void** context) {
  *context = nullptr;
  if (!is_traffic_class(opening.traffic_class)) {
    return Reply::kInvalidArgument;
  }
  auto made = std::make_unique<Context>();
  made->owner.comm_id = opening.comm_id;
  made->traffic_class = opening.traffic_class;
  *context = made.get();
  const std::lock_guard lock(mutex_);
  made->owner.context = ++contexts_opened_;
  contexts_[*context] = std::move(made);
  return Reply::kSuccess;
}

// NCCL also closes what it never opened, with null, when another network's opening failed.
Reply BuiltinNet::close(void* context) {
  pending_.remove_all(context);
  const std::lock_guard lock(mutex_);
  contexts_.erase(context);
  return Reply::kSuccess;
}

Reply BuiltinNet::device_count(int32_t* count) {
  *count = static_cast<int32_t>(config_.devices.size());
  return Reply::kSuccess;
}

Reply BuiltinNet::properties(int32_t device, DeviceProperties* properties) {
  if (!has_device(device)) {
    return Reply::kInvalidArgument;
  }
  *properties = config_.devices[static_cast<size_t>(device)].properties;
  return Reply::kSuccess;
}

Reply BuiltinNet::listen(void* context, int32_t device, void* handle, void** listener) {
  *listener = nullptr;
  const auto chosen = device_for(context, device, kNoTrafficClass);
  if (!chosen) {
    return Reply::kInvalidArgument;
  }
  auto made = Listener::open(*chosen, *config_.key, config_.options);
  if (!made.ok()) {
    return answer(made.status().with_context("device " + chosen->properties.name));
  }
  encode((*made)->handle(), handle_bytes(handle));
  *listener = made->get();
  const std::lock_guard lock(mutex_);
  listeners_[*listener] = {*std::move(made), known_owner(context)};
  return Reply::kSuccess;
}

Result<std::shared_ptr<CommConnector>> BuiltinNet::begin_connect(
    const PendingKey& key, const BuiltinDevice& device, std::span<std::byte, kHandleBytes> handle) {
  Result<Handle> decoded = decode_handle(handle);
  if (!decoded.ok() && config_.options.off) {
    return Status(
        StatusCode::kUnsupported,
        "horing plugin: not usable: " + config_.options.off->why +
            "; the rank that listens uses another network (HORING_NET_FORWARD?) or release, so it "
            "cannot be told and waits for this one: mend that here, and start the job "
            "again");
  }
  HORING_ASSIGN(const Handle checked, std::move(decoded));
  if (checked.carrier != config_.options.carrier && !config_.options.off) {
    return Status(StatusCode::kMismatch,
                  "the rank that listens at " + checked.to_string() + " moves data over " +
                      std::string(to_string(checked.carrier)) + ", this one over " +
                      std::string(to_string(config_.options.carrier)) +
                      "; set the same HORING_TRANSPORT and HORING_FAILOVER on all ranks");
  }
  HORING_ASSIGN(std::unique_ptr<CommConnector> started,
                CommConnector::start(device, checked, *config_.key, config_.options));
  std::shared_ptr<CommConnector> connector = std::move(started);
  HORING_ASSIGN(const uint64_t id, pending_.add(key, connector));
  set_local_id(handle, id);
  return connector;
}

Reply BuiltinNet::connect(void* context,
                          int32_t device,
                          int32_t traffic_class,
                          void* handle,
                          void** comm,
                          void** device_handle) {
  *comm = nullptr;
  if (device_handle != nullptr) {
    *device_handle = nullptr;
  }
  const auto chosen = device_for(context, device, traffic_class);
  if (!chosen) {
    return Reply::kInvalidArgument;
  }
  const auto bytes = handle_bytes(handle);
  const PendingKey key = pending_key(context, device, bytes);
  std::shared_ptr<CommConnector> connector = pending_.find(local_id(bytes), key);
  if (connector == nullptr) {
    auto begun = begin_connect(key, *chosen, bytes);
    if (!begun.ok()) {
      return answer(begun.status());
    }
    connector = *std::move(begun);
  }
  auto made = connector->step();
  if (made.ok() && *made == nullptr) {
    return Reply::kSuccess;
  }
  pending_.remove(local_id(bytes));
  set_local_id(bytes, 0);
  if (!made.ok()) {
    return answer(made.status());
  }
  const std::lock_guard lock(mutex_);
  *comm = keep(*std::move(made), known_owner(context));
  return Reply::kSuccess;
}

Reply BuiltinNet::accept(void* listener, void** comm, void** device_handle) {
  *comm = nullptr;
  if (device_handle != nullptr) {
    *device_handle = nullptr;
  }
  auto made = static_cast<Listener*>(listener)->accept();
  if (!made.ok()) {
    return answer(made.status());
  }
  if (*made != nullptr) {
    const std::lock_guard lock(mutex_);
    *comm = keep(*std::move(made), listeners_[listener].owner);
  }
  return Reply::kSuccess;
}

Reply BuiltinNet::close_send(void* comm) {
  const std::unique_ptr<Comm> taken = take_out(mutex_, comms_, comm).object;
  if (taken == nullptr) {
    return Reply::kInvalidArgument;
  }
  // What was reported as sent arrives.
  taken->finish();
  return Reply::kSuccess;
}

Reply BuiltinNet::close_recv(void* comm) {
  const std::unique_ptr<Comm> taken = take_out(mutex_, comms_, comm).object;
  if (taken == nullptr) {
    return Reply::kInvalidArgument;
  }
  taken->say_leaving(deadline_after(std::chrono::seconds(0)));
  return Reply::kSuccess;
}

Reply BuiltinNet::close_listen(void* listener) {
  const std::lock_guard lock(mutex_);
  return listeners_.erase(listener) == 0 ? Reply::kInvalidArgument : Reply::kSuccess;
}

Reply BuiltinNet::register_memory(
    void* /*comm*/, void* /*data*/, size_t /*bytes*/, int32_t kind, void** memory) {
  *memory = nullptr;
  if (kind != kHostMemory) {
    log_error("the builtin network moves host memory only, not memory of kind {}", kind);
    return Reply::kInvalidUsage;
  }
  *memory = &memory_token_;
  return Reply::kSuccess;
}

Reply BuiltinNet::register_dma_buf(void* /*comm*/, const DmaBuf& /*buffer*/, void** memory) {
  *memory = nullptr;
  log_error("the builtin network moves host memory only, no DMA buffers");
  return Reply::kInvalidUsage;
}

Reply BuiltinNet::deregister(void* /*comm*/, void* /*memory*/) {
  return Reply::kSuccess;
}

Reply BuiltinNet::isend(void* comm, const Send& send, void** request) {
  Request* made = nullptr;
  const Reply reply =
      static_cast<SendComm*>(static_cast<Comm*>(comm))
          ->isend({static_cast<const std::byte*>(send.data), send.bytes}, send.tag, &made);
  *request = made;
  return reply;
}

// kOptionalCompletion changes nothing: the request is given out as ever.
Reply BuiltinNet::irecv(void* comm, const Receives& receives, void** request) {
  *request = nullptr;
  const auto buffers = buffers_of(receives);
  if (!buffers) {
    return Reply::kInvalidArgument;
  }
  Request* made = nullptr;
  const Reply reply =
      static_cast<RecvComm*>(static_cast<Comm*>(comm))->irecv(buffers->used(), &made);
  *request = made;
  return reply;
}

// The kernel has copied into host memory before a receive completes, so there is nothing to flush:
// NCCL takes success without a request for a flush that has ended already.
Reply BuiltinNet::iflush(void* /*comm*/, const Flush& /*flush*/, void** request) {
  *request = nullptr;
  return Reply::kSuccess;
}

Reply BuiltinNet::test(void* request, int32_t* done, int32_t* sizes) {
  if (request == nullptr) {
    return answer({StatusCode::kInvalidArgument, "test: there is no request"});
  }
  auto* const tested = static_cast<Request*>(request);
  return tested->comm->test(*tested, done, sizes);
}

void BuiltinNet::promise_order(void* comm) const {
  static_cast<Comm*>(comm)->promise_order();
}

int BuiltinNet::progress_fd(void* comm) const {
  return static_cast<Comm*>(comm)->progress_fd();
}

bool BuiltinNet::has_pending(void* comm) const {
  return static_cast<Comm*>(comm)->has_pending();
}

void BuiltinNet::look(void* comm) const {
  static_cast<Comm*>(comm)->look();
}

Status BuiltinNet::lost_peer(const Owner& self) const {
  if (self.comm_id == 0) {
    return {};
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [key, comm] : comms_) {
    if (comm.owner.comm_id == self.comm_id && comm.owner.context != self.context &&
        comm.object->peer_is_lost()) {
      return {StatusCode::kPeerLost,
              "the process at " + comm.object->peer() +
                  ", of the same communicator, has ended or given up: its connection over the "
                  "network broke; look at its log"};
    }
  }
  return {};
}

std::vector<WatchedConnection> BuiltinNet::connections() const {
  const std::lock_guard lock(mutex_);
  return watched_connections<SendComm>(comms_, &Owned<Comm>::object);
}

const std::string& BuiltinNet::peer_of(void* comm) {
  return static_cast<Comm*>(comm)->peer();
}

bool BuiltinNet::is_open(void* comm) const {
  return static_cast<Comm*>(comm)->is_open();
}

}  // namespace ho::plugin
