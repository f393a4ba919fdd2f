// The C boundary: statuses become codes plus the thread's last message, exceptions end here.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/status.hpp"
#include "horing.h"

namespace ho::capi {

// Keeps the message for ho_last_error_message of this thread.
ho_status keep(const Status& status);

template <typename Function>
ho_status guarded(const Function& function) {
  try {
    return keep(function());
  } catch (const std::bad_alloc&) {
    return keep({StatusCode::kOutOfMemory, "out of memory"});
  } catch (const std::exception& error) {
    return keep({StatusCode::kInternal, std::string("unexpected exception: ") + error.what()});
  }
}

}  // namespace ho::capi
