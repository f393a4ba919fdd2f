// The control plane of a job, shared by all of its communicators on this rank. It passes each
// decision on to the communicator that it ends, and each leave notice to the communicators with
// that rank. It answers for all of them when the coordinator asks where this rank is.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/control/control_plane.hpp"
#include "comm/job_part.hpp"
#include "exec/engine.hpp"
#include "status/service.hpp"

namespace ho {

class JobControl {
 public:
  // A communicator as its members identify it. Numbers are not unique for communicators of one rank
  // that were split off at the same time; communicator ids are.
  struct Identity {
    uint64_t communicator_id = 0;
    uint64_t parent = kWholeJob;  // the communicator id of what it was split from
    uint16_t id = 0;
    std::vector<GlobalRank> ranks;  // of the job, by the communicator's ranks
    [[nodiscard]] bool has(GlobalRank rank) const { return rank_here(rank).has_value(); }
    // The communicator's rank of the job's.
    [[nodiscard]] std::optional<GlobalRank> rank_here(GlobalRank rank) const {
      const auto found = std::ranges::find(ranks, rank);
      return found == ranks.end()
                 ? std::nullopt
                 : std::optional(GlobalRank(static_cast<size_t>(found - ranks.begin())));
    }
  };

  // What the ranks of another job call a communicator of this one.
  struct Name {
    std::string text;
    uint64_t id = 0;
  };

  // part: of another job, as which `horing status` and records show this one.
  explicit JobControl(std::unique_ptr<ControlPlane> plane, const JobPart& part = {});
  ~JobControl();
  JobControl(const JobControl&) = delete;
  JobControl& operator=(const JobControl&) = delete;

  [[nodiscard]] ControlPlane& plane() { return *plane_; }
  // Engines keep them, for requests that outlive their communicator.
  [[nodiscard]] const std::shared_ptr<CallingThreads>& threads() const { return threads_; }
  // Events are delivered from here on. Once.
  void start();
  // Before this rank gathers anything in the communicator: messages about it are kept.
  void expect(Identity identity);
  // The engine gets decisions and leave notices (earlier ones at once) until remove().
  void add(uint64_t communicator_id, Engine* engine, std::vector<WatchedRail> rails);
  // By rank of the job, for `horing status`.
  void set_hosts(std::vector<std::string> hosts) { status_.set_hosts(std::move(hosts)); }
  // The rank is in a split of the communicator, its number-th; 0: in none any more.
  void set_split(uint64_t communicator_id, uint32_t number);
  // Ends the communicator, and what was split from it, on all ranks. Does not wait.
  void fail(uint64_t communicator_id, FailureReport report);
  // After fail(): waits until the decision has reached this rank, and with it all that was split
  // from the communicator here. Without an answer it ends here with `own`. Returns the cause.
  Status await_end(uint64_t communicator_id, const Status& own);
  // Tells the other members in which call this rank waits for long.
  void ask(uint64_t communicator_id, const MadeCall& call);
  // Sends the leave notice: this rank is about to end the communicator.
  void leave(uint64_t communicator_id);
  void remove(uint64_t communicator_id);
  void set_name(uint64_t communicator_id, Name name);
  // What stands before a line of the log about it: "group 'a': ". Empty: it has no name.
  [[nodiscard]] std::string log_prefix(uint64_t communicator_id);
  // The tag under which the members of a communicator gather something.
  [[nodiscard]] static std::string gather_tag(std::string_view what,
                                              uint16_t id,
                                              uint64_t communicator_id);
  // A communicator id that no other communicator of this rank has and no other call gets. An error
  // when there is none left.
  [[nodiscard]] Result<uint16_t> next_id();
  void used_id(uint16_t id);

 private:
  struct Member {
    Identity identity;
    std::vector<uint64_t> above;  // communicator ids of what it was split from, and so on
    Engine* engine = nullptr;
    std::vector<PeerLeaveNotice> early;  // before there was an engine
    uint32_t split = 0;                  // which one it is in; 0: none
    std::optional<Status> cause = {};    // why it has ended
    Name name = {};
  };
  [[nodiscard]] Member* find(uint64_t communicator_id);
  void end_below(uint64_t communicator_id, const Status& why);
  void on_decision(const FailureDecision& decision);
  void on_leave_notice(const LeaveNotice& leave_notice);
  void on_call_question(const CallQuestion& question);
  void on_coordinator_end();
  // With those of this process's other jobs: a rank may wait in one for what it has not entered in
  // another.
  [[nodiscard]] std::vector<RankState> states();
  void add_own_states(std::vector<RankState>& all);
  void add_states_for_other_jobs(std::vector<RankState>& all);
  // Of this process. Each is one of them while it lives.
  struct Jobs;
  [[nodiscard]] static std::shared_ptr<Jobs> jobs();

  const std::shared_ptr<Jobs> jobs_ = jobs();
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable ended_;  // a member has its cause, or is gone
  void end(Member& member, const Status& why);
  [[nodiscard]] Status coordinator_gone_cause(const Status& gone) const;
  const std::shared_ptr<CallingThreads> threads_ = CallingThreads::of_process();
  std::vector<Member> members_;
  std::optional<Status> job_cause_;
  bool coordinator_ended_ = false;
  uint16_t last_id_ = 0;
  StatusService::Member status_;
  // Last: its thread calls the functions above until it is gone.
  std::unique_ptr<ControlPlane> plane_;
};

}  // namespace ho
