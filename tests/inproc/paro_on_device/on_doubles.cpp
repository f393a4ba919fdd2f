#include "on_doubles.hpp"

#include "must_have.hpp"

namespace paro::test {

using ho::test::must_have;

RankDevice::RankDevice(ho_comm* comm)
    : device_(must_have(
          ho::device::Device::open(*must_have(ho::device::driver()), ho_comm_rank(comm)))),
      stream_(
          std::make_unique<ho::device::Stream>(must_have(ho::device::Stream::create(*device_)))),
      memory_(must_have(
          DeviceStateMemory::create(device_, stream_->handle(), {.slots = 3, .slot_bytes = 4096}))),
      states_{{device_, &ho::nccl_double::nccl(), stream_->handle()}, memory_.get()} {}

}  // namespace paro::test
