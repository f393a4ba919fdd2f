// Whether a peer still reads and writes in shared memory: it says so when it ends in good order,
// and its process is watched for the case that it cannot.
#pragma once

#include <vector>

#include "os/process_watch.hpp"
#include "transport/shm/segment.hpp"

namespace ho {

class PeerEnd {
 public:
  // `control` of channel 0, in this rank's segment; `process` outlives this.
  PeerEnd(const RingControl& control, const ProcessWatch& process)
      : control_(&control), process_(&process) {}

  // What the peer wrote, it wrote before that.
  [[nodiscard]] bool ended() const { return killed_ || control_->closed.load(kOrdered) != 0; }
  // A system call, so not for each look.
  void look_at_process() { killed_ = killed_ || process_->ended(); }

 private:
  const RingControl* control_;
  const ProcessWatch* process_;
  bool killed_ = false;
};

}  // namespace ho
