// Messages between ranks of one host through shared memory, and the doorbell that wakes a rank.
//
// Each rank owns one anonymous memory file (memfd) with its doorbell and the rings that its peers
// write into, and one eventfd. Descriptors travel over abstract Unix sockets while the transport is
// made, so nothing ever has a name in a file system and nothing outlives the processes, however
// they die.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "os/clock.hpp"
#include "transport/transport.hpp"

namespace ho {

struct ShmOptions {
  GlobalRank self;
  std::vector<GlobalRank> members;  // all ranks of this host in the communicator, self included
  // Per peer and channel; equal on all members. Rounded down to a power of two of at least 8 KiB,
  // then halved until the rings of all peers and channels fit in 16 MiB per rank (or are 8 KiB).
  uint64_t ring_bytes = uint64_t{128} << 10;
  uint64_t single_copy_min_bytes = uint64_t{16}
                                   << 10;  // payloads from here on are read by the receiver
  bool single_copy = true;                 // process_vm_readv where the kernel permits it
  uint64_t job_id = 0;
  // Not ok: the others can no longer connect, and why. Called at least every 100 ms while the
  // transport is made, and not later.
  std::function<Status()> interrupted = {};
};

// All-gather of a small blob among `members`, in members' order (the control plane's).
using GroupExchange =
    std::function<Result<std::vector<std::vector<std::byte>>>(std::span<const std::byte> mine)>;

class ShmTransport : public Transport {
 public:
  // Collective over the members (the exchange is called twice, not at all by a single member). On
  // success nothing is left to connect. `exchange` must end by the deadline itself.
  //
  // link() uses a peer and a channel; rail and communicator of the key are ignored, so two
  // communicators over one transport must use a channel in the same order on both sides.
  [[nodiscard]] static Result<std::unique_ptr<ShmTransport>> create(const ShmOptions& options,
                                                                    const GroupExchange& exchange,
                                                                    Deadline deadline);

  // Sleeps until a peer's event that `hint` names, wake(), or the deadline: for when nothing but
  // shared memory (or wake) can end the wait. With network links use prepare_wait, epoll over
  // wait_fd() (the eventfd), finish_wait.
  void wait(const WaitHint& hint, Deadline deadline) {
    if (prepare_sleep(hint)) {
      sleep(deadline);
      finish_sleep();
    }
  }
  // Its three parts, where other threads use the transport in turn: only sleep() may run beside
  // them, the others check all links. finish_sleep() only after prepare_sleep() has returned true.
  [[nodiscard]] virtual bool prepare_sleep(const WaitHint& hint) = 0;
  virtual void sleep(Deadline deadline) = 0;
  virtual void finish_sleep() = 0;
  // This rank reads and writes nothing any more: peers that wait for it read that. The transport's
  // end does so too.
  virtual void close() {}
  // Ends this rank's wait or epoll sleep; any thread; remembered when it is not asleep.
  virtual void wake() = 0;
  // For memory that the members share beside the transport, which may outlive it on one of them.
  // A rank is a member until its transport has ended and nobody holds this.
  [[nodiscard]] virtual std::shared_ptr<const void> membership() const = 0;
  // Whether all others have ended as members, or their processes have. It does not need the
  // transport to live.
  [[nodiscard]] virtual std::function<bool()> others_ended() const = 0;
  // Whether payloads to every peer can be read in place, and if not, why ("rank 3:
  // process_vm_readv: Operation not permitted").
  [[nodiscard]] virtual std::string single_copy_status() const = 0;
};

}  // namespace ho
