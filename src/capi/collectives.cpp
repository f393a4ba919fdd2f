// The collectives of horing.h.
#include <cstddef>
#include <optional>

#include "capi/calls.hpp"
#include "capi/guard.hpp"

namespace ho::capi {
namespace {

// What all collectives are given beside their own arguments.
struct Common {
  ho_comm* comm;
  const ho_call_options* options;
  ho_op_report* report;
  ho_request** request;
};

// call.counts by the caller's array, where there is one to be: of one count per rank.
ho_status collective(CollectiveCall call,
                     const Common& input,
                     int dtype,
                     int op = 0,
                     std::optional<const size_t*> counts = {},
                     int32_t root = 0,
                     std::optional<const size_t*> recv_counts = {}) {
  return guarded([&]() -> Status {
    if (input.request != nullptr) {
      *input.request = nullptr;
    }
    HORING_TRY(check_comm(input.comm, to_string(call.collective).data()));
    if ((counts && *counts == nullptr) || (recv_counts && *recv_counts == nullptr)) {
      return invalid("a null counts array");
    }
    HORING_TRY(check_enums(dtype, op));
    HORING_ASSIGN(call.options, call_options(input.options));
    const size_t world = input.comm->communicator->map().world_size();
    if (counts) {
      call.counts = {*counts, world};
    }
    if (recv_counts) {
      call.recv_counts = {*recv_counts, world};
    }
    call.dtype = static_cast<DType>(dtype);
    call.op = static_cast<ReduceOp>(op);
    if (root < 0) {
      return invalid(fmt::format("root {} is negative", root));
    }
    call.root = GlobalRank(root);
    return run_call(input.comm, call, input.report, input.request);
  });
}

CollectiveCall call_of(Collective collective, const void* send, void* recv, size_t count) {
  CollectiveCall call;
  call.collective = collective;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

}  // namespace
}  // namespace ho::capi

using namespace ho;
using namespace ho::capi;

extern "C" {

ho_status ho_all_gather(ho_comm* comm,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  const CollectiveCall call = call_of(Collective::kAllGather, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype);
}

ho_status ho_all_gather_counts(ho_comm* comm,
                               const void* send,
                               void* recv,
                               const size_t* counts,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request) {
  const CollectiveCall call = call_of(Collective::kAllGather, send, recv, 0);
  return collective(call, {comm, options, report, request}, dtype, 0, counts);
}

ho_status ho_reduce_scatter(ho_comm* comm,
                            const void* send,
                            void* recv,
                            size_t count,
                            ho_dtype dtype,
                            ho_op op,
                            const ho_call_options* options,
                            ho_op_report* report,
                            ho_request** request) {
  const CollectiveCall call = call_of(Collective::kReduceScatter, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, op);
}

ho_status ho_reduce_scatter_counts(ho_comm* comm,
                                   const void* send,
                                   void* recv,
                                   const size_t* counts,
                                   ho_dtype dtype,
                                   ho_op op,
                                   const ho_call_options* options,
                                   ho_op_report* report,
                                   ho_request** request) {
  const CollectiveCall call = call_of(Collective::kReduceScatter, send, recv, 0);
  return collective(call, {comm, options, report, request}, dtype, op, counts);
}

ho_status ho_all_reduce(ho_comm* comm,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        ho_op op,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  const CollectiveCall call = call_of(Collective::kAllReduce, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, op);
}

ho_status ho_broadcast(ho_comm* comm,
                       const void* send,
                       void* recv,
                       size_t count,
                       ho_dtype dtype,
                       int32_t root,
                       const ho_call_options* options,
                       ho_op_report* report,
                       ho_request** request) {
  const CollectiveCall call = call_of(Collective::kBroadcast, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, 0, {}, root);
}

ho_status ho_all_to_all(ho_comm* comm,
                        const void* send,
                        void* recv,
                        size_t count,
                        ho_dtype dtype,
                        const ho_call_options* options,
                        ho_op_report* report,
                        ho_request** request) {
  const CollectiveCall call = call_of(Collective::kAllToAll, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype);
}

ho_status ho_all_to_all_counts(ho_comm* comm,
                               const void* send,
                               const size_t* send_counts,
                               void* recv,
                               const size_t* recv_counts,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request) {
  const CollectiveCall call = call_of(Collective::kAllToAll, send, recv, 0);
  return collective(call, {comm, options, report, request}, dtype, 0, send_counts, 0, recv_counts);
}

ho_status ho_gather(ho_comm* comm,
                    const void* send,
                    void* recv,
                    size_t count,
                    ho_dtype dtype,
                    int32_t root,
                    const ho_call_options* options,
                    ho_op_report* report,
                    ho_request** request) {
  const CollectiveCall call = call_of(Collective::kGather, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, 0, {}, root);
}

ho_status ho_scatter(ho_comm* comm,
                     const void* send,
                     void* recv,
                     size_t count,
                     ho_dtype dtype,
                     int32_t root,
                     const ho_call_options* options,
                     ho_op_report* report,
                     ho_request** request) {
  const CollectiveCall call = call_of(Collective::kScatter, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, 0, {}, root);
}

// NOLINTNEXTLINE(readability-function-size): horing.h's arguments, one more than of an all-reduce
ho_status ho_reduce(ho_comm* comm,
                    const void* send,
                    void* recv,
                    size_t count,
                    ho_dtype dtype,
                    ho_op op,
                    int32_t root,
                    const ho_call_options* options,
                    ho_op_report* report,
                    ho_request** request) {
  const CollectiveCall call = call_of(Collective::kReduce, send, recv, count);
  return collective(call, {comm, options, report, request}, dtype, op, {}, root);
}

ho_status ho_barrier(ho_comm* comm, const ho_call_options* options, ho_request** request) {
  return guarded([&]() -> Status {
    if (request != nullptr) {
      *request = nullptr;
    }
    HORING_TRY(check_comm(comm, "ho_barrier"));
    HORING_ASSIGN(const CallOptions input, call_options(options));
    HORING_ASSIGN(
        auto operation,
        comm->communicator->start_barrier(input, request != nullptr && !input.foreground));
    return end_or_hand_out(comm, std::move(operation), nullptr, nullptr, request);
  });
}

}  // extern "C"
