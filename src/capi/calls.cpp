// What all calls share, and the requests of horing.h.
#include "capi/calls.hpp"

#include <unistd.h>

#include <cstddef>

#include "capi/guard.hpp"

namespace ho::capi {
namespace {

template <typename Report>
void write_report(Report* target, const Report& report) {
  if (target == nullptr) {
    return;
  }
  const size_t size = target->size;
  std::memcpy(target, &report, std::min(size, sizeof(Report)));
  target->size = size;
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

}  // namespace

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

Result<CallOptions> call_options(const ho_call_options* input) {
  HORING_ASSIGN(const ho_call_options options,
                read_options(input, ho_call_options(HO_CALL_OPTIONS_INIT), "ho_call_options"));
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
  result.scale = options.scale;
  result.foreground = options.foreground != 0;
  result.stream = static_cast<device::StreamHandle>(options.stream);
  result.label = options.label;
  return result;
}

Status end_or_hand_out(ho_comm* comm,
                       std::shared_ptr<Operation> operation,
                       device::StreamHandle stream,
                       ho_op_report* report,
                       ho_request** request) {
  auto& communicator = comm->communicator;
  if (request != nullptr) {
    *request = std::make_unique<ho_request>(
                   ho_request{::getpid(), communicator, std::move(operation), report})
                   .release();
    return {};
  }
  if (report == nullptr && communicator->has_device_memory(operation)) {
    return *communicator->join(operation, stream, Deadline::max());
  }
  Status status = communicator->finish(operation);
  report_end(operation, report);
  return status;
}

namespace {

// Of an argument, in which 0 says that the operation's own deadline is enough.
Deadline deadline_of(uint64_t timeout_ms) {
  return timeout_ms == 0
             ? Deadline::max()
             : deadline_after(std::chrono::milliseconds(std::min(timeout_ms, kLongestMs)));
}

}  // namespace
}  // namespace ho::capi

using namespace ho;
using namespace ho::capi;

extern "C" {

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
      const auto ended =
          request->communicator->engine().wait(*request->operation, deadline_of(timeout_ms));
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

ho_status ho_request_set_waiting(ho_request* request, int32_t waiting) {
  return guarded([&]() -> Status {
    if (request == nullptr) {
      return invalid("ho_request_set_waiting: request is null");
    }
    HORING_TRY(check_process(request->process));
    request->hold.reset();
    if (waiting != 0 && request->operation != nullptr) {
      request->hold =
          std::make_unique<Engine::Hold>(request->communicator->engine(), request->operation);
    }
    return {};
  });
}

ho_status ho_request_join(ho_request* request, void* stream, uint64_t timeout_ms) {
  bool in_progress = false;
  const ho_status status = guarded([&]() -> Status {
    if (request == nullptr) {
      return invalid("ho_request_join: request is null");
    }
    HORING_TRY(check_process(request->process));
    const auto joined = request->communicator->join(
        request->operation, static_cast<device::StreamHandle>(stream), deadline_of(timeout_ms));
    in_progress = !joined;
    return joined.value_or(Status());
  });
  return in_progress ? HO_IN_PROGRESS : status;
}

}  // extern "C"
