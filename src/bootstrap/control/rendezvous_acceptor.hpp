// How the ranks find each other: who is let in and becomes one of the coordinator's connections,
// when all are here, and what is said when they will not be. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/control/peer_paths.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous_ranks.hpp"
#include "connect/acceptor.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

class RendezvousAcceptor {
 public:
  struct Setup {
    uint32_t world_size = 1;
    std::vector<Fd> listeners;
    std::shared_ptr<const JobKey> key;
    Fd own_end;           // rank 0's own connection, a socket pair's end
    wire::RankClaim own;  // and who it is
    std::string address;  // where the others reach it, for messages
    uint64_t job_id = 0;
    Deadline deadline;  // for all ranks to find each other
    ControlFailover failover{};
    std::function<void()> on_ended;  // once, when the rendezvous is over, well or not
  };
  // Epoll user data of its sockets.
  static constexpr uint64_t kToken = ~uint64_t{0} - 1;
  // Serves those who are in until the deadline. True: this thread is to end.
  using Turn = std::function<bool(Deadline end)>;

  // Both outlive it.
  RendezvousAcceptor(Setup setup, int epoll, PeerConnections& connections);

  // Rank 0 has entered, and the others may come.
  [[nodiscard]] Status open();
  // Lets in who has come, and ends the rendezvous where all have, or where they will not. True
  // once: all are here and welcome.
  [[nodiscard]] bool step(Deadline now, const Turn& turn);
  // The same without looking who has come: a world of one is complete at once.
  [[nodiscard]] bool finish();
  [[nodiscard]] Deadline next_deadline() const;
  [[nodiscard]] bool over() const { return over_; }
  // Nobody is let in any more.
  void close();
  // A connection has closed without a goodbye.
  void note_closed(uint32_t rank);
  [[nodiscard]] RendezvousRanks& ranks() { return ranks_; }
  [[nodiscard]] const Setup& setup() const { return setup_; }

 private:
  [[nodiscard]] Status judge(const wire::RankClaim& who);
  void enter(Fd fd, const wire::RankClaim& who);
  // Where not all will come.
  void give_up(Deadline now, const Turn& turn);
  void call_off(const Status& why);
  void turn_away_waiting(const Turn& turn);

  Setup setup_;
  const int epoll_;
  PeerConnections& connections_;
  RendezvousRanks ranks_;
  std::unique_ptr<Acceptor> acceptor_;
  Fd spare_;  // for turning away whoever waits when this process has no descriptors left
  bool over_ = false;
  std::optional<Status> called_off_;  // why, while whoever still comes is told
  std::string address_;               // where a rank was seen to reach us
};

}  // namespace ho
