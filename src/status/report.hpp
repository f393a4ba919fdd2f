// What a process says of a job that it is a rank of, as JSON: for `horing status`, and for the file
// that a failure leaves. Made of the engines' recorders and of what was known when communicators
// were made: nothing of it needs a lock of an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "exec/recorder.hpp"
#include "status/network.hpp"

namespace ho {

struct WatchedRail {
  std::string interface;
  std::string address;
  uint64_t mbit = 0;  // 0: unknown
};

struct WatchedCommunicator {
  uint64_t key = 0;  // no other one of this rank has it, and all members have the same
  uint16_t id = 0;   // 0: it was not split from another one
  std::string name = {};
  std::vector<GlobalRank> ranks = {};   // of the job, by the communicator's
  std::vector<WatchedRail> rails = {};  // of this rank's host
  std::shared_ptr<const Recorder> recorder = {};
  std::string cause = {};  // why it has ended; "": it has not
};

// What a control plane reaches, of a job that has several: one for each of its groups.
struct WatchedReach {
  uint64_t plane = 0;                  // its number: communicators of two planes may have one key
  std::vector<GlobalRank> ranks = {};  // of the job, by the plane's; empty: all, and the same
};

struct WatchedJob {
  uint64_t job = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::string host = {};
  std::string program = {};
  std::vector<std::string> hosts = {};  // by rank; empty: not known yet
  std::vector<WatchedCommunicator> communicators = {};
  uint64_t ended = 0;  // of them, that are there no more
  // Under NCCL, whose communicators are known by what they use: asked at each report, by its
  // thread.
  std::vector<WatchedRail> devices = {};
  std::function<WatchedNetwork()> network = {};
};

// What of the operations is told: those under way and the last that ended, or all that are kept.
// Who asks from elsewhere knows the ranks of the job, and gets of each channel the first under way.
enum class ReportDepth : uint8_t { kElsewhere, kNow, kAll };

// Times are nanoseconds since 1970; `steady_ns` and `unix_ns` are now. Communicators that do not
// fit into `most_bytes` are counted and left out.
[[nodiscard]] std::string report_json(const WatchedJob& job,
                                      ReportDepth depth,
                                      int64_t steady_ns,
                                      int64_t unix_ns,
                                      size_t most_bytes = SIZE_MAX);
// Where a record was written, or why not.
[[nodiscard]] std::string record_answer_json(const Result<std::string>& file);

}  // namespace ho
