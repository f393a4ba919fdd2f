#include "collectives/communicator.hpp"

#include <utility>

namespace paro {
namespace {

ho_call_options within(uint64_t timeout_ms) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace

ho::Status checked(ho_status status) {
  return status == HO_OK ? ho::Status()
                         : ho::Status(static_cast<ho::StatusCode>(status), ho_last_error_message());
}

ho::Result<std::vector<uint64_t>> all_gather_values(ho_comm* comm,
                                                    std::span<const uint64_t> values,
                                                    uint64_t timeout_ms) {
  const ho_call_options options = within(timeout_ms);
  std::vector<uint64_t> all(values.size() * static_cast<size_t>(ho_comm_world_size(comm)));
  HORING_TRY(checked(ho_all_gather(
      comm, values.data(), all.data(), values.size(), HO_UINT64, &options, nullptr, nullptr)));
  return all;
}

ho::Status barrier(ho_comm* comm, uint64_t timeout_ms) {
  const ho_call_options options = within(timeout_ms);
  return checked(ho_barrier(comm, &options, nullptr));
}

ho::Status GatheredValues::begin(ho_comm* comm,
                                 std::span<const uint64_t> mine,
                                 std::span<uint64_t> all,
                                 uint64_t timeout_ms) {
  const ho_call_options options = within(timeout_ms);
  return checked(ho_all_gather(
      comm, mine.data(), all.data(), mine.size(), HO_UINT64, &options, nullptr, &request_));
}

bool GatheredValues::over() {
  int32_t done = 0;
  return ho_request_test(request_, &done) == HO_OK && done != 0;
}

ho::Status GatheredValues::join() {
  if (request_ == nullptr) {
    return {};
  }
  return checked(ho_request_wait(std::exchange(request_, nullptr), 0));
}

}  // namespace paro
