#include "collectives/horing_collectives.hpp"

namespace paro {
namespace {

ho_dtype c_dtype(ho::DType dtype) {
  return static_cast<ho_dtype>(dtype);
}

bool is_16_bit(ho::DType dtype) {
  return dtype == ho::DType::kFloat16 || dtype == ho::DType::kBfloat16;
}

ho_call_options call_options(const CollectiveOptions& from, bool fp32_sums) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.algorithm = from.algorithm;
  options.timeout_ms = from.timeout_ms;
  options.fp32_sums = fp32_sums ? 1 : 0;
  options.stream = from.stream;
  return options;
}

ho_request* request_of(const Pending& pending) {
  return static_cast<ho_request*>(pending.request);
}

// libhoring gives a request only where a call has begun.
ho::Status begun(ho_status status, ho_request* request, Pending& pending) {
  pending.request = request;
  return checked(status);
}

}  // namespace

ho::Status HoringCollectives::begin_all_gather(const CollectiveOptions& options,
                                               ho::DType dtype,
                                               const void* mine,
                                               void* all,
                                               std::span<const size_t> counts,
                                               Pending& pending) {
  const ho_call_options call = call_options(options, false);
  ho_request* request = nullptr;
  const ho_status status = ho_all_gather_counts(
      comm_, mine, all, counts.data(), c_dtype(dtype), &call, &pending.report, &request);
  return begun(status, request, pending);
}

ho::Status HoringCollectives::begin_reduce_scatter(const CollectiveOptions& options,
                                                   ho::DType dtype,
                                                   void* all,
                                                   void* mine,
                                                   std::span<const size_t> counts,
                                                   Pending& pending) {
  const ho_call_options call = call_options(options, is_16_bit(dtype));
  ho_request* request = nullptr;
  const ho_status status = ho_reduce_scatter_counts(
      comm_, all, mine, counts.data(), c_dtype(dtype), HO_SUM, &call, &pending.report, &request);
  return begun(status, request, pending);
}

ho::Status HoringCollectives::begin_all_reduce(
    const CollectiveOptions& options, ho::DType dtype, void* all, size_t count, Pending& pending) {
  const ho_call_options call = call_options(options, is_16_bit(dtype));
  ho_request* request = nullptr;
  const ho_status status = ho_all_reduce(
      comm_, all, all, count, c_dtype(dtype), HO_SUM, &call, &pending.report, &request);
  return begun(status, request, pending);
}

ho::Status HoringCollectives::begin_broadcast(const CollectiveOptions& options,
                                              ho::DType dtype,
                                              void* all,
                                              size_t count,
                                              size_t root,
                                              Pending& pending) {
  const ho_call_options call = call_options(options, false);
  ho_request* request = nullptr;
  const ho_status status = ho_broadcast(comm_,
                                        all,
                                        all,
                                        count,
                                        c_dtype(dtype),
                                        static_cast<int32_t>(root),
                                        &call,
                                        &pending.report,
                                        &request);
  return begun(status, request, pending);
}

bool HoringCollectives::over(Pending& pending) {
  int32_t done = 1;
  return ho_request_test(request_of(pending), &done) != HO_OK || done != 0;
}

ho::Result<bool> HoringCollectives::join(Pending& pending, uint64_t timeout_ms) {
  const ho_status status = ho_request_wait(request_of(pending), timeout_ms);
  if (status == HO_IN_PROGRESS) {
    return false;
  }
  pending.request = nullptr;
  HORING_TRY(checked(status));
  return true;
}

ho::Result<bool> HoringCollectives::join_stream(Pending& pending,
                                                void* stream,
                                                uint64_t timeout_ms) {
  const ho_status status = ho_request_join(request_of(pending), stream, timeout_ms);
  if (status == HO_IN_PROGRESS) {
    return false;
  }
  HORING_TRY(checked(status));
  return true;
}

ho::Status HoringCollectives::status() {
  return checked(ho_comm_status(comm_));
}

}  // namespace paro
