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
  // "waits", "moves", "idle", "failed", "starts"; of one that has not answered "stopped", "does not
  // answer", "another user's", "missing", "left out".
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
  // On whom those that wait do so in the end; empty: nobody waits, or in a circle.
  std::vector<uint32_t> waited_for;
  std::vector<Lateness> late;  // by communicator
  [[nodiscard]] size_t answered() const;
};

// `replies`: of one job, at least one.
[[nodiscard]] JobView view_of(const std::vector<RankReply>& replies);
// What a rail of a host is and has moved, over all of the job's ranks there.
struct RailView {
  std::string host;
  std::string address;    // "": a network's device under NCCL
  std::string interface;  // "": an emulated one
  uint64_t mbit = 0;      // 0: not known
  // Of the interface, whoever sends there; nothing: it has no counts.
  std::optional<uint64_t> sent_bytes = {};
  std::optional<uint64_t> received_bytes = {};
  int64_t time_ns = 0;  // when they were so
  bool elsewhere = false;
  // Of the job's links whose own rail it is: how often they have left it or come back, how many
  // there are, and how many of them, by their messages, go over others. Without failover 0.
  uint64_t failovers = 0;
  uint64_t links = 0;
  double away = 0;
  uint64_t lost = 0;  // of them, that have no connections now
  [[nodiscard]] double own_share() const {
    return links == 0 ? 1 : 1 - away / static_cast<double>(links);
  }
};
// By host, address and interface.
[[nodiscard]] std::vector<RailView> rails_of(const JobView& view);

// before: of the same job, earlier, for rates; null: none.
[[nodiscard]] std::string job_table(const JobView& view, const JobView* before = nullptr);
[[nodiscard]] std::string job_json(const JobView& view);

}  // namespace ho
