#include "cli/status/metrics.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/status/rails_view.hpp"

namespace ho {
namespace {

using Json = nlohmann::json;
using Label = std::pair<const char*, std::string>;
using Labels = std::vector<Label>;

Labels with(Labels labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

std::string label_text(const Label& label) {
  std::string value;
  for (const char letter : label.second) {
    value += letter == '\n' ? "\\n"
                            : std::string(letter == '"' || letter == '\\' ? 1 : 0, '\\') + letter;
  }
  return fmt::format("{}=\"{}\"", label.first, value);
}

// One metric with all of its samples, which the format wants together.
class Metric {
 public:
  Metric(const char* name, const char* type, const char* help)
      : name_(name), head_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)) {}

  template <typename Value>
  void add(const Labels& labels, Value value) {
    std::string text;
    for (const Label& label : labels) {
      text += (text.empty() ? "" : ",") + label_text(label);
    }
    samples_ += fmt::format("{}{{{}}} {}\n", name_, text, value);
  }
  // Without labels.
  template <typename Value>
  void add(Value value) {
    samples_ += fmt::format("{} {}\n", name_, value);
  }
  [[nodiscard]] std::string text() const { return samples_.empty() ? "" : head_ + samples_; }

 private:
  const char* name_;
  std::string head_;
  std::string samples_;
};

struct Metrics {
  Metric jobs{"horing_jobs", "gauge", "Jobs of this user that have ranks on this host."};
  Metric up{"horing_rank_up", "gauge", "1: the rank answers, 0: it does not or is missing."};
  Metric state{
      "horing_rank_state", "gauge", "1: what the rank is doing, as horing status calls it."};
  Metric waiting{
      "horing_rank_waiting_seconds",
      "gauge",
      "For how long the rank's first operation has waited for another rank; 0: it does not."};
  Metric waited_for{
      "horing_rank_waited_for", "gauge", "1: other ranks wait for this one in the end."};
  Metric calls{"horing_operations_completed_total", "counter", "Operations that have completed."};
  Metric bytes{
      "horing_operation_bytes_total", "counter", "Bytes of operations that have completed."};
  Metric failovers{
      "horing_failovers_total", "counter", "How often links went on over another rail."};
  Metric rail_failovers{
      "horing_rail_failovers_total",
      "counter",
      "How often links whose own rail it is have left it, come back to it, or lost "
      "another one meanwhile."};
  Metric own_share{"horing_rail_own_share",
                   "gauge",
                   "Part of the messages of the rail's own links that goes over it."};
  Metric lost_links{"horing_rail_lost_links",
                    "gauge",
                    "The rail's own links that are waited for and reach their peer over no rail."};
  Metric late{"horing_rank_late_seconds",
              "gauge",
              "How much later than the middle rank it enters calls, median of the last ones."};
  Metric failed{
      "horing_communicator_failed", "gauge", "1: the communicator has ended with an error."};
  Metric pending{"horing_pending_requests",
                 "gauge",
                 "Requests of NCCL on a connection of the plugin that are not done."};
  Metric speed{
      "horing_rail_speed_bytes_per_second", "gauge", "What the rail's interface can carry."};
  Metric sent{
      "horing_rail_sent_bytes_total", "counter", "Sent over the rail's interface, by anybody."};
  Metric received{"horing_rail_received_bytes_total",
                  "counter",
                  "Received over the rail's interface, by anybody."};

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const Metric* each : {&jobs,
                               &up,
                               &state,
                               &waiting,
                               &waited_for,
                               &calls,
                               &bytes,
                               &late,
                               &failovers,
                               &failed,
                               &pending,
                               &speed,
                               &sent,
                               &received,
                               &rail_failovers,
                               &own_share,
                               &lost_links}) {
      all += each->text();
    }
    return all;
  }
};

std::string communicator_text(const Json& communicator) {
  const std::string name = communicator.at("name").get<std::string>();
  const auto id = communicator.at("id").get<uint32_t>();
  return !name.empty() ? name : id == 0 ? "world" : std::to_string(id);
}

// Which ranks are this host's to tell, and how they are told apart.
class ReportedHere {
 public:
  explicit ReportedHere(const JobView& job) : job_(job.job) {
    for (const RankView& rank : job.ranks) {
      all_ = all_ || (rank.listens_here && rank.rank == 0);
      if (rank.listens_here) {
        hosts_here_.insert(rank.host);
      }
      ++processes_[rank.rank];
    }
  }

