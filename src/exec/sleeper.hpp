// How a driver sleeps where nothing can move: on shared memory's doorbell, or on the descriptors of
// the network and of a device.
//
// Used by the driver alone, but for wake().
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "device/work/work.hpp"
#include "exec/run.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/transport.hpp"

namespace ho {

class Sleeper {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // All outlive it. `network` and `work` may be null.
  [[nodiscard]] static Result<std::unique_ptr<Sleeper>> create(ShmTransport& shm,
                                                               Transport* network,
                                                               device::Work* work);

  // Lets go of the lock until what `wait` names may have come, wake(), or the deadline.
  void sleep(Lock& lock, const RunWait& wait, Deadline until);
  // Ends the sleep, or the next one. Any thread.
  void wake() { shm_.wake(); }

 private:
  Sleeper(ShmTransport& shm, Transport* network, device::Work* work, Fd epoll)
      : shm_(shm), network_(network), work_(work), epoll_(std::move(epoll)) {}
  void sleep_on_descriptors(Lock& lock, const WaitHint& hint, Deadline until);
  // Until a descriptor is ready.
  void wait_for_descriptors(std::chrono::nanoseconds most) const;

  ShmTransport& shm_;
  Transport* const network_;
  device::Work* const work_;
  const Fd epoll_;
};

}  // namespace ho
