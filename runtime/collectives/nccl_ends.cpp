#include "collectives/nccl_ends.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace paro {
namespace {

using ho::nccl::ResultCode;
using EndCall = ResultCode (*)(ho::nccl::CommHandle);

// Owned by every thread that is still in its call.
struct Returned {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<ResultCode>> results;
  size_t left = 0;
};

void end_in_thread(const std::shared_ptr<Returned>& returned,
                   size_t number,
                   std::shared_ptr<const ho::device::Device> device,
                   EndCall call,
                   ho::nccl::CommHandle handle) {
  std::thread([returned, number, device = std::move(device), call, handle]() mutable {
    ResultCode result = ho::nccl::kSuccess;
    {
      // Even where the context is lost: NCCL gives back what it can.
      const auto current = ho::device::CurrentContext::enter(*device);
      result = call(handle);
    }
    device.reset();
    const std::lock_guard lock(returned->mutex);
    returned->results[number] = result;
    --returned->left;
    returned->changed.notify_all();
  }).detach();
}

ho::Status not_returned(const char* call, std::chrono::milliseconds timeout) {
  return {ho::StatusCode::kTimeout,
          std::string(call) + " has not returned within " + std::to_string(timeout.count()) +
              " ms: its thread is left behind, and memory that its collectives used may still be "
              "written; end this process, and look for work on the device that does not end "
              "(nvidia-smi, py-spy)"};
}

std::vector<ho::Status> end_all(const ho::nccl::Nccl& nccl,
                                const std::shared_ptr<const ho::device::Device>& device,
                                const char* name,
                                EndCall call,
                                const std::vector<NcclEnd>& ends,
                                const NcclEndTime& time) {
  const auto returned = std::make_shared<Returned>();
  returned->results.resize(ends.size());
  returned->left = ends.size();
  for (size_t i = 0; i < ends.size(); ++i) {
    try {
      end_in_thread(returned, i, device, call, ends[i].handle);
    } catch (const std::system_error&) {  // no thread can be started: the communicator stays
      const std::lock_guard lock(returned->mutex);
      returned->results[i] = ho::nccl::kSystemError;
      --returned->left;
    }
  }
  std::unique_lock lock(returned->mutex);
  static_cast<void>(
      returned->changed.wait_until(lock, time.until, [&] { return returned->left == 0; }));
  std::vector<ho::Status> statuses;
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::optional<ResultCode>& result = returned->results[i];
    // The handle is gone also where NCCL goes on with it.
    const bool settled = result == ho::nccl::kInProgress;
    const ho::Status status =
        !result ? not_returned(name, time.timeout)
                : ho::nccl::error(nccl, name, settled ? ho::nccl::kSuccess : *result, nullptr);
    statuses.push_back(status.with_context(ends[i].name));
  }
  return statuses;
}

}  // namespace

std::vector<ho::Status> abort_all(const ho::nccl::Nccl& nccl,
                                  const std::shared_ptr<const ho::device::Device>& device,
                                  const std::vector<NcclEnd>& ends,
                                  const NcclEndTime& time) {
  return end_all(nccl, device, "ncclCommAbort", nccl.comm_abort, ends, time);
}

ho::Status destroy(const ho::nccl::Nccl& nccl,
                   const std::shared_ptr<const ho::device::Device>& device,
                   const NcclEnd& end,
                   const NcclEndTime& time) {
  return end_all(nccl, device, "ncclCommDestroy", nccl.comm_destroy, {end}, time).front();
}

}  // namespace paro
