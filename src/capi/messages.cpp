// Messages point to point of horing.h.
#include "capi/calls.hpp"
#include "capi/guard.hpp"

namespace ho::capi {
namespace {

ho_status point_to_point(PointToPointCall call,
                         ho_comm* comm,
                         int dtype,
                         int32_t peer,
                         const ho_call_options* options,
                         ho_request** request) {
  static_assert(HO_ANY_SOURCE == -1);  // NOLINT(misc-redundant-expression): a macro
  return guarded([&]() -> Status {
    if (request != nullptr) {
      *request = nullptr;
    }
    HORING_TRY(check_comm(comm, call.sends ? "ho_send" : "ho_recv"));
    if (peer < 0 && (call.sends || peer != HO_ANY_SOURCE)) {
      return invalid(fmt::format("{}: peer {} is negative{}",
                                 call.sends ? "ho_send" : "ho_recv",
                                 peer,
                                 call.sends ? "" : "; any rank is HO_ANY_SOURCE"));
    }
    HORING_TRY(check_enums(dtype, 0));
    HORING_ASSIGN(call.options, call_options(options));
    call.dtype = static_cast<DType>(dtype);
    if (peer >= 0) {
      call.peer = GlobalRank(peer);
    }
    return run_call(comm, call, nullptr, request);
  });
}

}  // namespace
}  // namespace ho::capi

using namespace ho;
using namespace ho::capi;

extern "C" {

ho_status ho_send(ho_comm* comm,
                  const void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  int32_t tag,
                  const ho_call_options* options,
                  ho_request** request) {
  PointToPointCall call;
  call.sends = true;
  call.tag = tag;
  call.data = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

ho_status ho_recv(ho_comm* comm,
                  void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  int32_t tag,
                  const ho_call_options* options,
                  int32_t* source,
                  ho_request** request) {
  PointToPointCall call;
  call.tag = tag;
  call.source = source;
  call.into = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

}  // extern "C"
