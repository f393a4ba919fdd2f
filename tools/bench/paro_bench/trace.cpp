#include "bench/paro_bench/trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

namespace paro::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kGapNs = 20'000'000;  // between systems
constexpr uint32_t kNoRank = UINT32_MAX;

int64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

std::string event_line(const nlohmann::json& event, bool first) {
  return (first ? "" : ",\n") + event.dump();
}

double microseconds(int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

}  // namespace

void TraceFile::name(uint32_t rank) {
  if (!named_.insert(rank).second) {
    return;
  }
  const auto add = [&](const char* what, const nlohmann::json& track, std::string_view name) {
    const nlohmann::json event{
        {"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
    events_ += event_line(event, events_.empty());
  };
  add("process_name", 0, "rank " + std::to_string(rank));
  for (size_t track = 0; track < kTrackCount; ++track) {
    add("thread_name", track, to_string(static_cast<Track>(track)));
  }
}

void TraceFile::add(const std::string& system,
                    const StepTrace& step,
                    std::vector<TraceEvent> events) {
  if (events.empty()) {
    return;
  }
  int64_t first = events.front().begin_ns;
  int64_t last = events.front().end_ns;
  for (const TraceEvent& event : events) {
    first = std::min(first, event.begin_ns);
    last = std::max(last, event.end_ns);
  }
  for (const TraceEvent& event : events) {
    const auto track = static_cast<size_t>(step.tracks[event.action]);
    const nlohmann::json json{{"name", step.names[event.action]},
                              {"cat", system},
                              {"ph", "X"},
                              {"pid", event.rank},
                              {"tid", track},
                              {"ts", microseconds(event.begin_ns - first + next_ns_)},
                              {"dur", microseconds(event.end_ns - event.begin_ns)},
                              {"args", {{"system", system}}}};
    events_ += event_line(json, events_.empty());
    name(event.rank);
  }
  next_ns_ += last - first + kGapNs;
}

std::string TraceFile::text() const {
  return "[\n" + events_ + "\n]\n";
}

std::vector<TraceEvent> events_of_all(horing::Communicator& job, const StepTrace& step) {
  job.barrier();
  const Clock::time_point zero = Clock::now();
  uint64_t most = step.spans.size();
  job.all_reduce(std::span<uint64_t>(&most, 1), HO_MAX);
  // A rank that has fewer sends events that are none.
  std::vector<TraceEvent> mine(most, {.rank = kNoRank});
  for (size_t i = 0; i < step.spans.size(); ++i) {
    const ActionSpan& span = step.spans[i];
    mine[i] = {static_cast<uint32_t>(job.rank()),
               span.step_action.action.value(),
               ns_between(zero, span.begin),
               ns_between(zero, span.end)};
  }
  std::vector<TraceEvent> all(most * static_cast<size_t>(job.world_size()));
  if (most > 0) {
    job.all_gather(mine.data(), all.data(), most * sizeof(TraceEvent), HO_UINT8);
  }
  std::erase_if(all, [](const TraceEvent& event) { return event.rank == kNoRank; });
  return all;
}

}  // namespace paro::bench
