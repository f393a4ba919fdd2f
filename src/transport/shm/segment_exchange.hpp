// How the ranks of a host share memory. Each rank publishes, through the control plane's exchange,
// where its socket is and what proves that a caller belongs to the job. It hands its descriptors to
// every other over abstract Unix sockets. Then it tries to read a random value in every other's
// memory, because only a try shows whether the kernel permits it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "os/event_fd.hpp"
#include "os/shared_memory.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_transport.hpp"

namespace ho {

// What this rank holds of another one.
struct ShmPeer {
  SharedMemory segment;
  EventFd event;
  pid_t pid = 0;
  bool reads_me = false;    // the peer can follow references into this process
  bool reads_peer = false;  // this process can follow the peer's
  std::string why_not;      // where reads_peer is false
};

// One entry per member, empty for this rank itself. `segment` and `event` are this rank's own.
[[nodiscard]] Result<std::vector<std::unique_ptr<ShmPeer>>> introduce(
    const ShmOptions& options,
    const SegmentGeometry& geometry,
    const SharedMemory& segment,
    const EventFd& event,
    const GroupExchange& exchange,
    Deadline deadline);

}  // namespace ho
