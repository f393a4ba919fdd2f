// What a rank of a job has for NCCL's collectives, on the doubles of NCCL and of the driver: the
// device of its number, libhoring's communicators, and memory. Errors are thrown: ranks are
// threads.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/nccl_collectives.hpp"
#include "cuda_double.hpp"
#include "job.hpp"
#include "must_have.hpp"
#include "nccl_double.hpp"
#include "runtime_collectives.hpp"

namespace ho::test {

// Both doubles as new, with so many devices.
inline void reset_doubles(cuda_double::Mode mode = cuda_double::Mode::kEager,
                          const nccl_double::Config& config = {},
                          int devices = 4) {
  cuda_double::Config cuda;
  cuda.mode = mode;
  cuda.devices = devices;
  cuda.one_model = true;
  cuda_double::reset(cuda);
  nccl_double::reset(config);
}

// What the doubles still have, or have against somebody; "": nothing.
inline std::string left_on_doubles() {
  std::string text;
  for (const std::string& each : cuda_double::violations()) {
    text += each + "\n";
  }
  for (const std::string& each : nccl_double::violations()) {
    text += each + "\n";
  }
  const cuda_double::Live live = cuda_double::live();
  if (!live.none()) {
    text += std::to_string(live.pending) + " operations, " + std::to_string(live.events) +
            " events, " + std::to_string(live.device_memory) + " allocations are left";
  }
  const size_t communicators = nccl_double::live_communicators();
  return communicators == 0 ? text : text + std::to_string(communicators) + " communicators left";
}

class OnNccl {
 public:
  // On the device of the rank's number, or another one.
  explicit OnNccl(ho_comm* job,
                  uint64_t timeout_ms = 60000,
                  int ordinal = -1,
                  const device::Driver& driver = cuda_double::driver(),
                  const nccl::Nccl& nccl = nccl_double::nccl())
      : parent_(split(job, 0)),
        world_(split(parent_.get(), 0)),
        group_(split(parent_.get(), ho_comm_group_of(job, ho_comm_rank(job)))),
        device_(
            must_have(device::Device::open(driver, ordinal >= 0 ? ordinal : ho_comm_rank(job)))),
        stream_(std::make_unique<device::Stream>(must_have(device::Stream::create(*device_)))),
        rank_(must_have(
            paro::NcclRank::make(nccl, device_, parent_.get(), world_.get(), timeout_ms))) {}

  [[nodiscard]] ho_comm* parent() const { return parent_.get(); }
  [[nodiscard]] ho_comm* world() const { return world_.get(); }
  [[nodiscard]] ho_comm* group() const { return group_.get(); }
  [[nodiscard]] const device::Device& device() const { return *device_; }
  [[nodiscard]] device::StreamHandle stream() const { return stream_->handle(); }
  [[nodiscard]] paro::NcclRank& rank() const { return *rank_; }
  [[nodiscard]] std::unique_ptr<paro::NcclCollectives> over(ho_comm* set, std::string name) const {
    return must_have(rank_->over(set, std::move(name)));
  }
  [[nodiscard]] paro::CollectiveOptions options(uint64_t timeout_ms = 0) const {
    paro::CollectiveOptions options;
    options.timeout_ms = timeout_ms;
    options.stream = stream();
    return options;
  }
  [[nodiscard]] device::DeviceMemory memory(size_t bytes) const {
    return must_have(device::DeviceMemory::create(*device_, bytes));
  }
  // Until the stream has done all that it was given.
  void finish() const { finish(stream()); }
  void finish(device::StreamHandle stream) const {
    const auto current = must_have(device::CurrentContext::enter(*device_));
    must_be_ok(device_->check("cuStreamSynchronize", device_->driver().stream_synchronize(stream)));
  }

 private:
  HeldComm parent_;
  HeldComm world_;
  HeldComm group_;
  std::shared_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::shared_ptr<paro::NcclRank> rank_;
};

// Floats of the rank's device that all of them begin as.
class DeviceFloats {
 public:
  DeviceFloats(const OnNccl& on, size_t count, float value = 0.0F)
      : memory_(on.memory(count * sizeof(float))) {
    const std::vector<float> values(count, value);
    cuda_double::set_device_bytes(memory_.address(), std::as_bytes(std::span(values)));
  }
  [[nodiscard]] float* data() const { return static_cast<float*>(memory_.pointer()); }
  [[nodiscard]] float first() const {
    float value = 0;
    const auto bytes = cuda_double::device_bytes(memory_.address(), sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

 private:
  device::DeviceMemory memory_;
};

}  // namespace ho::test
