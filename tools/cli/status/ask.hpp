// Asks the ranks of this user's jobs that run on this host, all at once, and waits for no rank
// longer than for the others. One of them asks those of other hosts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "status/folder.hpp"

namespace ho {

// What became of the question to one rank.
enum class RankAnswer : uint8_t {
  kAnswered,
  kStopped,     // its process is (SIGSTOP, a debugger)
  kNoAnswer,    // its process runs
  kOtherOwner,  // its process is not this user's
  kGone,        // of another host: it is not connected to rank 0 any more
  kLeftOut,     // of another host: there was no room for its answer
};

struct RankReply {
  StatusSocketName name;
  pid_t pid = 0;  // as this process has it; 0: not to be seen from here
  RankAnswer what = RankAnswer::kNoAnswer;
  std::string answer = {};
  bool elsewhere = false;  // another rank was asked for it
};

struct RankReplies {
  std::vector<RankReply> ranks;  // by job and rank
  // Of folders without sockets: "/tmp/horing-1000: is not there".
  std::vector<std::string> looked;
};

// Who is asked for ranks of other hosts: nobody, unless the question is for their status.
enum class AskElsewhere : uint8_t {
  kAny,    // the first rank of each job here
  kRank0,  // of jobs whose rank 0 is here: so of all hosts that ask one does
};

// `job`: the beginning of the name of those to ask; "": of all. Sockets whose process has ended are
// removed. Asked for their status, one rank of each job says what those do that have no socket
// here.
[[nodiscard]] RankReplies ask_ranks(const std::vector<std::string>& folders,
                                    std::string_view job,
                                    std::string_view question,
                                    std::chrono::milliseconds most,
                                    AskElsewhere elsewhere = AskElsewhere::kAny);
// Names of jobs that have sockets, sorted.
[[nodiscard]] std::vector<std::string> jobs_in(const std::vector<std::string>& folders);

}  // namespace ho
