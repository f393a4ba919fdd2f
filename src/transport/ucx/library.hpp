// UCX's functions. Its library is opened when a transport over UCX is asked for, and is no part of
// what this one needs: merely loading UCX sets signal handlers of the whole process.
#pragma once

#include <ucp/api/ucp.h>

#include "base/status.hpp"

namespace ho::ucx {

// Each under its name without the prefix.
struct Functions {
  decltype(&ucp_am_data_release) am_data_release = nullptr;
  decltype(&ucp_am_recv_data_nbx) am_recv_data_nbx = nullptr;
  decltype(&ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&ucp_cleanup) cleanup = nullptr;
  decltype(&ucp_config_modify) config_modify = nullptr;
  decltype(&ucp_config_read) config_read = nullptr;
  decltype(&ucp_config_release) config_release = nullptr;
  decltype(&ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&ucp_ep_create) ep_create = nullptr;
  decltype(&ucp_ep_flush_nbx) ep_flush_nbx = nullptr;
  decltype(&ucp_init_version) init_version = nullptr;
  decltype(&ucp_request_cancel) request_cancel = nullptr;
  decltype(&ucp_request_check_status) request_check_status = nullptr;
  decltype(&ucp_request_free) request_free = nullptr;
  decltype(&ucs_status_string) status_string = nullptr;
  decltype(&ucp_tag_recv_nbx) tag_recv_nbx = nullptr;
  decltype(&ucp_tag_recv_request_test) tag_recv_request_test = nullptr;
  decltype(&ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&ucp_tag_send_sync_nbx) tag_send_sync_nbx = nullptr;
  decltype(&ucp_worker_arm) worker_arm = nullptr;
  decltype(&ucp_worker_create) worker_create = nullptr;
  decltype(&ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&ucp_worker_progress) worker_progress = nullptr;
  decltype(&ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
};

// Opens that library, which then stays. The handlers that UCX sets by default (a menu at SIGHUP,
// its own report of faults) are taken off again, unless the environment requests them:
// UCX_DEBUG_SIGNO; UCX_ERROR_SIGNALS or UCX_HANDLE_ERRORS.
[[nodiscard]] Result<Functions> open_library(const char* file);

// UCX's own, opened by the first call.
[[nodiscard]] Status load();
// After load() has succeeded.
[[nodiscard]] const Functions& call();

}  // namespace ho::ucx
