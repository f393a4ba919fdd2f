// Rendezvous and what stays of it: one authenticated TCP connection per rank to a coordinator in
// rank 0's process, kept for the life of the communicator. It exchanges blobs before there are data
// links, notices dead ranks at once, and turns many ranks' troubles into one decision.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "base/index.hpp"
#include "base/status.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"

namespace ho {

// Who this rank is and where the ranks meet. From torchrun's, Slurm's, Open MPI's or PMI's
// variables and HORING_RENDEZVOUS (rendezvous.hpp), or given by the caller.
struct Rendezvous {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::optional<uint32_t> local_rank;
  std::string address;      // "tcp://HOST:PORT" or "file:///PATH"; may be empty for a world of 1
  std::string source;       // "torchrun", "slurm", "openmpi", "pmi", "arguments": for messages
  std::string called = {};  // what messages call this rank; empty: "rank 5"
  std::string host = {};    // how messages name this process's host; "": by its host name
  std::string remedy = {};  // what to do where rank 0 is not found; empty: see to its settings
  std::string job = {};     // what is known of the job's identity (job_identity.hpp)
};

// Communicators are told apart by a number that only their members share. This one stands for the
// job itself, from which all others are split.
inline constexpr uint64_t kWholeJob = 0;

// That this rank is in a communicator: what ends it is told to this rank.
struct Membership {
  uint64_t communicator = 0;
  uint64_t parent = kWholeJob;  // which it was split from
  uint32_t member_count = 0;
};

// What one rank knows about a failure, or about where it is. Sent to the coordinator.
struct FailureReport {
  StatusCode code = StatusCode::kInternal;
  GlobalRank reporter;
  std::optional<GlobalRank> peer;     // whom it blames
  std::string text;                   // names operation, phase, step, rail, peer and what to do
  uint64_t communicator = kWholeJob;  // what failed
};

// Where a rank is, for the stall report. A call that is collective but no operation, as a split,
// has the channel kCallChannel, where nothing is sent: ranks need not be behind each other in it.
inline constexpr uint8_t kCallChannel = 0xff;
struct RankState {
  uint16_t communicator = 0;
  uint8_t channel = 0;
  uint32_t entered = 0;    // number of the last operation entered in that channel
  uint32_t completed = 0;  // and completed
  std::string operation;   // "all_reduce" or "" when idle
  std::string waiting;     // "recv inter step 2 of rail 1 from rank 5", or ""
  uint64_t communicator_id =
      0;  // of the communicator: its number in FailureReport and FailureDecision; 0: unknown
  // The first operation here, by number, whose end a thread waits for, where that holds the rank:
  // all of its threads that call wait so. 0: the rank may go on. As it is: the last that it
  // entered.
  uint32_t held = UINT32_MAX;
  // Of a communicator of another job, of which only this rank knows: "group 'a'". Else "".
  std::string other_job = {};
};

// A rank that destroys a communicator in an orderly way, and how far it goes: what it has entered
// it ends first, so that can still complete elsewhere, nothing beyond that can. Ranks are those of
// the job.
struct LeaveNotice {
  struct Channel {
    uint32_t entered = 0;  // operations
    std::string last;      // the last of them: "all_reduce"; "" for none
  };
  // Messages point to point that it has begun with one peer.
  struct Pair {
    GlobalRank peer;
    uint32_t sent = 0;
    uint32_t received = 0;
  };
  uint64_t communicator = 0;  // a number that only its members share
  GlobalRank rank;            // who left
  std::string name;           // "rank 5 (node1, pid 123)"; the coordinator fills it in
  std::vector<Channel> channels;
  std::vector<Pair> pairs;          // as delivered: at most the receiver's own
  std::vector<GlobalRank> members;  // who is to be told, empty: all; as delivered: empty
};

// The call in which a rank waits for long. It is told to the other members, which compare it with
// their own of that place; one that has made another call reports a mismatch.
struct CallQuestion {
  uint64_t communicator = 0;
  GlobalRank rank;  // of the job, who waits; the coordinator fills it in
  uint8_t channel = 0;
  std::vector<std::byte> call;  // as the members write and read it
};

// One outcome for all ranks of a communicator.
struct FailureDecision {
  Status cause;  // first cause first; the message names ranks
  uint64_t communicator = kWholeJob;
  // Nothing more can be told to anybody: the coordinator's process is gone. It ends the
  // communicators that rank 0 is in.
  bool coordinator_gone = false;
  // This rank's own failure: the coordinator has not answered, and tells nobody what was split from
  // the communicator.
  bool unanswered = false;
  // Others that end with it: no waiting ends them either.
  std::vector<uint64_t> also = {};
};

class ControlPlane {
 public:
  struct Callbacks {
    // All run on the control plane's thread and must not block for long.
    std::function<void(const FailureDecision&)> on_decision;         // once for each communicator
    std::function<std::vector<RankState>()> describe_state;          // asked for a stall report
    std::function<void(const LeaveNotice&)> on_leave_notice = {};    // of another rank
    std::function<void(const CallQuestion&)> on_call_question = {};  // likewise
    // Rank 0 has left or is gone: after the decisions and leave notices that it has sent, nobody
    // tells this rank of others any more.
    std::function<void()> on_coordinator_end = {};
  };

  // Collective. Meets all ranks before the deadline (rank 0 listens), proves the key both ways,
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
