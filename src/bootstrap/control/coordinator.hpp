// The one who hears from every rank: a thread in rank 0's process that waits for the ranks, passes
// their blobs around, notices who vanishes and pronounces the decision.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "bootstrap/control/gathers.hpp"
#include "bootstrap/control/passed_on.hpp"
#include "bootstrap/control/peer_connections.hpp"
#include "bootstrap/control/rendezvous_acceptor.hpp"
#include "bootstrap/control/sessions.hpp"
#include "bootstrap/control/status_questions.hpp"
#include "bootstrap/failure/communicator_failures.hpp"
#include "bootstrap/messages/wire.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

class Coordinator {
 public:
  using Setup = RendezvousAcceptor::Setup;

  [[nodiscard]] static Result<std::unique_ptr<Coordinator>> start(Setup setup);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  // Announces the shutdown, with the decision on what was reported until then, and ends the thread,
  // at once where all ranks answer, else within 1.2 s.
  ~Coordinator();

 private:
  // Epoll user data; every other one is a rank, or the rendezvous'.
  static constexpr uint64_t kWakeToken = ~uint64_t{0};
  struct Peer {
    bool unread = false;          // some of what came from it is left for the next turn
    bool shutdown_heard = false;  // it reports nothing any more
  };
  // Once all have joined.
  struct Job {
    Job(PeerConnections& peers, std::vector<std::string> names)
        : failures(std::move(names)), passed_on(peers, failures), status(peers) {}
    CommunicatorFailures failures;
    PassedOn passed_on;
    StatusQuestions status;
    std::vector<uint32_t> left_while_deciding;
  };

  Coordinator(Setup setup, Fd epoll, Fd wake);

  void run();
  // All ranks are here.
  void begin_job();
  // True: this thread is to end.
  [[nodiscard]] bool turn(Deadline end);
  [[nodiscard]] Deadline next_deadline() const;
  void handle_peer(uint32_t rank);
  void handle_message(uint32_t rank, wire::Message message);
  [[nodiscard]] Status dispatch(uint32_t rank, wire::Message& message);
  // The connection has ended, for this reason or without one, and the rank may be gone.
  void peer_ended(uint32_t rank, const Result<bool>& open);
  // `how`: ok where its connection has closed; else what follows its name.
  void peer_closed(uint32_t rank, const Status& how);
  void step_sessions(Deadline now);
  void peer_left(uint32_t rank);
  void drop(uint32_t rank);
  void end_gathers_of_left();
  void send_decisions(const std::vector<CommunicatorFailures::Decision>& decisions);
  void pronounce();
  void send_shutdown();
  [[nodiscard]] bool all_heard_shutdown() const;
  void turn_of_shutdown(Deadline end);

  const uint32_t own_rank_;
  Fd epoll_;
  Fd wake_;
  PeerConnections connections_;
  RendezvousAcceptor rendezvous_;
  Gathers gathers_;
  std::vector<Peer> peers_;
  std::vector<uint32_t> unread_;  // ranks that are
  bool stop_ = false;             // the thread's own view of wake_
  bool shutdown_ = false;         // has been sent
  bool closing_ = false;          // what is sent now is the last
  std::unique_ptr<Job> job_;
  std::unique_ptr<Sessions> sessions_;  // of the job, with failover
  std::thread thread_;
};

}  // namespace ho
