#include "core/ucx/ucx_net.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "core/builtin/net_calls.hpp"
#include "core/driver/handles.hpp"

namespace ho::plugin {
namespace {

UcxComm* comm_of(void* comm) {
  return static_cast<UcxComm*>(comm);
}

}  // namespace

std::string ucx_devices_of(const std::string& interface_name, const std::string& sysfs) {
  const std::filesystem::path folder =
      std::filesystem::path(sysfs) / "class/net" / interface_name / "device/infiniband";
  std::string devices = interface_name;
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    devices += "," + name + ":1";
  }
  return devices;
}

Result<std::unique_ptr<UcxNet>> UcxNet::create(BuiltinConfig config) {
  if (config.emulated()) {
    return Status(StatusCode::kUnsupported,
                  "HORING_TRANSPORT=ucx: the rails are emulated (HORING_EMULATED_RAILS, which "
                  "horing run sets for --rails): they are addresses, and UCX can be kept to "
                  "interfaces only; run without --rails or where horing run makes network "
                  "namespaces (--emulate namespaces), or set HORING_TRANSPORT=tcp");
  }
  if (config.paced()) {
    return Status(StatusCode::kUnsupported,
                  "HORING_TRANSPORT=ucx: what UCX sends cannot be paced (HORING_RAIL_PACE_MBIT); "
                  "set HORING_TRANSPORT=tcp, or run where links can be shaped");
  }
  HORING_TRY(ho::ucx::load());
  const auto timeout = config.options.connect_timeout;
  config.options.carrier = Carrier::kUcx;
  config.options.connections = 1;
  HORING_ASSIGN(std::unique_ptr<BuiltinNet> tcp, BuiltinNet::create(std::move(config)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  return std::unique_ptr<UcxNet>(new UcxNet(std::move(tcp), timeout));
}

Result<UcxEnd> UcxNet::end_of(int32_t device) {
  DeviceProperties properties;
  if (tcp_->properties(device, &properties) != Reply::kSuccess) {
    return invalid("there is no device " + std::to_string(device));
  }
  const std::lock_guard lock(mutex_);
  auto& context = contexts_[device];
  if (context == nullptr) {
    auto made = ho::ucx::Context::create(UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                         ucx_devices_of(properties.name));
    HORING_TRY(made.status().with_context("device " + properties.name));
    context = *std::move(made);
  }
  return UcxEnd{properties.name, context, timeout_};
}

Reply UcxNet::open(const Opening& opening, void** context) {
  if (opening.traffic_class >= 0) {
    log_warn("traffic class {}: UCX has its own, UCX_IB_TRAFFIC_CLASS; it is not set here",
             opening.traffic_class);
  }
  return tcp_->open(opening, context);
}

Reply UcxNet::close(void* context) {
  pending_.remove_all(context);
  return tcp_->close(context);
}

Reply UcxNet::listen(void* context, int32_t device, void* handle, void** listener) {
  *listener = nullptr;
  // What UCX lacks on this device is found before a peer waits.
  if (const auto end = end_of(device); !end.ok()) {
    return answer(end.status());
  }
  auto made = std::make_unique<Listener>();
  made->device = device;
  const Reply reply = tcp_->listen(context, device, handle, &made->of_tcp);
  if (reply == Reply::kSuccess) {
    *listener = made.get();
    const std::lock_guard lock(mutex_);
    listeners_[*listener] = std::move(made);
  }
  return reply;
}

Reply UcxNet::close_listen(void* listener) {
  const std::unique_ptr<Listener> gone = take_out(mutex_, listeners_, listener);
  return gone == nullptr ? Reply::kInvalidArgument : tcp_->close_listen(gone->of_tcp);
}

void* UcxNet::keep(std::unique_ptr<UcxComm> comm) {
  UcxComm* const key = comm.get();
  const std::lock_guard lock(mutex_);
  comms_[key] = std::move(comm);
  return key;
}

Result<std::shared_ptr<UcxCall>> UcxNet::begin_call(const PendingKey& key,
                                                    SideConnection line,
                                                    std::span<std::byte, kHandleBytes> handle) {
  HORING_ASSIGN(const UcxEnd end, end_of(key.device));
  HORING_ASSIGN(std::unique_ptr<UcxCall> started, UcxCall::start(end, std::move(line)));
  std::shared_ptr<UcxCall> call = std::move(started);
  HORING_ASSIGN(const uint64_t id, pending_.add(key, call));
  set_local_id(handle, id);
  return call;
}

Reply UcxNet::connect(void* context,
                      int32_t device,
                      int32_t traffic_class,
                      void* handle,
                      void** comm,
                      void** device_handle) {
  *comm = nullptr;
  const auto bytes = handle_bytes(handle);
  const PendingKey key = pending_key(context, device, bytes);
  std::shared_ptr<UcxCall> call = pending_.find(local_id(bytes), key);
  if (call == nullptr) {
    void* line = nullptr;
    const Reply reply = tcp_->connect(context, device, traffic_class, handle, &line, device_handle);
    if (reply != Reply::kSuccess || line == nullptr) {
      return reply;
    }
    auto begun = begin_call(key, SideConnection(*tcp_, line, SideConnection::Side::kSends), bytes);
    if (!begun.ok()) {
      return answer(begun.status());
    }
    call = *std::move(begun);
  }
  auto made = call->step();
  if (made.ok() && *made == nullptr) {
    return Reply::kSuccess;
  }
  pending_.remove(local_id(bytes));
  set_local_id(bytes, 0);
  if (!made.ok()) {
    return answer(made.status());
  }
  *comm = keep(*std::move(made));
  return Reply::kSuccess;
}

Result<std::unique_ptr<UcxRecvComm>> UcxNet::step_of(Listener& listener) {
  auto made = listener.answer->step();
  if (!made.ok() || *made != nullptr) {
    listener.answer = nullptr;
  }
  return made;
}

Reply UcxNet::accept(void* listener, void** comm, void** device_handle) {
  *comm = nullptr;
  auto& listens = *static_cast<Listener*>(listener);
  if (listens.answer == nullptr) {
    void* line = nullptr;
    const Reply reply = tcp_->accept(listens.of_tcp, &line, device_handle);
    if (reply != Reply::kSuccess || line == nullptr) {
      return reply;
    }
    SideConnection side(*tcp_, line, SideConnection::Side::kReceives);
    auto end = end_of(listens.device);
    auto begun = end.ok() ? UcxAnswer::start(*end, std::move(side))
                          : Result<std::unique_ptr<UcxAnswer>>(end.status());
    if (!begun.ok()) {
      return answer(begun.status());
    }
    listens.answer = *std::move(begun);
  }
  auto made = step_of(listens);
  if (!made.ok()) {
    return answer(made.status());
  }
  if (*made != nullptr) {
    *comm = keep(*std::move(made));
  }
  return Reply::kSuccess;
}

Reply UcxNet::close_send(void* comm) {
  return take_out(mutex_, comms_, comm) == nullptr ? Reply::kInvalidArgument : Reply::kSuccess;
}

Reply UcxNet::isend(void* comm, const Send& send, void** request) {
  UcxRequest* made = nullptr;
  const Reply reply =
      static_cast<UcxSendComm*>(comm_of(comm))
          ->isend({static_cast<const std::byte*>(send.data), send.bytes}, send.tag, &made);
  *request = made;
  return reply;
}

Reply UcxNet::irecv(void* comm, const Receives& receives, void** request) {
  *request = nullptr;
  const auto buffers = buffers_of(receives);
  if (!buffers) {
    return Reply::kInvalidArgument;
  }
  UcxRequest* made = nullptr;
  const Reply reply = static_cast<UcxRecvComm*>(comm_of(comm))->irecv(buffers->used(), &made);
  *request = made;
  return reply;
}

Reply UcxNet::test(void* request, int32_t* done, int32_t* sizes) {
  if (request == nullptr) {
    return answer({StatusCode::kInvalidArgument, "test: there is no request"});
  }
  auto* const tested = static_cast<UcxRequest*>(request);
  return tested->comm->test(*tested, done, sizes);
}

int UcxNet::progress_fd(void* comm) const {
  return comm_of(comm)->progress_fd();
}

bool UcxNet::has_pending(void* comm) const {
  return comm_of(comm)->has_pending();
}

void UcxNet::look(void* comm) const {
  comm_of(comm)->look();
}

}  // namespace ho::plugin
