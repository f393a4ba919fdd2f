// How the members of a rail become a ring: all of them, or none and all for the same reason.
//
// NCCL hands every member the handles of all. The member that listens behind the first of them is
// the coordinator of a control plane (src/bootstrap). Through it the members send who they are,
// where their flows listen, and at last whether all flows are connected. connect() returns a
// ring only when they are on all members. A member that never connects, dies or cannot connect its
// flows is named to all others within the deadline. The control plane stays: it notices a dead
// member at once, and one member's failure ends the ring on all.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/control/control_plane.hpp"
#include "core/driver/net_driver.hpp"
#include "core/rail/handle.hpp"
#include "core/rail/ring.hpp"
#include "os/fd.hpp"

namespace ho::plugin::rail {

// A member before the rendezvous.
struct RailListener {
  RailHandle handle;
  Fd socket;
  int32_t device = 0;

  [[nodiscard]] static Result<std::unique_ptr<RailListener>> open(int32_t device,
                                                                  SocketAddress address);
};

class RailMember {
 public:
  struct Setup {
    NetDriver* driver = nullptr;
    void* context = nullptr;  // of the driver
    std::shared_ptr<const JobKey> job_key;
    std::chrono::milliseconds timeout{60'000};
    uint64_t wanted_piece_bytes = 0;
    // What all members must have in common besides, as lines of "what=value" (consistency.hpp).
    std::string consistency;
  };

  // Collective over the members; may block until the timeout. rank: this member's place in the
  // ring. handles: one per member, in any order. Uses up the listener's socket.
  [[nodiscard]] static Result<std::unique_ptr<RailMember>> connect(
      const Setup& setup,
      std::span<const HandleBytes> handles,
      uint32_t rank,
      RailListener& listener);
  RailMember(const RailMember&) = delete;
  RailMember& operator=(const RailMember&) = delete;
  ~RailMember();

  [[nodiscard]] RailRing& ring() { return *ring_; }

 private:
  explicit RailMember(std::unique_ptr<ControlPlane> plane) : plane_(std::move(plane)) {}
  [[nodiscard]] Status start_ring(const Setup& setup, RailLinks links, RailRing::Shape shape);

  std::unique_ptr<ControlPlane> plane_;
  std::unique_ptr<RailRing> ring_;
};

}  // namespace ho::plugin::rail
