#include "transport/ucx/worker.hpp"

#include <cstdlib>
#include <utility>

#include "os/clock.hpp"

namespace ho::ucx {
namespace {

constexpr std::chrono::milliseconds kCloseLimit{1000};

}  // namespace

Status ucx_error(const std::string& what, ucs_status_t status) {
  return {StatusCode::kConnection, what + ": " + call().status_string(status)};
}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    reset();
    worker_ = other.worker_;
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void Request::reset() {
  if (handle_ != nullptr && UCS_PTR_IS_PTR(handle_)) {
    if (call().request_check_status(handle_) == UCS_INPROGRESS) {
      call().request_cancel(worker_, handle_);
    }
    call().request_free(handle_);
  }
  handle_ = nullptr;
}

ucs_status_t Request::status() const {
  if (handle_ == nullptr) {
    return UCS_OK;
  }
  return UCS_PTR_IS_ERR(handle_) ? UCS_PTR_STATUS(handle_) : call().request_check_status(handle_);
}

ucs_status_t Request::received(size_t& bytes) const {
  if (!UCS_PTR_IS_PTR(handle_)) {
    return status();
  }
  ucp_tag_recv_info_t info{};
  const ucs_status_t status = call().tag_recv_request_test(handle_, &info);
  bytes = info.length;
  return status;
}

Result<std::shared_ptr<Context>> Context::create(uint64_t features, const std::string& devices) {
  HORING_TRY(load());
  std::shared_ptr<Context> context(new Context);  // NOLINT: the constructor is private
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = call().config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return ucx_error("ucp_config_read (check the UCX_ variables)", status);
  }
  if (!devices.empty() && std::getenv("UCX_NET_DEVICES") == nullptr) {
    if (const ucs_status_t status = call().config_modify(config, "NET_DEVICES", devices.c_str());
        status != UCS_OK) {
      call().config_release(config);
      return ucx_error("ucp_config_modify(NET_DEVICES=" + devices + ")", status);
    }
  }
  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = features;
  params.name = "horing";
  params.mt_workers_shared = 1;
  const ucs_status_t status =
      call().init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context->context_);
  call().config_release(config);
  if (status != UCS_OK) {
    return ucx_error("ucp_init (check UCX_TLS and UCX_NET_DEVICES)", status);
  }
  return context;
}

Context::~Context() {
  if (context_ != nullptr) {
    call().cleanup(context_);
  }
}

Result<std::unique_ptr<Worker>> Worker::create(std::shared_ptr<Context> context) {
  // NOLINTNEXTLINE: the constructor is private
  std::unique_ptr<Worker> worker(new Worker(std::move(context)));
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  worker_params.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX;
  ucs_status_t status =
      call().worker_create(worker->context_->handle(), &worker_params, &worker->worker_);
  if (status != UCS_OK) {
    return ucx_error("ucp_worker_create", status);
  }
  status = call().worker_get_efd(worker->worker_, &worker->event_fd_);
  if (status != UCS_OK) {
    return ucx_error("ucp_worker_get_efd (a transport in UCX_TLS cannot wake a sleeper)", status);
  }
  return worker;
}

Worker::~Worker() {
  if (worker_ != nullptr) {
    call().worker_destroy(worker_);
  }
}

Result<std::vector<std::byte>> Worker::address() const {
  ucp_address_t* address = nullptr;
  size_t size = 0;
  if (const ucs_status_t status = call().worker_get_address(worker_, &address, &size);
      status != UCS_OK) {
    return ucx_error("ucp_worker_get_address", status);
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(address);  // NOLINT: opaque to us
  std::vector<std::byte> copy(bytes, bytes + size);
  call().worker_release_address(worker_, address);
  return copy;
}

Status Worker::set_handler(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = argument;
  const ucs_status_t status = call().worker_set_am_recv_handler(worker_, &param);
  return status == UCS_OK ? Status() : ucx_error("ucp_worker_set_am_recv_handler", status);
}

Request Worker::send_tagged(const Peer& peer, ucp_tag_t tag, std::span<const std::byte> data) {
  const ucp_request_param_t param{};
  return {worker_, call().tag_send_nbx(peer.endpoint(), data.data(), data.size(), tag, &param)};
}

Request Worker::deliver_tagged(const Peer& peer, ucp_tag_t tag, std::span<const std::byte> data) {
  const ucp_request_param_t param{};
  return {worker_,
          call().tag_send_sync_nbx(peer.endpoint(), data.data(), data.size(), tag, &param)};
}

Request Worker::receive_tagged(ucp_tag_t tag, std::span<std::byte> into) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  return {worker_,
          call().tag_recv_nbx(worker_, into.data(), into.size(), tag, ~ucp_tag_t{0}, &param)};
}

bool Worker::arm() {
  return call().worker_arm(worker_) == UCS_OK;
}

Peer::Peer(Worker& worker, std::vector<std::byte> address, bool report_lost)
    : worker_(worker), address_(std::move(address)), report_lost_(report_lost) {}

Status Peer::connect() {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address_.data());  // NOLINT: opaque
  params.err_mode = report_lost_ ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = &Peer::on_error;
  params.err_handler.arg = this;
  const ucs_status_t status = call().ep_create(worker_.handle(), &params, &endpoint_);
  if (status != UCS_OK) {
    endpoint_ = nullptr;
    return ucx_error("ucp_ep_create (check that both hosts have equal UCX_TLS and UCX_NET_DEVICES)",
                     status);
  }
  return {};
}

void Peer::on_error(void* self, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  static_cast<Peer*>(self)->failure_ = status;
}

Peer::~Peer() {
  if (endpoint_ == nullptr) {
    return;
  }
  const auto wait = [&](void* handle, std::chrono::milliseconds most) {
    const Deadline limit = deadline_after(most);
    const Request request(worker_.handle(), handle);
    while (request.status() == UCS_INPROGRESS && !passed(limit)) {
      worker_.progress();
    }
  };
  ucp_request_param_t param{};
  if (failure_ == UCS_OK && flush_limit_.count() > 0) {
    wait(call().ep_flush_nbx(endpoint_, &param), flush_limit_);
  }
  if (report_lost_) {
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  }
  wait(call().ep_close_nbx(endpoint_, &param), kCloseLimit);
}

}  // namespace ho::ucx
