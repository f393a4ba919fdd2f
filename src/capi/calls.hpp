// How collectives and messages begin and end, blocking or as a request.
#pragma once

#include <memory>
#include <utility>

#include "capi/handles.hpp"

namespace ho::capi {

[[nodiscard]] Result<CallOptions> call_options(const ho_call_options* given);

// Before the operation starts, so that a report that cannot be written is not a surprise at its
// end.
[[nodiscard]] Status check_report(const ho_op_report* report);

// Hands the started operation out; blocks when there is no place for a request.
[[nodiscard]] Status end_or_hand_out(ho_comm* comm,
                                     std::shared_ptr<Operation> operation,
                                     ho_op_report* report,
                                     ho_request** request);

template <typename AnyCall>
[[nodiscard]] Status run_call(ho_comm* comm,
                              const AnyCall& call,
                              ho_op_report* report,
                              ho_request** request) {
  HORING_TRY(check_report(report));
  const bool background = request != nullptr && !call.options.foreground;
  HORING_ASSIGN(auto operation, comm->communicator->start(call, background));
  return end_or_hand_out(comm, std::move(operation), report, request);
}

}  // namespace ho::capi
