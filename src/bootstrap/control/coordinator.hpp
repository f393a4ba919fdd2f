// The one who hears from every rank: a thread in rank 0's process that admits the ranks, passes
// their blobs around, notices who vanishes and pronounces the decision.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "auth/job_key.hpp"
#include "base/log_quota.hpp"
#include "base/status.hpp"
#include "bootstrap/control/control_connection.hpp"
#include "bootstrap/control/gather_table.hpp"
#include "bootstrap/failure/communicator_failures.hpp"
#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/key_refusals.hpp"
#include "connect/acceptor.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

class Coordinator {
 public:
  struct Setup {
    uint32_t world_size = 1;
    std::vector<Fd> listeners;
    std::shared_ptr<const JobKey> key;
    Fd own_end;           // rank 0's own connection, a socket pair's end
    wire::RankClaim own;  // and who it is
    std::string address;  // where the others reach it, for messages
    uint64_t job_id = 0;
    Deadline deadline;               // for all ranks to meet
    std::function<void()> on_ended;  // once, when the rendezvous is over, well or not
  };

  [[nodiscard]] static Result<std::unique_ptr<Coordinator>> start(Setup setup);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  // Announces the shutdown, with the decision on what was reported until then, and ends the thread,
  // at once where all ranks answer, else within 1.2 s.
  ~Coordinator();

 private:
  // Epoll user data; every other one is a rank.
  static constexpr uint64_t kWakeToken = ~uint64_t{0};
  static constexpr uint64_t kAcceptorToken = kWakeToken - 1;
  enum class Presence : uint8_t { kAbsent, kHere, kLeft, kGone };
  struct Peer {
    Presence presence = Presence::kAbsent;
    std::unique_ptr<ControlConnection> channel;
    wire::RankClaim who;
    Deadline deadline = Deadline::max();
    bool watches_output = false;
    bool unread = false;          // some of what came from it is left for the next turn
    bool overfull = false;        // it does not read what is sent to it, and is given up
    bool shutdown_heard = false;  // it reports nothing any more
    bool lost = false;            // it had come to the rendezvous, and its connection has closed
    Status refused;               // why a rank of this job's key may not enter
    Status gave_up;               // why it cannot take part, though it had come
  };

  Coordinator(Setup setup, Fd epoll, Fd wake);

  [[nodiscard]] static std::string name_of(const wire::RankClaim& who);
  [[nodiscard]] static ControlConnection::Body outcome_body(const Status& status);
  [[nodiscard]] static Status watch(
      int epoll, int operation, int fd, uint64_t token, uint32_t more_events = 0);

  void run();
  // True: this thread is to end.
  [[nodiscard]] bool turn(Deadline end);
  [[nodiscard]] Deadline next_deadline() const;
  [[nodiscard]] Status start_accepting();
  void enter(Fd fd, const wire::RankClaim& who);
  [[nodiscard]] Status judge(const wire::RankClaim& who);
  [[nodiscard]] Status judge_rank(const wire::RankClaim& who) const;
  [[nodiscard]] bool may_be_of_another_job(const wire::RankClaim& who) const;
  void note_unsuited(const wire::RankClaim& who, const Status& why);
  void finish_rendezvous();
  void fail_rendezvous(Deadline now);
  [[nodiscard]] bool note_key_refused(const Acceptor::Arrival& arrival, const Status& why);
  [[nodiscard]] bool nobody_left_to_come() const;
  [[nodiscard]] std::vector<uint32_t> missing_ranks() const;
  [[nodiscard]] bool missing_for_keys() const;
  void call_off(const Status& why);
  void turn_away(Fd fd, const Status& why) const;
  void turn_away_waiting();
  void note_gave_up(uint32_t rank, const wire::Message& report);
  [[nodiscard]] Status all_refused_error() const;
  [[nodiscard]] std::string missing_text(std::optional<uint32_t> impatient) const;
  void end_rendezvous();

  void handle_peer(uint32_t rank);
  void handle_message(uint32_t rank, wire::Message message);
  [[nodiscard]] Status dispatch(uint32_t rank, wire::Message& message);
  void peer_closed(uint32_t rank, const std::string& how);
  void peer_left(uint32_t rank);
  [[nodiscard]] Status enter_communicator(uint32_t rank, const wire::Message& message);
  void end_gathers_of_left();
  void drop(uint32_t rank, Presence presence);
  void note_leaving(LeaveNotice leave_notice);
  void spread(LeaveNotice leave_notice);
  void send_leave_notices(Deadline now);
  void pass_on(CallQuestion question);

  void send(uint32_t rank, wire::Type type, uint64_t id, const ControlConnection::Body& body);
  void send_to_all(wire::Type type, const ControlConnection::Body& body, uint64_t id = 0);
  void send_decisions(const std::vector<CommunicatorFailures::Decision>& decisions);
  // False: it has no connection, or does not read.
  [[nodiscard]] bool takes_more(uint32_t rank);
  // What is left out where much waits for the rank already: it helps, and nobody needs it.
  void send_if_read(uint32_t rank,
                    wire::Type type,
                    uint64_t id,
                    const ControlConnection::Body& body);
  void give_up_overfull();
  void flush(uint32_t rank);
  void answer(const std::vector<GatherTable::Outcome>& outcomes);
  void answer_complete();
  void end_gathers_of(uint32_t rank, const Status& why);
  void pronounce();
  void send_shutdown();
  [[nodiscard]] bool all_heard_shutdown() const;
  void turn_of_shutdown(Deadline end);

  Setup setup_;
  Fd epoll_;
  Fd wake_;
  std::unique_ptr<Acceptor> acceptor_;
  Fd spare_;  // for turning away whoever waits when this process has no descriptors left
  std::vector<Peer> peers_;
  uint32_t present_count_ = 0;
  bool rendezvous_ = true;
  std::optional<Status> called_off_;  // why, while whoever still comes is told
  bool stop_ = false;                 // the thread's own view of wake_
  bool shutdown_ = false;             // has been sent
  bool closing_ = false;              // what is sent now is the last
  // Processes that came as a rank that was here already, by name, and what they were told.
  std::map<std::string, Status> doubles_;
  KeyRefusals key_refusals_;
  LogQuota key_refusals_told_;
  LogQuota strangers_told_;
  // When to give up because every rank that is missing was refused.
  Deadline all_refused_due_ = Deadline::max();
  std::vector<uint32_t> unread_;    // ranks that are
  std::vector<uint32_t> overfull_;  // likewise
  std::vector<LeaveNotice> leave_notices_;
  Deadline leave_notices_due_ = Deadline::max();
  // Who was first to ask: communicator, channel and call. Where all wait for one rank, all ask.
  std::map<std::tuple<uint64_t, uint8_t, std::vector<std::byte>>, GlobalRank> first_to_ask_;
  GatherTable gathers_;
  // Gathers to be answered when all is read that has come. Where this process was stopped, members
  // that have given up meanwhile lie behind their contributions: nobody may hear yes then.
  std::vector<GatherTable::Outcome> complete_;
  std::unique_ptr<CommunicatorFailures> failures_;  // once all have met
  std::vector<uint32_t> left_while_deciding_;
  std::string address_;  // where a rank was seen to reach us
  std::thread thread_;
};

}  // namespace ho
