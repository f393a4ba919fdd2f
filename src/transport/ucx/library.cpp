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

// Why not, if one is missing.
std::string find_functions(void* library, Functions& functions) {
  std::string why;
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    if (why.empty()) {
      function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT: as dlsym is made
      why = function == nullptr ? std::string("it has no ") + name : "";
    }
  };
#define HORING_FIND_UCX(prefix, name) find(functions.name, #prefix "_" #name);
  HORING_UCX_FUNCTIONS(HORING_FIND_UCX)
#undef HORING_FIND_UCX
  return why;
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
