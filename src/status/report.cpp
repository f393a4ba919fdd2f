#include "status/report.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/dtype.hpp"
#include "base/quantity.hpp"
#include "os/interface_bytes.hpp"
#include "os/socket.hpp"
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

// Of "10.1.0.2:4000 (RANK 3 on node1)": what launchers tell processes is all that they can tell one
// another under NCCL.
std::optional<uint32_t> rank_in(std::string_view peer) {
  constexpr std::string_view kRank = "RANK ";
  const size_t at = peer.rfind(kRank);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = peer.substr(at + kRank.size());
  return whole_number<uint32_t>(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// Names may hold any bytes.
std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

bool is_left_by_all_at_once(uint8_t collective) {
  return collective <= static_cast<uint8_t>(Collective::kAllReduce) ||
         collective == static_cast<uint8_t>(Collective::kAllToAll) || collective == kAllToAllCounts;
}

class Reporter {
 public:
  Reporter(ReportDepth depth, int64_t steady_ns, int64_t unix_ns)
      : depth_(depth), steady_ns_(steady_ns), offset_ns_(unix_ns - steady_ns) {}

  [[nodiscard]] Json communicator(const WatchedCommunicator& communicator) const {
    const Recorder& recorder = *communicator.recorder;
    Json json{{"key", fmt::format("{:016x}", communicator.key)},
              {"id", communicator.id},
              {"name", communicator.name},
              {"size", communicator.ranks.size()},
              {"ranks", Json::array()},
              {"cause", communicator.cause},
              {"completed", recorder.completed()},
              {"completed_bytes", recorder.completed_bytes()},
              {"failovers", 0},
              {"rails", Json::array()},
              {"operations", Json::array()},
              {"recent", Json::array()}};
    if (depth_ != ReportDepth::kElsewhere) {
      for (const GlobalRank rank : communicator.ranks) {
        json["ranks"].push_back(rank.value());
      }
    }
    add_rails(communicator.rails, json["rails"]);
    const std::vector<RailUse> uses = recorder.rail_use();
    for (size_t i = 0; i < std::min(uses.size(), json["rails"].size()); ++i) {
      add_rail_use(uses[i], json["rails"][i], json);
    }
    for (uint8_t channel = 0; channel < kChannelCount; ++channel) {
      const std::vector<OperationRecord> records = recorder.last(channel);
      add_operations(communicator, records, json["operations"]);
      add_recent(records, json["recent"]);
    }
    return json;
  }

  // Those of NCCL that have connections or rails.
  [[nodiscard]] Json nccl_communicators(const WatchedJob& job) const {
    const WatchedNetwork network = job.network();
    std::map<uint64_t, Json> all;
    std::map<std::pair<uint64_t, std::string>, RailUse> uses;
    const auto of = [&](uint64_t comm_id) -> Json& {
      const auto [found, is_new] = all.try_emplace(comm_id);
      if (is_new) {
        found->second = nccl_communicator(comm_id, job.devices);
      }
      return found->second;
    };
    for (const WatchedConnection& connection : network.connections) {
      const bool of_rail = std::ranges::any_of(network.rings, [&](const WatchedRing& ring) {
        return ring.context != 0 && ring.context == connection.context;
      });
      Json& json = of(connection.comm_id);
      // A connection's own rail is the device that NCCL has opened it on.
      uses[{connection.comm_id, connection.device}] += connection.rail_use;
      if (!of_rail) {  // what a rail moves is counted by its calls
        add_to(json, "completed", connection.completed);
        add_to(json, "completed_bytes", connection.completed_bytes);
      }
      if (connection.failed && json["cause"] == "") {
        json["cause"] = fmt::format("the connection {} {} over {} has failed; see this rank's log",
                                    connection.sends ? "to" : "from",
                                    connection.peer,
                                    connection.device);
      }
      json["connections"].push_back(this->connection(connection, of_rail));
    }
    for (const WatchedRing& ring : network.rings) {
      Json& json = of(ring.comm_id);
      add_to(json, "completed", ring.completed);
      add_to(json, "completed_bytes", ring.completed_bytes);
      json["cause"] = ring.cause.empty() ? json["cause"] : Json(ring.cause);
      for (const WatchedCall& call : ring.calls) {
        json["operations"].push_back(this->call(call, ring, network.connections));
      }
    }
    Json json = Json::array();
    for (auto& [comm_id, communicator] : all) {
      for (Json& rail : communicator["rails"]) {
        add_rail_use(uses[{comm_id, rail["interface"]}], rail, communicator);
      }
      json.push_back(std::move(communicator));
    }
    return json;
  }

 private:
  static void add_to(Json& json, const char* key, uint64_t what) {
    json[key] = json[key].get<uint64_t>() + what;
  }

  static void add_rail_use(const RailUse& use, Json& rail, Json& communicator) {
    add_to(communicator, "failovers", use.failovers);
    add_to(rail, "failovers", use.failovers);
    if (const std::optional<double> own_share = use.own_share()) {
      rail["links"] = use.links;
      rail["own_share"] = *own_share;
      rail["lost_links"] = use.lost;
    }
  }

  // How long the last collectives took that no rank leaves before all have entered: who has been in
  // them for the shortest time has come last, whatever the clocks of hosts say.
  void add_recent(const std::vector<OperationRecord>& records, Json& into) const {
    constexpr size_t kMaxRecent = 64;
    if (depth_ == ReportDepth::kAll) {
      return;  // all of it is there
    }
    size_t found = 0;
    for (auto at = records.rbegin(); at != records.rend() && found < kMaxRecent; ++at) {
      const Frame& frame = at->made.frame;
      if (at->progress.state == OperationProgress::State::kCompleted &&
          is_left_by_all_at_once(frame.collective)) {
        into.push_back({at->made.channel, frame.sequence, at->progress.ended_ns - at->entered_ns});
        ++found;
      }
    }
  }

  void add_rails(const std::vector<WatchedRail>& rails, Json& into) const {
    for (const WatchedRail& rail : rails) {
      Json json{{"interface", rail.interface},
                {"address", rail.address},
                {"mbit", rail.mbit},
                {"failovers", 0}};
      const InterfaceState state = interface_state(rail.interface);
      if (state == InterfaceState::kDown || state == InterfaceState::kNoCarrier) {
        json["trouble"] = state == InterfaceState::kDown ? "down" : "no carrier";
      }
      if (const auto bytes = interfaces_.find(rail.interface); bytes != interfaces_.end()) {
        json["sent_bytes"] = bytes->second.sent;
        json["received_bytes"] = bytes->second.received;
      }
      into.push_back(std::move(json));
    }
  }

  [[nodiscard]] Json nccl_communicator(uint64_t comm_id,
                                       const std::vector<WatchedRail>& devices) const {
    Json json{{"id", 0},
              {"name", comm_id == 0 ? "NCCL" : fmt::format("NCCL {:016x}", comm_id)},
              {"ranks", Json::array()},
              {"cause", ""},
              {"completed", 0},
              {"completed_bytes", 0},
              {"failovers", 0},
              {"rails", Json::array()},
              {"operations", Json::array()},
              {"connections", Json::array()}};
    add_rails(devices, json["rails"]);
    return json;
  }

  [[nodiscard]] Json connection(const WatchedConnection& connection, bool of_rail) const {
    Json json{{"device", connection.device},
              {"peer", connection.peer},
              {"sends", connection.sends},
              {"collnet", of_rail},
              {"failed", connection.failed},
              {"pending", connection.pending},
              {"pending_bytes", connection.pending_bytes},
              {"completed", connection.completed},
              {"completed_bytes", connection.completed_bytes},
              {"failovers", connection.rail_use.failovers}};
    if (connection.pending > 0) {
      json["waits_for"] = wait(connection);
    }
    return json;
  }

  [[nodiscard]] Json wait(const WatchedConnection& connection) const {
    Json json{{"what", connection.sends ? "send" : "recv"},
              {"since_ns", unix_time(connection.since_ns)},
              {"peer", connection.peer},
              {"device", connection.device}};
    if (const auto rank = rank_in(connection.peer)) {
      json["rank"] = *rank;
    }
    return json;
  }

  // A rail waits where its connections have done so for longest.
  [[nodiscard]] Json call(const WatchedCall& call,
                          const WatchedRing& ring,
                          const std::vector<WatchedConnection>& connections) const {
    Json json{{"channel", 0},
              {"number", call.number},
              {"call", call.name},
              {"bytes", call.bytes},
              {"state", name_in(kOperationStateNames, OperationProgress::State::kRunning)},
              {"entered_ns", unix_time(call.entered_ns)},
              {"ended_ns", 0},
              {"pieces_done", 0},
              {"pieces", 0},
              {"member", ring.member},
              {"members", ring.members}};
    const WatchedConnection* longest = nullptr;
    for (const WatchedConnection& each : connections) {
      const bool waits = ring.context != 0 && each.context == ring.context && each.pending > 0;
      if (waits && (longest == nullptr || each.since_ns < longest->since_ns)) {
        longest = &each;
      }
    }
    if (longest != nullptr) {
      json["waits_for"] = wait(*longest);
    }
    return json;
  }

  void add_operations(const WatchedCommunicator& communicator,
                      const std::vector<OperationRecord>& records,
                      Json& into) const {
    const size_t before = into.size();
    const OperationRecord* last_ended = nullptr;
    for (const OperationRecord& record : records) {
      const bool ended = record.progress.ended_ns != 0;
      last_ended = ended ? &record : last_ended;
      const bool is_reported = depth_ != ReportDepth::kElsewhere || into.size() == before;
      if (depth_ == ReportDepth::kAll || (!ended && is_reported)) {
        into.push_back(operation(communicator, record));
      }
    }
    if (depth_ != ReportDepth::kAll && last_ended != nullptr) {
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

  // 0 stays: never. What happens while the report is made happens at its time, not after it.
  [[nodiscard]] int64_t unix_time(int64_t steady_ns) const {
    return steady_ns == 0 ? 0 : std::min(steady_ns, steady_ns_) + offset_ns_;
  }

  const ReportDepth depth_;
  const int64_t steady_ns_;
  const int64_t offset_ns_;
  // Counts of whole interfaces, whoever sends there.
  const std::map<std::string, InterfaceBytes> interfaces_ = interface_bytes();
};

}  // namespace

std::string report_json(const WatchedJob& job,
                        ReportDepth depth,
                        int64_t steady_ns,
                        int64_t unix_ns,
                        size_t most_bytes) {
  const Reporter reporter(depth, steady_ns, unix_ns);
  const bool elsewhere = depth == ReportDepth::kElsewhere;
  Json json{{"format", 1},
            {"job", job_name(job.job)},
            {"rank", job.rank},
            {"world_size", job.world_size},
            {"pid", ::getpid()},
            {"host", job.host},
            {"program", elsewhere ? std::string() : job.program},
            {"time_ns", unix_ns},
            {"hosts", elsewhere ? std::vector<std::string>() : job.hosts},
            {"left_out", 0},
            {"ended", job.ended},
            {"communicators", Json::array()}};
  const int indent = depth == ReportDepth::kAll ? 1 : -1;
  constexpr size_t kMoreDigits = 16;  // of "left_out"
  size_t bytes = json_text(json, indent).size() + kMoreDigits;
  for (const WatchedCommunicator& communicator : job.communicators) {
    Json one = reporter.communicator(communicator);
    bytes += most_bytes == SIZE_MAX ? 0 : json_text(one, indent).size() + 1;
    if (bytes <= most_bytes) {
      json["communicators"].push_back(std::move(one));
    } else {
      json["left_out"] = json["left_out"].get<size_t>() + 1;
    }
  }
  if (job.network) {
    json["communicators"] = reporter.nccl_communicators(job);
  }
  return json_text(json, indent) + "\n";
}

std::string record_answer_json(const Result<std::string>& file) {
  const Json json = file.ok() ? Json{{"file", *file}} : Json{{"error", file.status().message()}};
  return json_text(json, -1) + "\n";
}

}  // namespace ho
