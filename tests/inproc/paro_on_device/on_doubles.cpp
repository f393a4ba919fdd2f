#include "on_doubles.hpp"

#include <thread>

#include "must_have.hpp"
#include "os/clock.hpp"

namespace paro::test {

using ho::test::must_have;

RankDevice::RankDevice(ho_comm* comm)
    : device_(must_have(
          ho::device::Device::open(*must_have(ho::device::driver()), ho_comm_rank(comm)))),
      stream_(
          std::make_unique<ho::device::Stream>(must_have(ho::device::Stream::create(*device_)))),
      memory_(must_have(DeviceStateMemory::create(
          device_,
          stream_->handle(),
          {.slots = 3, .slot_bytes = 4096, .own_streams = kTrackCount - 1}))),
      states_{{device_, &ho::nccl_double::nccl()}, memory_.get()} {}

bool RankDevice::computed_within(std::chrono::milliseconds limit) const {
  const auto current = must_have(ho::device::CurrentContext::enter(*device_));
  const auto event = must_have(ho::device::Event::create(*device_));
  ho::test::must_be_ok(event.record(stream_->handle()));
  const ho::Deadline deadline = ho::deadline_after(limit);
  bool passed = must_have(event.passed());
  while (!passed && !ho::passed(deadline)) {
    std::this_thread::yield();
    passed = must_have(event.passed());
  }
  return passed;
}

std::vector<Strategy> strategies_of_all_scopes() {
  std::vector<Strategy> strategies;
  for (const char* const triple : {"NNN", "NII", "IIG", "GGG"}) {
    strategies.push_back(must_have(parse_strategy(triple)));
  }
  return strategies;
}

void all_come(ho_comm* comm) {
  ho::test::must(ho_barrier(comm, nullptr, nullptr));
}

}  // namespace paro::test
