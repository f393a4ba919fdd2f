// What the ranks of one job have answered, as one view of the job: a table, or JSON. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/status/ask.hpp"
#include "cli/status/late.hpp"

namespace ho {

// For whom, and since when, the first operation of a rank waits.
struct RankWait {
  std::string what;              // "recv", "send", ..
  std::optional<uint32_t> rank;  // of the job
  std::optional<uint32_t> rail;
  std::string peer = {};    // under NCCL: at the other end of a connection
  std::string device = {};  // of that
  uint32_t step = 0;        // of `steps`; 0: none
  uint32_t steps = 0;
  double since_s = 0;
};

struct RankView {
  uint32_t rank = 0;
  pid_t pid = 0;
  std::string host = {};
  // "waits", "moves", "idle", "failed", "starts", "ended"; of one that has not answered "stopped",
  // "does not answer", "another user's", "missing", "left out".
  std::string state = {};
  std::string call = {};  // "all_reduce #12 of 64 MiB", since when it is idle, or why it has failed
  std::optional<RankWait> wait = {};
  uint64_t calls = 0;
  uint64_t bytes = 0;
  nlohmann::json report = {};  // its answer; null: none
  bool elsewhere = false;      // on another host: another rank was asked for it
  bool listens_here = false;   // it has a socket on this host
  std::vector<RecentCalls> recent = {};
};

struct JobView {
  std::string job;
  std::string program;
  std::vector<RankView> ranks;  // all, where one has answered
  // On whom those that wait do so in the end, if it does not answer or for a second at least;
  // empty: nobody waits, or in a circle.
  std::vector<uint32_t> waited_for;
  std::vector<Lateness> late;  // by communicator
  [[nodiscard]] size_t answered() const;
};

// Of its report; none: no report.
[[nodiscard]] nlohmann::json communicators_of(const RankView& rank);
[[nodiscard]] double seconds_between(int64_t earlier_ns, int64_t later_ns);

// `replies`: of one job, at least one.
[[nodiscard]] JobView view_of(const std::vector<RankReply>& replies);
// before: of the same job, earlier, for rates; null: none.
[[nodiscard]] std::string job_table(const JobView& view, const JobView* before = nullptr);
[[nodiscard]] std::string job_json(const JobView& view);

}  // namespace ho
