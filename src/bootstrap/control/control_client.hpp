// A rank's side of the control plane.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/control/control_connection.hpp"
#include "bootstrap/control/control_plane.hpp"
#include "bootstrap/control/coordinator.hpp"
#include "bootstrap/control/redial.hpp"
#include "bootstrap/messages/wire.hpp"

namespace ho {

class ControlClient final : public ControlPlane {
 public:
  // How long a coordinator may take to answer before it is taken for stopped.
  static constexpr std::chrono::milliseconds kAnswerTime{3000};

  using StartCoordinator = std::function<Result<std::unique_ptr<Coordinator>>()>;
  struct Setup {
    Fd fd;  // connected and proven
    // Rank 0's only. It is called when this rank has what it needs itself: the ranks that are let
    // in may take all other descriptors.
    StartCoordinator start_coordinator{};
    std::string local_address;
    Deadline deadline;
    std::chrono::nanoseconds rank_0_later{};  // as RendezvousConnection
    ControlFailover failover{};               // of a connection over a network
    std::shared_ptr<const JobKey> key{};      // with failover
  };
  [[nodiscard]] static Result<std::unique_ptr<ControlClient>> create(const Rendezvous& rendezvous,
                                                                     Setup setup);
  // Says goodbye. Not from a callback.
  ~ControlClient() override;
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> all_gather(
      std::string_view tag,
      std::span<const std::byte> mine,
      std::span<const GlobalRank> members,
      Deadline deadline) override;
  void start(Callbacks callbacks) override;
  void join(const Membership& membership, std::string_view tag_end) override;
  void release(uint64_t communicator) override;
  void report(const FailureReport& failure) override;
  void leave(const LeaveNotice& leave_notice) override;
  void ask(const CallQuestion& question) override;
  void answer_status(StatusCallbacks callbacks) override;
  [[nodiscard]] bool ask_status(uint64_t number) override;
  void end_gathers(std::string_view tag_end, const Status& why) override;
  void forget_gathers(std::string_view tag_end) override;
  [[nodiscard]] Status why_over(std::string_view tag_end) override;
  [[nodiscard]] uint64_t job_id() const override { return welcome_.job_id; }
  [[nodiscard]] const Rendezvous& rendezvous() const override { return rendezvous_; }
  [[nodiscard]] std::string local_address() const override { return local_address_; }

 private:
  struct Gather {
    std::string tag;
    std::vector<std::optional<wire::Buffer>> blobs;
    size_t arrived = 0;
    Deadline due = Deadline::max();  // for the coordinator's answer
    std::optional<Status> ended;     // ok or why not
  };
  using Lock = std::unique_lock<std::mutex>;
  // The coordinator answers a gather at its deadline; the answer needs a moment to get here.
  static constexpr std::chrono::milliseconds kAnswerGrace{700};

  ControlClient(const Rendezvous& rendezvous, Setup& setup);

  // Deadlines of callers may be "never"; a wait's is not.
  [[nodiscard]] static Deadline bounded(Deadline deadline) {
    constexpr std::chrono::hours kLongest{24 * 7};
    return std::min(deadline, Clock::now() + kLongest);
  }
  [[nodiscard]] Status await_welcome(Deadline deadline, std::chrono::nanoseconds rank_0_later);
  [[nodiscard]] Result<std::optional<wire::Message>> receive(Deadline deadline);
  void run();
  void turn();
  void read_input();
  [[nodiscard]] Result<std::optional<wire::Message>> next_message();
  void handle(const wire::Message& message);
  // Until deliver().
  template <typename News>
  void keep(const wire::Message& message, std::vector<News>& undelivered);
  // What the socket takes now; nothing once the coordinator has left or is gone. Locked.
  void tell(wire::Type type, uint64_t id = 0, ControlConnection::Body body = nullptr);
  template <typename News>
  void tell_unless_settled(wire::Type type, const News& news);
  void take_part(Gather& gather, const wire::Message& message);
  void answer_query(uint64_t id);
  void handle_status(const wire::Message& message);
  void tell_status(const std::function<std::string()>& report);
  // Where this process is found when the connection is lost; and where the coordinator is.
  void offer_addresses();
  void take_addresses(const wire::Message& message);
  // Who connects to where this process is found has its answer by then.
  void let_callers_go() const;
  // The connection has ended, or leads nowhere: `why` or, empty, by its end.
  void lost(const std::string& why);
  // Of a lost connection: looks for another one.
  void come_back();
  [[nodiscard]] bool is_away() { return redial_ != nullptr && redial_->begun(); }
  void say_goodbye();
  void coordinator_closed(const std::string& how);
  void end_all_gathers(const Status& why);
  [[nodiscard]] Status why_over_locked(std::string_view tag) const;
  void end_gathers_now(std::string_view tag_end, const Status& why);
  // looked: when the socket was last looked at; what is due by then has not come.
  void end_overdue_gathers(Deadline looked);
  void settle(uint64_t communicator, Status cause, bool unanswered = false);
  [[nodiscard]] bool settled(uint64_t communicator) const;
  void check_reports_answered(Deadline looked);
  void deliver();
  void wake() const;
  [[nodiscard]] int wait_ms();

  const Rendezvous rendezvous_;
  const ControlFailover failover_;
  const std::shared_ptr<const JobKey> key_;
  std::string local_address_;
  wire::Welcome welcome_;
  Fd wake_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_ from here on. The thread that reads uses the connection's input without it:
  // nobody else does.
  ControlConnection connection_;
  std::map<uint64_t, Gather> gathers_;
  uint64_t next_id_ = 1;
  std::map<std::string, Status> ended_tags_;  // how tags end that no gather can complete under
  std::optional<Callbacks> callbacks_;
  StatusCallbacks status_callbacks_;
  bool status_requested_ = false;           // before there were any
  std::optional<Status> job_decision_;      // on the whole job
  std::vector<FailureDecision> decisions_;  // not delivered yet
  struct Joined {
    std::string tag_end;          // of its gathers
    std::optional<Status> cause;  // of its end
  };
  std::map<uint64_t, Joined> joined_;       // communicators
  std::vector<LeaveNotice> leave_notices_;  // not delivered yet
  std::vector<CallQuestion> questions_;     // not delivered yet
  struct Reported {
    FailureReport failure;
    Deadline answer_due;
  };
  std::map<uint64_t, Reported> reported_;  // by communicator: the first, until a decision comes
  bool connected_ = true;
  std::string coordinator_end_;  // why it is connected no more: "rank 0 (...) has left"
  bool coordinator_end_reported_ = false;
  bool coordinator_left_ = false;
  bool goodbye_said_ = false;
  bool stop_ = false;
  // The thread's own, once the coordinator has said where it is.
  std::unique_ptr<Redial> redial_;
  Fd listener_;  // says by its existence that this process lives
  CloseOnFork listener_close_on_fork_;
  std::vector<SocketAddress> own_addresses_;
  Deadline look_due_{};

  std::unique_ptr<Coordinator> coordinator_;
  std::thread thread_;
};

}  // namespace ho
