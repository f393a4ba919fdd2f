// The C boundary: statuses become codes plus the thread's last message, exceptions end here.
#pragma once

#include <paro.h>

#include <exception>
#include <new>
#include <string>

#include "base/status.hpp"

namespace paro::capi {

// Keeps the message for paro_last_error_message of this thread.
ho_status keep(const ho::Status& status);

template <typename Function>
ho_status guarded(const Function& function) {
  try {
    return keep(function());
  } catch (const std::bad_alloc&) {
    return keep({ho::StatusCode::kOutOfMemory, "out of memory"});
  } catch (const std::exception& error) {
    return keep({ho::StatusCode::kInternal, std::string("unexpected exception: ") + error.what()});
  }
}

}  // namespace paro::capi
