// How collectives and messages begin and end, blocking or as a request.
#pragma once

#include <memory>
#include <utility>

#include "capi/handles.hpp"

namespace ho::capi {

[[nodiscard]] Result<CallOptions> call_options(const ho_call_options* input);

// Before the operation starts, so that a report that cannot be written is not a surprise at its
// end.
[[nodiscard]] Status check_report(const ho_op_report* report);

// Hands the started operation out; blocks when there is no place for a request: until it has ended,
// or with device memory until all that the device has to do was started and `stream` waits for it.
[[nodiscard]] Status end_or_hand_out(ho_comm* comm,
                                     std::shared_ptr<Operation> operation,
                                     device::StreamHandle stream,
                                     ho_op_report* report,
                                     ho_request** request);

template <typename AnyCall>
[[nodiscard]] Status run_call(ho_comm* comm,
                              const AnyCall& call,
                              ho_op_report* report,
                              ho_request** request) {
  HORING_TRY(check_report(report));
  // What is on a device goes on behind the caller's back.
  const bool background = comm->communicator->call_device().exists() ||
                          (request != nullptr && !call.options.foreground);
  HORING_ASSIGN(auto operation, comm->communicator->start(call, background));
  return end_or_hand_out(comm, std::move(operation), call.options.stream, report, request);
}

}  // namespace ho::capi
