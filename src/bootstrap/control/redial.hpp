// A rank's way back to the coordinator when its control connection is lost: looks over which
// addresses rank 0's process can be reached, and opens a connection there that takes the place of
// the lost one. Its owner calls step() every PeerPaths::kStep. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
    wire::ResumeClaim who{};
  };

  // `fd`: the connection that stands.
  Redial(Setup setup, const wire::Addresses& coordinator_at, int fd);

  // Follows the connection while it stands: not ok once the peer's kernel is silent for too long.
  [[nodiscard]] Status look(int fd);
  // The connection is lost, for this reason, or has ended where that is empty; so many messages
  // have come.
  void begin(const std::string& why, uint64_t received);
  [[nodiscard]] bool begun() const { return paths_.begun(); }
  // A new connection; null: not yet. Errors are final: the process is gone (how its connection
  // ended), or waited for in vain.
  [[nodiscard]] Result<std::unique_ptr<Socket>> step(int64_t now_ns);
  // The coordinator has said over the new connection what it has.
  void went_on(int fd);

 private:
  void dial(const SocketAddress& to, int64_t now_ns);

  Setup setup_;
  PeerPaths paths_;
  tcp::AnswerWatch watch_;
  SocketAddress seen_;  // where the connection that stood last led to
  int64_t answered_ns_ = 0;
  std::string why_;
  int64_t begun_ns_ = 0;
  size_t tries_ = 0;
  std::unique_ptr<Connector> connector_;
  int64_t give_up_ns_ = 0;
};

}  // namespace ho
