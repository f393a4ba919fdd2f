// The shortest all-reduce, for tests in which it matters who has entered a call.
#pragma once

#include "call_memory.hpp"
#include "horing.h"
#include "shared_count.hpp"

namespace ho::test {

// With `entered`: counts when the call is under way. Returns at its end. 0 ms: the communicator's
// own deadline.
inline ho_status sum_of_ones(ho_comm* comm,
                             uint64_t timeout_ms = 0,
                             const SharedCount* entered = nullptr) {
  const CallFloats value(1, 1.0F);
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  ho_request* request = nullptr;
  const ho_status status = ho_all_reduce(comm,
                                         value.data(),
                                         value.data(),
                                         1,
                                         HO_FLOAT32,
                                         HO_SUM,
                                         &options,
                                         nullptr,
                                         entered != nullptr ? &request : nullptr);
  if (entered != nullptr) {
    entered->add();
  }
  return status == HO_OK && entered != nullptr ? ho_request_wait(request, 0) : status;
}

}  // namespace ho::test
