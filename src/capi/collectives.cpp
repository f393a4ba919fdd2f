// The collectives, point to point and requests of horing.h.
#include <unistd.h>

#include <cstddef>

#include "capi/guard.hpp"
#include "capi/handles.hpp"

namespace ho::capi {
namespace {

// Before the operation starts, so that a report that cannot be written is not a surprise at its
// end.
Status check_report(const ho_op_report* report) {
  constexpr size_t kMin = offsetof(ho_op_report, algorithm) + sizeof(report->algorithm);
  if (report != nullptr && (report->size < kMin || report->size > kLargestStructBytes)) {
    return invalid(
        fmt::format("ho_op_report.size is {}; set it to sizeof(ho_op_report) or use "
                    "HO_OP_REPORT_INIT",
                    report->size));
  }
  return {};
}

template <typename Report>
void write_report(Report* target, const Report& report) {
  if (target == nullptr) {
    return;
  }
  const size_t size = target->size;
  std::memcpy(target, &report, std::min(size, sizeof(Report)));
  target->size = size;
}

Result<CallOptions> call_options(const ho_call_options* given) {
  HORING_ASSIGN(const ho_call_options options,
                read_options(given, ho_call_options(HO_CALL_OPTIONS_INIT), "ho_call_options"));
  CallOptions result;
  if (options.algorithm != HO_ALGORITHM_AUTO) {
    if (options.algorithm < 0 || options.algorithm >= kAlgorithmCount) {
      return invalid(fmt::format("algorithm {} does not exist; see ho_algorithm",
                                 static_cast<int>(options.algorithm)));
    }
    result.algorithm = static_cast<Algorithm>(options.algorithm);
  }
  if (options.timeout_ms > 0) {
    result.timeout = std::chrono::milliseconds(std::min(options.timeout_ms, kLongestMs));
  }
  result.fp32_sums = options.fp32_sums != 0;
  return result;
}

ho_op_report to_c(const OpReport& report) {
  ho_op_report c = HO_OP_REPORT_INIT;
  c.algorithm = static_cast<ho_algorithm>(report.algorithm);
  c.intra_sent_bytes = report.intra_sent_bytes;
  c.intra_received_bytes = report.intra_received_bytes;
  c.inter_sent_bytes = report.inter_sent_bytes;
  c.inter_received_bytes = report.inter_received_bytes;
  c.total_ns = report.total_ns;
  c.inter_ns = report.inter_ns;
  c.intra_ns = report.intra_ns;
  c.overlap_ns = report.overlap_ns;
  c.wait_ns = report.wait_ns;
  return c;
}

void report_end(const std::shared_ptr<Operation>& operation, ho_op_report* report) {
  write_report(report,
               operation == nullptr ? ho_op_report(HO_OP_REPORT_INIT) : to_c(operation->report()));
}

// Starts the call; blocks when there is no place for a request.
template <typename AnyCall>
Status run_call(ho_comm* comm, const AnyCall& call, ho_op_report* report, ho_request** request) {
  HORING_TRY(check_report(report));
  auto& communicator = comm->communicator;
  HORING_ASSIGN(auto operation, communicator->start(call, request != nullptr));
  if (request != nullptr) {
    *request = std::make_unique<ho_request>(
                   ho_request{::getpid(), communicator, std::move(operation), report})
                   .release();
    return {};
  }
  Status status = communicator->finish(operation);
  report_end(operation, report);
  return status;
}

struct CollectiveArguments {
  Collective collective;
  ho_comm* comm;
  const void* send;
  void* recv;
  size_t count;
  const size_t* counts;
  bool by_counts;
  int dtype;
  int op;
  int32_t root;
  const ho_call_options* options;
  ho_op_report* report;
  ho_request** request;
};

ho_status collective(const CollectiveArguments& given) {
  return guarded([&]() -> Status {
    if (given.request != nullptr) {
      *given.request = nullptr;
    }
    HORING_TRY(check_comm(given.comm, to_string(given.collective).data()));
    if (given.by_counts && given.counts == nullptr) {
      return invalid("a null counts array");
    }
    HORING_TRY(check_enums(given.dtype, given.op));
    CollectiveCall call;
    HORING_ASSIGN(call.options, call_options(given.options));
    call.collective = given.collective;
    call.send = given.send;
    call.recv = given.recv;
    call.count = given.count;
    if (given.by_counts) {
      call.counts = {given.counts, given.comm->communicator->map().world_size()};
    }
    call.dtype = static_cast<DType>(given.dtype);
    call.op = static_cast<ReduceOp>(given.op);
    if (given.root < 0) {
      return invalid(fmt::format("root {} is negative", given.root));
    }
    call.root = GlobalRank(given.root);
    return run_call(given.comm, call, given.report, given.request);
  });
}

ho_status point_to_point(PointToPointCall call,
                         ho_comm* comm,
                         int dtype,
                         int32_t peer,
                         const ho_call_options* options,
                         ho_request** request) {
  return guarded([&]() -> Status {
    if (request != nullptr) {
      *request = nullptr;
    }
    HORING_TRY(check_comm(comm, call.sends ? "ho_send" : "ho_recv"));
    if (peer < 0) {
      return invalid(fmt::format("peer {} is negative", peer));
    }
    HORING_TRY(check_enums(dtype, 0));
    HORING_ASSIGN(call.options, call_options(options));
    call.dtype = static_cast<DType>(dtype);
    call.peer = GlobalRank(peer);
    return run_call(comm, call, nullptr, request);
  });
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
  return collective({Collective::kAllGather,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     0,
                     0,
                     options,
                     report,
                     request});
}

ho_status ho_all_gather_counts(ho_comm* comm,
                               const void* send,
                               void* recv,
                               const size_t* counts,
                               ho_dtype dtype,
                               const ho_call_options* options,
                               ho_op_report* report,
                               ho_request** request) {
  return collective({Collective::kAllGather,
                     comm,
                     send,
                     recv,
                     0,
                     counts,
                     true,
                     dtype,
                     0,
                     0,
                     options,
                     report,
                     request});
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
  return collective({Collective::kReduceScatter,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
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
  return collective({Collective::kReduceScatter,
                     comm,
                     send,
                     recv,
                     0,
                     counts,
                     true,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
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
  return collective({Collective::kAllReduce,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     op,
                     0,
                     options,
                     report,
                     request});
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
  return collective({Collective::kBroadcast,
                     comm,
                     send,
                     recv,
                     count,
                     nullptr,
                     false,
                     dtype,
                     0,
                     root,
                     options,
                     report,
                     request});
}

ho_status ho_barrier(ho_comm* comm, const ho_call_options* options) {
  return guarded([&]() -> Status {
    HORING_TRY(check_comm(comm, "ho_barrier"));
    HORING_ASSIGN(const CallOptions given, call_options(options));
    return comm->communicator->barrier(given);
  });
}

ho_status ho_send(ho_comm* comm,
                  const void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  const ho_call_options* options,
                  ho_request** request) {
  PointToPointCall call;
  call.sends = true;
  call.data = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

ho_status ho_recv(ho_comm* comm,
                  void* data,
                  size_t count,
                  ho_dtype dtype,
                  int32_t peer,
                  const ho_call_options* options,
                  ho_request** request) {
  PointToPointCall call;
  call.into = data;
  call.count = count;
  return point_to_point(call, comm, dtype, peer, options, request);
}

ho_status ho_request_test(ho_request* request, int32_t* done) {
  return guarded([&]() -> Status {
    if (request == nullptr || done == nullptr) {
      return invalid("ho_request_test: a null request or result");
    }
    HORING_TRY(check_process(request->process));
    const bool ended =
        request->operation == nullptr || request->communicator->engine().test(*request->operation);
    *done = ended ? 1 : 0;
    return {};
  });
}

ho_status ho_request_wait(ho_request* request, uint64_t timeout_ms) {
  bool in_progress = false;
  const ho_status status = guarded([&]() -> Status {
    if (request == nullptr) {
      return invalid("ho_request_wait: request is null");
    }
    HORING_TRY(check_process(request->process));
    std::unique_ptr<ho_request> owned(request);
    Status outcome;
    if (request->operation != nullptr) {
      const Deadline deadline =
          timeout_ms == 0
              ? Deadline::max()
              : deadline_after(std::chrono::milliseconds(std::min(timeout_ms, kLongestMs)));
      const auto ended = request->communicator->engine().wait(*request->operation, deadline);
      if (!ended) {
        in_progress = true;
        (void)owned.release();  // still the caller's
        return {};
      }
      outcome = *ended;
    }
    report_end(owned->operation, owned->report);
    return outcome;
  });
  return in_progress ? HO_IN_PROGRESS : status;
}

}  // extern "C"
