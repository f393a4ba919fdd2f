// A rank's way back to the coordinator when its control connection is lost: looks over which
// addresses rank 0's process can be reached, and opens a connection there that takes the place of
// the lost one. Its owner calls step() every PeerPaths::kStep. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/control/peer_paths.hpp"
#include "bootstrap/messages/wire.hpp"
#include "connect/connector.hpp"

namespace ho {

class Redial {
 public:
  static constexpr const char* kPurpose = "resume";
  struct Setup {
    ControlFailover options;
    std::shared_ptr<const JobKey> key;
    std::string coordinator;  // "rank 0 (node1, pid 12)"
    std::string self;         // "rank 5"
    wire::ResumeClaim who{};
  };

  // `fd`: the connection that stands. `own`: as PeerPaths.
  Redial(Setup setup,
         const wire::Addresses& coordinator_at,
         const std::vector<SocketAddress>& own,
         int fd);

  // Follows the connection while it stands: not ok once the peer's kernel is silent for too long.
  [[nodiscard]] Status look(int fd, int64_t now_ns);
  // The connection is lost, for this reason, or has ended where that is empty; so many messages
  // have come.
  void begin(const std::string& why, uint64_t received, int64_t now_ns);
  [[nodiscard]] bool begun() const { return paths_.begun(); }
  // A new connection; null: not yet. Errors are final: the process is gone (how its connection
  // ended), or waited for in vain. Whatever else answers at an address is not the coordinator.
  [[nodiscard]] Result<std::unique_ptr<Socket>> step(int64_t now_ns);
  // To connect, since this was made.
  [[nodiscard]] uint32_t attempts() const { return setup_.who.attempt; }
  // The coordinator has said over the new connection what it has.
  void went_on(int fd);

 private:
  void dial(const SocketAddress& to, int64_t now_ns);
  void dial_failed(const Status& why, int64_t now_ns);
  void note_pause(int64_t now_ns);

  Setup setup_;
  PeerPaths paths_;
  tcp::AnswerWatch watch_;
  SocketAddress seen_;  // where the connection that stood last led to
  int64_t answered_ns_ = 0;
  PauseWatch pauses_;
  int64_t runs_since_ns_ = 0;  // this process, without a pause
  std::string why_;
  int64_t begun_ns_ = 0;
  size_t tries_ = 0;
  uint32_t failed_ = 0;  // tries since it was lost
  int64_t dial_due_ns_ = 0;
  SocketAddress dialled_;
  std::unique_ptr<Connector> connector_;
  int64_t give_up_ns_ = 0;
  Jitter jitter_;
};

}  // namespace ho
