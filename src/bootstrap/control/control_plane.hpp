// Rendezvous and what stays of it: one authenticated TCP connection per rank to a coordinator in
// rank 0's process, kept for the life of the communicator. It exchanges blobs before there are data
// links, notices dead ranks at once, and turns many ranks' troubles into one decision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "auth/job_key.hpp"
#include "base/index.hpp"
#include "base/status.hpp"
#include "bootstrap/messages/messages.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

class ControlPlane {
 public:
  struct Callbacks {
    // All run on the control plane's thread and must not block for long.
    std::function<void(const FailureDecision&)> on_decision;         // once for each communicator
    std::function<std::vector<RankState>()> state_of;                // asked for a stall report
    std::function<void(const LeaveNotice&)> on_leave_notice = {};    // of another rank
    std::function<void(const CallQuestion&)> on_call_question = {};  // likewise
    // Rank 0 has left or is gone: after the decisions and leave notices that it has sent, nobody
    // tells this rank of others any more.
    std::function<void()> on_coordinator_end = {};
  };

  // For `horing status`, which works while all else waits. Both run on the control plane's thread,
  // and take no lock that a thread may hold for long.
  struct StatusCallbacks {
    // What this rank does, as JSON, at most wire::kMaxStatusBytes.
    std::function<std::string()> report;
    // What another rank does, asked with that number. Each of them comes once; of one that does not
    // answer nothing comes.
    std::function<void(uint64_t number, const StatusReport&)> on_report;
  };

  // Collective. Waits for all ranks until the deadline (rank 0 listens), proves the key both ways,
  // refuses other versions, worlds and duplicate ranks with a message that names them. Rank 0 may
  // bring sockets that listen at the rendezvous' address already.
  [[nodiscard]] static Result<std::unique_ptr<ControlPlane>> create(
      const Rendezvous& rendezvous,
      std::shared_ptr<const JobKey> key,
      Deadline deadline,
      std::vector<Fd> listeners = {});

  ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;
  virtual ~ControlPlane() = default;

  // Collective over the given ranks (all by default: empty), in the same order on all of them.
  // Result: by rank, in `members` order. `tag` must agree; a rank that passes another tag, or is
  // missing at the deadline, is named. Blobs of at most 1 MiB each.
  [[nodiscard]] virtual Result<std::vector<std::vector<std::byte>>> all_gather(
      std::string_view tag,
      std::span<const std::byte> mine,
      std::span<const GlobalRank> members,
      Deadline deadline) = 0;
  [[nodiscard]] Status barrier(std::string_view tag,
                               std::span<const GlobalRank> members,
                               Deadline deadline);

  // From now on events are delivered. Called once, before the first operation.
  virtual void start(Callbacks callbacks) = 0;
  // From now on the decisions on this communicator come to this rank, and end its all_gathers whose
  // tags end so. Before its members gather anything in it. Any thread. Never blocks.
  virtual void join(const Membership& membership, std::string_view tag_end) = 0;
  // This rank wants to hear no more of it.
  virtual void release(uint64_t communicator) = 0;
  // Tells the members of the communicator and of all that were split from it; the decision comes
  // back through on_decision within about 200 ms (a stall, code kTimeout, first asks all ranks
  // where they are: 2 s, if one does not answer). Any thread. Never blocks.
  virtual void report(const FailureReport& failure) = 0;
  // Tells the other members how far this rank had come with a communicator that it destroys. Any
  // thread. Never blocks. Not after rank 0 has left the job: nobody is there to pass it on.
  virtual void leave(const LeaveNotice& leave_notice) = 0;
  // Tells the other members in which call this rank waits. Any thread. Never blocks.
  virtual void ask(const CallQuestion& question) = 0;
  // From now on others may ask what this rank does, and this rank them. Once.
  virtual void answer_status(StatusCallbacks callbacks) = 0;
  // Asks all other ranks what they do. Numbers are this rank's own; who asks again hears no more of
  // what was asked before. Any thread. Never blocks. false: rank 0, which passes it on, is gone.
  [[nodiscard]] virtual bool ask_status(uint64_t number) = 0;
  // Ends this rank's all_gathers, now and later, whose tags end so: a member will not come any
  // more.
  virtual void end_gathers(std::string_view tag_end, const Status& why) = 0;
  // No gather with such a tag will be asked for any more.
  virtual void forget_gathers(std::string_view tag_end) = 0;
  // Not ok: no gather with a tag that ends so can complete any more, and why (a decision, a member
  // or rank 0 that has left). For waits that are no gathers. Any thread. Never blocks.
  [[nodiscard]] virtual Status why_over(std::string_view tag_end) = 0;
  // A random number that rank 0 drew for this job: separates jobs that share a key.
  [[nodiscard]] virtual uint64_t job_id() const = 0;
  [[nodiscard]] virtual const Rendezvous& rendezvous() const = 0;
  // The local address the control connection uses, for messages and as a fallback rail address.
  [[nodiscard]] virtual std::string local_address() const = 0;
};

// With the key of the job's connections.
struct KeyedPlane {
  std::unique_ptr<ControlPlane> plane;
  std::shared_ptr<const JobKey> key;
};

}  // namespace ho
