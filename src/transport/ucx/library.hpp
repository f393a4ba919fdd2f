// UCX's functions. Its library is opened when a transport over UCX is asked for, and is no part of
// what this one needs: merely loading UCX sets signal handlers of the whole process.
#pragma once

#include <ucp/api/ucp.h>

#include "base/status.hpp"

namespace ho::ucx {

// X(prefix, name): all that are called.
#define HORING_UCX_FUNCTIONS(X)  \
  X(ucp, am_data_release)        \
  X(ucp, am_recv_data_nbx)       \
  X(ucp, am_send_nbx)            \
  X(ucp, cleanup)                \
  X(ucp, config_modify)          \
  X(ucp, config_read)            \
  X(ucp, config_release)         \
  X(ucp, ep_close_nbx)           \
  X(ucp, ep_create)              \
  X(ucp, ep_flush_nbx)           \
  X(ucp, init_version)           \
  X(ucp, request_cancel)         \
  X(ucp, request_check_status)   \
  X(ucp, request_free)           \
  X(ucs, status_string)          \
  X(ucp, tag_recv_nbx)           \
  X(ucp, tag_recv_request_test)  \
  X(ucp, tag_send_nbx)           \
  X(ucp, tag_send_sync_nbx)      \
  X(ucp, worker_arm)             \
  X(ucp, worker_create)          \
  X(ucp, worker_destroy)         \
  X(ucp, worker_get_address)     \
  X(ucp, worker_get_efd)         \
  X(ucp, worker_progress)        \
  X(ucp, worker_release_address) \
  X(ucp, worker_set_am_recv_handler)

// Each under its name without the prefix.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define HORING_UCX_MEMBER(prefix, name) decltype(&prefix##_##name) name = nullptr;
  HORING_UCX_FUNCTIONS(HORING_UCX_MEMBER)
#undef HORING_UCX_MEMBER
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
