#include "transport/ucx/library.hpp"

#include <dlfcn.h>

#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "os/shared_library.hpp"

namespace ho::ucx {
namespace {

// Of all releases whose interface is the one of the headers.
constexpr const char* kFile = "libucp.so.0";

Status cannot_open(const char* file, const std::string& why) {
  return {StatusCode::kUnsupported,
          std::string("HORING_TRANSPORT=ucx: cannot open ") + file + " (" + why +
              "); install UCX (Debian's libucx0) or name its folder in LD_LIBRARY_PATH, or set "
              "HORING_TRANSPORT=tcp"};
}

// Signal handlers as they were. They are put back instead of a setting for UCX: UCX reads only the
// environment, and setenv() beside other threads' getenv() is a race that ends in a crash.
class KeptHandlers {
 public:
  KeptHandlers() {
    keep({SIGHUP}, {"UCX_DEBUG_SIGNO"});
    keep({SIGILL, SIGSEGV, SIGBUS, SIGFPE}, {"UCX_ERROR_SIGNALS", "UCX_HANDLE_ERRORS"});
  }

  // Only where the handler is now UCX's: what another thread has set meanwhile stays.
  void put_back(void* library) const {
    const void* inside = dlsym(library, "ucs_status_string");
    Dl_info ucx{};
    if (inside == nullptr || dladdr(inside, &ucx) == 0) {
      return;
    }
    for (const Kept& kept : kept_) {
      struct sigaction now {};
      Dl_info owner{};
      if (sigaction(kept.signal, nullptr, &now) == 0 &&
          dladdr(reinterpret_cast<const void*>(now.sa_handler), &owner) != 0 &&  // NOLINT
          owner.dli_fbase == ucx.dli_fbase) {
        static_cast<void>(sigaction(kept.signal, &kept.action, nullptr));
      }
    }
  }

 private:
  struct Kept {
    int signal = 0;
    struct sigaction action {};
  };

  void keep(std::initializer_list<int> signals, std::initializer_list<const char*> requested_by) {
    for (const char* variable : requested_by) {
      if (std::getenv(variable) != nullptr) {
        return;
      }
    }
    for (const int signal : signals) {
      Kept kept;
      kept.signal = signal;
      if (sigaction(signal, nullptr, &kept.action) == 0) {
        kept_.push_back(kept);
      }
    }
  }

  std::vector<Kept> kept_;
};

// Finds functions until one is missing.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}
  template <typename Function>
  void find(Function& function, const char* name) {
    if (why_.empty()) {
      function = reinterpret_cast<Function>(dlsym(library_, name));  // NOLINT: as dlsym is made
      why_ = function == nullptr ? std::string("it has no ") + name : "";
    }
  }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void* library_;
  std::string why_;
};

std::string find_functions(void* library, Functions& functions) {
  Lookup lookup(library);
  lookup.find(functions.am_data_release, "ucp_am_data_release");
  lookup.find(functions.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  lookup.find(functions.am_send_nbx, "ucp_am_send_nbx");
  lookup.find(functions.cleanup, "ucp_cleanup");
  lookup.find(functions.config_modify, "ucp_config_modify");
  lookup.find(functions.config_read, "ucp_config_read");
  lookup.find(functions.config_release, "ucp_config_release");
  lookup.find(functions.ep_close_nbx, "ucp_ep_close_nbx");
  lookup.find(functions.ep_create, "ucp_ep_create");
  lookup.find(functions.ep_flush_nbx, "ucp_ep_flush_nbx");
  lookup.find(functions.init_version, "ucp_init_version");
  lookup.find(functions.request_cancel, "ucp_request_cancel");
  lookup.find(functions.request_check_status, "ucp_request_check_status");
  lookup.find(functions.request_free, "ucp_request_free");
  lookup.find(functions.status_string, "ucs_status_string");  // in a library that UCX's opens
  lookup.find(functions.tag_recv_nbx, "ucp_tag_recv_nbx");
  lookup.find(functions.tag_recv_request_test, "ucp_tag_recv_request_test");
  lookup.find(functions.tag_send_nbx, "ucp_tag_send_nbx");
  lookup.find(functions.tag_send_sync_nbx, "ucp_tag_send_sync_nbx");
  lookup.find(functions.worker_arm, "ucp_worker_arm");
  lookup.find(functions.worker_create, "ucp_worker_create");
  lookup.find(functions.worker_destroy, "ucp_worker_destroy");
  lookup.find(functions.worker_get_address, "ucp_worker_get_address");
  lookup.find(functions.worker_get_efd, "ucp_worker_get_efd");
  lookup.find(functions.worker_progress, "ucp_worker_progress");
  lookup.find(functions.worker_release_address, "ucp_worker_release_address");
  lookup.find(functions.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  return lookup.why();
}

const Result<Functions>& loaded() {
  static const Result<Functions> opened = open_library(kFile);
  return opened;
}

}  // namespace

Result<Functions> open_library(const char* file) {
  const KeptHandlers handlers;
  // Stays: its threads and the modules that it opens itself outlive every context.
  const Result<void*> library = load_library(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library.ok()) {
    return cannot_open(file, library.status().message());
  }
  handlers.put_back(*library);
  Functions functions;
  if (const std::string why = find_functions(*library, functions); !why.empty()) {
    return cannot_open(file, why);
  }
  return functions;
}

Status load() {
  return loaded().status();
}

const Functions& call() {
  // Nothing to destroy: threads may call while the process ends.
  static const Functions functions = *loaded();
  return functions;
}

}  // namespace ho::ucx