  // Of the whole job: the host of rank 0 does, which has asked all ranks, and no other one.
  [[nodiscard]] bool all() const { return all_; }
  // Of who is missing on a host that is not known, nobody knows whether it is.
  [[nodiscard]] bool has(const RankView& rank) const {
    if (rank.listens_here || rank.elsewhere) {
      return rank.listens_here || all_;
    }
    return !rank.host.empty() && (all_ || hosts_here_.contains(rank.host));
  }
  // Under NCCL without a launcher every process is rank 0.
  [[nodiscard]] Labels labels(const RankView& rank) const {
    Labels labels{{"job", job_}, {"rank", std::to_string(rank.rank)}, {"host", rank.host}};
    if (processes_.at(rank.rank) > 1) {
      labels.emplace_back("pid", std::to_string(rank.pid));
    }
    return labels;
  }

 private:
  std::string job_;
  bool all_ = false;
  std::set<std::string> hosts_here_;
  std::map<uint32_t, size_t> processes_;
};

void add_communicator(Metrics& metrics, const Labels& of_rank, const Json& json) {
  const Label communicator{"communicator", communicator_text(json)};
  const Label key{"key", json.value("key", "")};  // two may have one name
  const Labels labels = with(of_rank, {communicator, key});
  metrics.calls.add(labels, json.at("completed").get<uint64_t>());
  metrics.bytes.add(labels, json.at("completed_bytes").get<uint64_t>());
  metrics.failovers.add(labels, json.at("failovers").get<uint64_t>());
  metrics.failed.add(labels, json.at("cause").get<std::string>().empty() ? 0 : 1);
  std::map<std::pair<std::string, bool>, uint64_t> pending;
  for (const Json& each : json.value("connections", Json::array())) {
    pending[{each.at("device").get<std::string>(), each.at("sends").get<bool>()}] +=
        each.at("pending").get<uint64_t>();
  }
  for (const auto& [device, count] : pending) {
    const Label rail{"rail", device.first};
    const Label what{"direction", device.second ? "send" : "recv"};
    metrics.pending.add(with(of_rank, {communicator, rail, what}), count);
  }
}

void add_rank(Metrics& metrics,
              const JobView& job,
              const ReportedHere& reported,
              const RankView& rank) {
  const Labels labels = reported.labels(rank);
  const bool answers = rank.report.is_object();
  metrics.up.add(labels, answers ? 1 : 0);
  metrics.state.add(with(labels, {{"state", rank.state}}), 1);
  if (reported.all()) {
    metrics.waited_for.add(labels, std::ranges::count(job.waited_for, rank.rank) > 0 ? 1 : 0);
  }
  if (answers) {
    metrics.waiting.add(labels, rank.wait ? rank.wait->since_s : 0.0);
    // Counts of ranks elsewhere are their host's to tell: nothing is to be summed twice.
    for (const Json& communicator :
         rank.elsewhere ? Json::array() : rank.report.at("communicators")) {
      add_communicator(metrics, labels, communicator);
    }
  }
}

void add_late(Metrics& metrics,
              const JobView& job,
              const ReportedHere& reported,
              const Lateness& late) {
  for (const RankView& rank : job.ranks) {
    if (const auto found = late.late_s.find(rank.rank); found != late.late_s.end()) {
      metrics.late.add(with(reported.labels(rank), {{"communicator", late.key}}), found->second);
    }
  }
}

void add_rail(Metrics& metrics, const JobView& job, const RailView& rail) {
  const Label name{"rail", rail.interface.empty() ? rail.address : rail.interface};
  const Labels labels{{"job", job.job}, {"host", rail.host}, name, {"address", rail.address}};
  if (rail.mbit > 0) {
    metrics.speed.add(labels, rail.mbit * 125'000);
  }
  metrics.rail_failovers.add(labels, rail.failovers);
  if (rail.links + rail.lost > 0) {
    metrics.own_share.add(labels, rail.own_share());
    metrics.lost_links.add(labels, rail.lost);
  }
  if (rail.sent_bytes && rail.received_bytes) {
    metrics.sent.add(labels, *rail.sent_bytes);
    metrics.received.add(labels, *rail.received_bytes);
  }
}

}  // namespace

std::string metrics_text(const std::vector<JobView>& jobs) {
  Metrics metrics;
  metrics.jobs.add(jobs.size());
  for (const JobView& job : jobs) {
    const ReportedHere reported(job);
    for (const RankView& rank : job.ranks) {
      if (reported.has(rank)) {
        add_rank(metrics, job, reported, rank);
      }
    }
    for (const RailView& rail : rails_of(job)) {
      if (!rail.elsewhere) {
        add_rail(metrics, job, rail);
      }
    }
    for (const Lateness& late : reported.all() ? job.late : std::vector<Lateness>()) {
      add_late(metrics, job, reported, late);
    }
  }
  return metrics.text();
}

}  // namespace ho
