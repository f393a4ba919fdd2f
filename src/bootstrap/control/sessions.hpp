// What lets ranks come back to the coordinator over another path when their control connection is
// lost: listens for them, and finds out which of those that are away are only cut off. One thread,
// the coordinator's; nothing here blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/status.hpp"
#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/control/peer_paths.hpp"
#include "connect/acceptor.hpp"
#include "os/clock.hpp"

namespace ho {

class Sessions {
 public:
  struct Setup {
    ControlFailover options;
    std::shared_ptr<const JobKey> key;
    uint64_t job_id = 0;
    uint64_t epoll_token = 0;  // of its sockets
    std::vector<std::string> names;
  };
  // Tells all ranks but the own one where it listens. Both outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Sessions>> open(Setup setup,
                                                              uint32_t own,
                                                              int epoll,
                                                              PeerConnections& connections);
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;
  ~Sessions() = default;

  // Where the rank's process listens.
  void set_addresses(uint32_t rank, const wire::Addresses& addresses);
  // Its connection has ended, for this reason. True: it may come back, and nobody is to be told.
  [[nodiscard]] bool lost(uint32_t rank, const std::string& why);
  // It has left or is gone.
  void forget(uint32_t rank) { peers_[rank] = {}; }
  // Somebody is away, or does not answer.
  [[nodiscard]] bool someone_is_away();

  struct Gone {
    uint32_t rank = 0;
    Status how;  // ok: its process has ended; else what follows its name
  };
  // Lets in who comes back, and says who will not.
  [[nodiscard]] std::vector<Gone> step(Deadline now);
  [[nodiscard]] Deadline next_deadline() const;

 private:
  struct Peer {
    std::optional<PeerPaths> paths;  // once it has said where it listens
    std::vector<std::string> hosts;  // the addresses of its host
    SocketAddress seen;              // where it last came from
    uint32_t attempt = 0;
    tcp::AnswerWatch watch;
    std::string why;  // it is away
  };

  Sessions(Setup setup, int epoll, PeerConnections& connections)
      : setup_(std::move(setup)),
        epoll_(epoll),
        connections_(connections),
        peers_(setup_.names.size()) {}
  [[nodiscard]] Status listen(uint32_t own);
  [[nodiscard]] Status judge(const wire::ResumeClaim& claim) const;
  // Not ok: it is told so, over its new connection, which proves who says it.
  [[nodiscard]] Status is_of_this_job(const wire::ResumeClaim& claim) const;
  void enter(Fd fd, const wire::ResumeClaim& claim);
  // Whether its host answers over the connection that stands.
  void look(uint32_t rank, int64_t now_ns);
  // Whether each was seen at an address of its own host, and these are the same host's: two hosts
  // may have some addresses in common, as networks of containers repeat them, and never all.
  [[nodiscard]] static bool of_one_host(const Peer& one, const Peer& other);
  // What the connections of others on its host show.
  void ask_others_of_its_host(uint32_t rank);
  [[nodiscard]] std::optional<Gone> search(uint32_t rank, int64_t now_ns);

  Setup setup_;
  const int epoll_;
  PeerConnections& connections_;
  std::vector<Peer> peers_;
  std::unique_ptr<Acceptor> acceptor_;
  CloseOnFork listener_close_on_fork_;
  std::vector<SocketAddress> own_;  // this host's addresses
  PauseWatch pauses_;
  int64_t runs_since_ns_ = 0;  // this process, without a pause
  Deadline look_due_{};
  bool searching_ = false;
};

}  // namespace ho
