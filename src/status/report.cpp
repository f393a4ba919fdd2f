#include "status/report.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/dtype.hpp"
#include "status/folder.hpp"

namespace ho {
namespace {

using Json = nlohmann::ordered_json;

std::string call_name(const OperationRecord& record) {
  const uint8_t collective = record.made.frame.collective;
  if (collective == kMessage) {
    return record.progress.wait.kind == OperationWait::Kind::kSend ? "send" : "recv";
  }
  return collective == kAllToAllCounts
             ? "all_to_all_counts"
             : std::string(to_string(static_cast<Collective>(collective)));
}

class Reporter {
 public:
  Reporter(ReportDepth depth, int64_t steady_ns, int64_t unix_ns)
      : depth_(depth), offset_ns_(unix_ns - steady_ns) {}

  [[nodiscard]] Json communicator(const WatchedCommunicator& communicator) const {
    const Recorder& recorder = *communicator.recorder;
    Json json{{"id", communicator.id},
              {"name", communicator.name},
              {"ranks", Json::array()},
              {"cause", communicator.cause},
              {"completed", recorder.completed()},
              {"completed_bytes", recorder.completed_bytes()},
              {"failovers", recorder.failovers()},
              {"rails", Json::array()},
              {"operations", Json::array()}};
    for (const GlobalRank rank : communicator.ranks) {
      json["ranks"].push_back(rank.value());
    }
    for (const WatchedRail& rail : communicator.rails) {
      json["rails"].push_back(
          {{"interface", rail.interface}, {"address", rail.address}, {"mbit", rail.mbit}});
    }
    for (uint8_t channel = 0; channel < kChannelCount; ++channel) {
      add_operations(communicator, recorder.last(channel), json["operations"]);
    }
    return json;
  }

 private:
  void add_operations(const WatchedCommunicator& communicator,
                      const std::vector<OperationRecord>& records,
                      Json& into) const {
    const OperationRecord* last_ended = nullptr;
    for (const OperationRecord& record : records) {
      const bool ended = record.progress.ended_ns != 0;
      last_ended = ended ? &record : last_ended;
      if (!ended || depth_ == ReportDepth::kAll) {
        into.push_back(operation(communicator, record));
      }
    }
    if (depth_ == ReportDepth::kNow && last_ended != nullptr) {
      into.push_back(operation(communicator, *last_ended));
    }
  }

  [[nodiscard]] Json operation(const WatchedCommunicator& communicator,
                               const OperationRecord& record) const {
    const Frame& frame = record.made.frame;
    const OperationProgress& progress = record.progress;
    Json json{{"channel", record.made.channel},
              {"number", frame.collective == kMessage ? record.number : frame.sequence},
              {"call", call_name(record)},
              {"dtype", to_string(static_cast<DType>(frame.dtype))},
              {"count", frame.count},
              {"bytes", record.bytes},
              {"state", name_in(kOperationStateNames, progress.state)},
              {"entered_ns", unix_time(record.entered_ns)},
              {"first_piece_ns", unix_time(progress.first_piece_ns)},
              {"last_piece_ns", unix_time(progress.last_piece_ns)},
              {"ended_ns", unix_time(progress.ended_ns)},
              {"pieces_done", progress.done_pieces},
              {"pieces", progress.pieces}};
    if (frame.collective != kMessage) {
      json["algorithm"] = to_string(static_cast<Algorithm>(frame.algorithm));
      json["op"] = to_string(static_cast<ReduceOp>(frame.op));
    }
    if (progress.wait.kind != OperationWait::Kind::kNothing) {
      json["waits_for"] = wait(communicator, progress.wait);
    }
    return json;
  }

  [[nodiscard]] Json wait(const WatchedCommunicator& communicator,
                          const OperationWait& wait) const {
    Json json{{"what", name_in(kWaitNames, wait.kind)}, {"since_ns", unix_time(wait.since_ns)}};
    if (wait.kind == OperationWait::Kind::kEntry) {
      return json;
    }
    if (!wait.any_peer && wait.peer.at() < communicator.ranks.size()) {
      json["rank"] = communicator.ranks[wait.peer.at()].value();
    }
    if (wait.steps > 0) {
      json["step"] = wait.step;
      json["steps"] = wait.steps;
    }
    if (wait.on_rail) {
      json["rail"] = wait.rail.value();
    }
    return json;
  }

  // 0 stays: never.
  [[nodiscard]] int64_t unix_time(int64_t steady_ns) const {
    return steady_ns == 0 ? 0 : steady_ns + offset_ns_;
  }

  const ReportDepth depth_;
  const int64_t offset_ns_;
};

}  // namespace

std::string report_json(const WatchedJob& job,
                        ReportDepth depth,
                        int64_t steady_ns,
                        int64_t unix_ns) {
  const Reporter reporter(depth, steady_ns, unix_ns);
  Json json{{"format", 1},
            {"job", job_name(job.job)},
            {"rank", job.rank},
            {"world_size", job.world_size},
            {"pid", ::getpid()},
            {"host", job.host},
            {"program", job.program},
            {"time_ns", unix_ns},
            {"hosts", job.hosts},
            {"communicators", Json::array()}};
  for (const WatchedCommunicator& communicator : job.communicators) {
    json["communicators"].push_back(reporter.communicator(communicator));
  }
  // Names may hold any bytes.
  return json.dump(depth == ReportDepth::kAll ? 1 : -1,
                   ' ',
                   false,
                   nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string record_answer_json(const Result<std::string>& file) {
  const Json json = file.ok() ? Json{{"file", *file}} : Json{{"error", file.status().message()}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace ho
