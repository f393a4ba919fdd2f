#include "observe/step_record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace paro::observe {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) {
  // As Prometheus writes what is not finite.
  if (value != value) {
    return "NaN";
  }
  const bool finite = value - value == 0;
  return finite ? Json(value).dump() : (value > 0 ? "+Inf" : "-Inf");
}

std::string number(uint64_t value) {
  return std::to_string(value);
}

// Samples of one metric after its help and type.
class Metrics {
 public:
  explicit Metrics(const StepRecord& record)
      : labels_("rank=\"" + std::to_string(record.rank) + "\"") {}

  void metric(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  template <typename Number>
  void sample(Number value, const std::string& label = {}) {
    text_ +=
        name_ + "{" + labels_ + (label.empty() ? "" : "," + label) + "} " + number(value) + "\n";
  }
  template <typename Number>
  void one(const char* name, const char* type, const char* help, Number value) {
    metric(name, type, help);
    sample(value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string labels_;
  std::string name_;
  std::string text_;
};

// What is left of steps: the framework's work outside of its passes.
template <typename Times>
double other_s(const Times& times) {
  return std::max(
      0.0, times.step_s - times.compute_s - times.exposed_s - times.update_s - times.hooks_s);
}

}  // namespace

double overlap_ratio(const StepRecord& record) {
  return record.collectives_s > 0
             ? std::clamp(1 - record.exposed_s / record.collectives_s, 0.0, 1.0)
             : 1;
}

void StepTotals::add(const StepRecord& record) {
  ++steps;
  micro_batches += record.micro_batches;
  skipped += record.applied ? 0 : 1;
  drift_checks += record.drift_checked ? 1 : 0;
  compute_s += record.compute_s;
  exposed_s += record.exposed_s;
  update_s += record.update_s;
  hooks_s += record.hooks_s;
  step_s += record.step_s;
  intra_bytes += record.intra_bytes;
  inter_bytes += record.inter_bytes;
}

std::string json_line(const StepRecord& record) {
  const Json json{{"time", record.unix_time},
                  {"rank", record.rank},
                  {"strategy", record.strategy},
                  {"step", record.step},
                  {"micro_batches", record.micro_batches},
                  {"outcome_step", record.outcome_step},
                  {"applied", record.applied},
                  {"norm", record.norm},
                  {"loss_scale", record.loss_scale},
                  {"learning_rate", record.learning_rate},
                  {"seconds",
                   {{"step", record.step_s},
                    {"compute", record.compute_s},
                    {"exposed", record.exposed_s},
                    {"update", record.update_s},
                    {"hooks", record.hooks_s},
                    {"other", other_s(record)},
                    {"collectives", record.collectives_s}}},
                  {"overlap_ratio", overlap_ratio(record)},
                  {"sent_bytes", {{"intra", record.intra_bytes}, {"inter", record.inter_bytes}}},
                  {"memory_bytes",
                   {{"states", record.states_bytes},
                    {"peak", record.peak_bytes},
                    {"predicted", record.predicted_bytes},
                    {"library", record.library_bytes}}},
                  {"drift_checked", record.drift_checked}};
  return json.dump() + "\n";
}

std::string prometheus_text(const StepRecord& last, const StepTotals& totals) {
  Metrics metrics(last);
  // On its own: with the strategy among their labels counters would begin anew where it changes.
  metrics.metric("paro_strategy_info", "gauge", "1 for the strategy of the last step.");
  metrics.sample(uint64_t{1}, "strategy=\"" + last.strategy + "\"");
  metrics.one("paro_steps_total", "counter", "Training steps.", totals.steps);
  metrics.one("paro_micro_batches_total",
              "counter",
              "Micro-batches of all training steps.",
              totals.micro_batches);
  metrics.one("paro_skipped_steps_total",
              "counter",
              "Steps skipped because a gradient was not finite; with states on a device the last "
              "one is not counted yet.",
              totals.skipped);
  metrics.one("paro_drift_checks_total",
              "counter",
              "Comparisons of all copies of all states that found no difference.",
              totals.drift_checks);
  metrics.metric("paro_step_seconds_total", "counter", "Time of all steps, by part.");
  metrics.sample(totals.compute_s, "part=\"compute\"");
  metrics.sample(totals.exposed_s, "part=\"exposed\"");
  metrics.sample(totals.update_s, "part=\"update\"");
  metrics.sample(totals.hooks_s, "part=\"hooks\"");
  metrics.sample(other_s(totals), "part=\"other\"");
  metrics.metric("paro_sent_bytes_total", "counter", "Payload that this rank has sent.");
  metrics.sample(totals.intra_bytes, "link=\"intra\"");
  metrics.sample(totals.inter_bytes, "link=\"inter\"");
  metrics.one("paro_step_duration_seconds", "gauge", "Time of the last step.", last.step_s);
  metrics.one(
      "paro_overlap_ratio",
      "gauge",
      "Share of the time of the last step's collectives during which no computation waited.",
      overlap_ratio(last));
  metrics.metric("paro_memory_bytes", "gauge", "Bytes that this rank holds for the training.");
  metrics.sample(last.states_bytes, "of=\"states\"");
  metrics.sample(last.peak_bytes, "of=\"states_peak\"");
  metrics.sample(last.predicted_bytes, "of=\"states_predicted\"");
  metrics.sample(last.library_bytes, "of=\"library\"");
  metrics.one("paro_loss_scale", "gauge", "Loss scale of the last step.", last.loss_scale);
  metrics.one("paro_gradient_norm",
              "gauge",
              "Gradient norm before clipping: of the last step, with states on a device of the one "
              "before.",
              last.norm);
  metrics.one("paro_last_step_timestamp_seconds",
              "gauge",
              "End of the last step: an old value means that the job hangs.",
              last.unix_time);
  return metrics.text();
}

}  // namespace paro::observe
