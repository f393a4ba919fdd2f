#include "capi/arguments.hpp"

#include <unistd.h>

#include "base/escaped.hpp"
#include "capi/boundary.hpp"

namespace paro::capi {
namespace {

thread_local std::string last_message;

}  // namespace

ho_status keep(const ho::Status& status) {
  last_message = status.ok() ? "" : ho::message_text(status.to_string());
  ho_set_last_error_message(last_message.c_str());
  return static_cast<ho_status>(status.code());
}

ho::Status check_runner(const paro_runner* runner, const char* what) {
  if (runner == nullptr) {
    return ho::invalid(std::string(what) + ": a null runner");
  }
  const pid_t here = ::getpid();
  if (runner->process == here) {
    return runner->lost;
  }
  return ho::invalid(std::string(what) + ": this runner was made by process " +
                     std::to_string(runner->process) +
                     " and cannot be used in its forked child, process " + std::to_string(here) +
                     "; after fork, call nothing but exec or _exit here");
}

ho::Status check_size(size_t size, const char* name) {
  if (size >= 2 * sizeof(size_t) && size <= kLargestStructBytes && size % sizeof(size_t) == 0) {
    return {};
  }
  return ho::invalid(std::string(name) + ".size is " + std::to_string(size) +
                     "; set it to sizeof(" + name + ") or use its _INIT macro");
}

ho::Status check_reserved(int64_t value, const std::string& field) {
  return value == 0 ? ho::Status()
                    : ho::invalid(field + " is " + std::to_string(value) +
                                  "; it must be 0: this version gives it no meaning");
}

}  // namespace paro::capi

extern "C" const char* paro_last_error_message(void) {
  return paro::capi::last_message.c_str();
}
