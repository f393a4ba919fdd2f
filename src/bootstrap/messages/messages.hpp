// What ranks and their coordinator tell each other, as values. How they look as bytes: wire.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"

namespace ho {

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

// What `horing status` on one host is told of a rank elsewhere.
struct StatusReport {
  GlobalRank rank;                // the coordinator fills it in
  std::vector<std::byte> report;  // JSON; empty: the rank has left, or is gone
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

}  // namespace ho
