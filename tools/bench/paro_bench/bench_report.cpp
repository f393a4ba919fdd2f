#include "bench/paro_bench/bench_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <nlohmann/json.hpp>

#include "bench/paro_bench/memory_table.hpp"
#include "cli/subcommands/table.hpp"

namespace paro::bench {
namespace {

using tool::StepTimes;

// Steps that differ by less are as fast as one another: so much they differ from run to run.
constexpr double kTie = 0.03;

std::vector<Outcome> of_factor(std::span<const Outcome> outcomes, double factor) {
  std::vector<Outcome> some;
  for (const Outcome& outcome : outcomes) {
    if (outcome.compute_factor == factor) {
      some.push_back(outcome);
    }
  }
  return some;
}

std::string as_planned(const Outcome& outcome) {
  const Sample& sample = outcome.last();
  if (!sample.planned) {
    return "-";
  }
  return *sample.planned == sample.sent ? "yes" : "NO";
}

using Field = ho::Field<Outcome>;

constexpr std::array kFields{
    Field{"system", true, [](const Outcome& o) { return o.system.name; }},
    Field{"step ms", false, [](const Outcome& o) { return ho::milliseconds(o.times().step); }},
    Field{"least", false, [](const Outcome& o) { return ho::milliseconds(o.least_step_s()); }},
    Field{"most", false, [](const Outcome& o) { return ho::milliseconds(o.most_step_s()); }},
    Field{"samples/s", false, [](const Outcome& o) { return ho::fixed(o.samples_per_s(), 1); }},
    Field{"compute", false, [](const Outcome& o) { return ho::milliseconds(o.times().compute); }},
    Field{"exposed", false, [](const Outcome& o) { return ho::milliseconds(o.times().exposed); }},
    Field{"idle", false, [](const Outcome& o) { return ho::milliseconds(o.times().idle); }},
    Field{"update", false, [](const Outcome& o) { return ho::milliseconds(o.times().update); }},
    Field{"hooks", false, [](const Outcome& o) { return ho::milliseconds(o.times().hooks); }},
    Field{"cores busy %",
          false,
          [](const Outcome& o) {
            const auto busy = o.processors_busy();
            return busy ? ho::fixed(*busy * 100, 0) : "-";
          }},
    Field{"by plan",
          false,
          [](const Outcome& o) {
            return o.predicted_step_s() > 0 ? ho::milliseconds(o.predicted_step_s()) : "-";
          }},
    Field{"/plan",
          false,
          [](const Outcome& o) {
            return o.predicted_step_s() > 0 ? ho::fixed(o.times().step / o.predicted_step_s(), 2)
                                            : "-";
          }},
    Field{"MB inside",
          false,
          [](const Outcome& o) { return ho::megabytes(o.last().sent.intra_bytes); }},
    Field{"MB between",
          false,
          [](const Outcome& o) { return ho::megabytes(o.last().sent.inter_bytes); }},
    Field{"as planned", true, [](const Outcome& o) { return as_planned(o); }},
    Field{"memory MB",
          false,
          [](const Outcome& o) { return ho::megabytes(o.last().memory.actual.total()); }},
    Field{"predicted",
          false,
          [](const Outcome& o) { return ho::megabytes(o.last().memory.predicted.total()); }},
};

std::string order_text(const std::vector<Outcome>& some) {
  std::vector<double> measured;
  std::vector<double> predicted;
  for (const Outcome& outcome : some) {
    const bool ours = !outcome.system.is_baseline;
    if (ours && outcome.predicted_step_s() > 0) {
      measured.push_back(outcome.times().step);
      predicted.push_back(outcome.predicted_step_s());
    }
  }
  const auto tau = kendall_tau_b(measured, predicted, kTie);
  if (!tau) {
    return "";
  }
  return fmt::format(
      "Order of libparo's {} by plan against measured: Kendall's tau-b {:.2f} (within 3 % is a "
      "tie).\n",
      measured.size(),
      *tau);
}

std::string comparisons_text(std::span<const Outcome> outcomes, double factor) {
  std::string text;
  for (const Comparison& comparison : comparisons(outcomes, factor)) {
    text += fmt::format("In {}'s memory the plan takes {}: {:.2f} times as fast.\n",
                        comparison.baseline->system.name,
                        comparison.recommended->system.name,
                        comparison.ratio());
  }
  return text;
}

nlohmann::json json_of(const Outcome& outcome) {
  const StepTimes times = outcome.times();
  const Sample& last = outcome.last();
  nlohmann::json steps = nlohmann::json::array();
  for (const Sample& sample : outcome.samples) {
    steps.push_back(sample.times.step);
  }
  nlohmann::json json{
      {"system", outcome.system.name},
      {"strategy", letters(outcome.system.strategy)},
      {"baseline", outcome.system.is_baseline},
      {"world_algorithm", to_string(outcome.system.world)},
      {"compute_factor", outcome.compute_factor},
      {"step_s", times.step},
      {"steps_s", steps},
      {"samples_per_s", outcome.samples_per_s()},
      {"compute_s", times.compute},
      {"exposed_s", times.exposed},
      {"idle_s", times.idle},
      {"update_s", times.update},
      {"hooks_s", times.hooks},
      {"predicted_step_s", outcome.predicted_step_s()},
      {"predicted_communication_s", outcome.planned ? outcome.planned->time.communication_s : 0},
      {"intra_bytes", last.sent.intra_bytes},
      {"inter_bytes", last.sent.inter_bytes},
      {"memory_bytes", last.memory.actual.total()},
      {"predicted_memory_bytes", last.memory.predicted.total()},
      {"memory_by_state", memory_json(last.memory.actual)},
      {"predicted_memory_by_state", memory_json(last.memory.predicted)}};
  if (const auto busy = outcome.processors_busy()) {
    json["processors_busy"] = *busy;
  }
  if (last.planned) {
    json["planned_intra_bytes"] = last.planned->intra_bytes;
    json["planned_inter_bytes"] = last.planned->inter_bytes;
  }
  return json;
}

nlohmann::json json_of(const BenchOptions& options, const PlannerRequest& links, uint32_t ranks) {
  const WorkloadSpec& spec = options.workload;
  const auto load = workload_of(spec, 1);
  return {{"model", spec.model.text},
          {"parameters", spec.model.size.parameters},
          {"trained", spec.model.size.trainable},
          {"scale", spec.scale},
          {"units", load->units.size()},
          {"scaled_trained", load->trained},
          {"scaled_frozen", load->frozen},
          {"micro_batch", spec.micro_batch},
          {"sequence", spec.sequence},
          {"accumulation", spec.accumulation},
          {"flops", spec.flops},
          {"utilisation", spec.utilisation},
          {"real_bytes_per_s", spec.real_bytes_per_s},
          {"rail_bytes_per_s", spec.emulated_bytes_per_s},
          {"time_scale", load->time_scale},
          {"compute_s", load->compute_s()},
          {"dtype", std::string(ho::to_string(options.dtype))},
          {"ranks", ranks},
          {"groups", links.world.group_count},
          {"intra_bytes_per_s", links.links.intra_bytes_per_s},
          {"inter_bytes_per_s", links.links.inter_bytes_per_s},
          {"nics", links.links.nics_per_group},
          {"rounds", options.rounds},
          {"steps", options.steps}};
}

// What the plans reckon with.
std::string links_text(const PlannerRequest& links) {
  if (links.links.intra_bytes_per_s == 0 && links.links.inter_bytes_per_s == 0) {
    return "links    not known\n";
  }
  return fmt::format(
      "links    measured inside {:.0f} MB/s a rank, between {:.1f} MB/s a NIC, {:.0f} NICs a "
      "node\n",
      links.links.intra_bytes_per_s / 1e6,
      links.links.inter_bytes_per_s / 1e6,
      links.links.nics_per_group);
}

}  // namespace

std::string preface(const BenchOptions& options, const PlannerRequest& links) {
  const WorkloadSpec& spec = options.workload;
  const auto load = workload_of(spec, 1);
  return fmt::format(
             "model    {}: {:.4g} parameters, {:.4g} trained; here {:.4g} of them in {} units, {}\n"
             "step     {} micro-batches of {} samples of {} tokens; {:.4g} operations/s at {:.0f} "
             "%\n"
             "scale    parameters {:.3g}, links {:.3g} MB/s for {:.4g} MB/s, so times {:.3g}: "
             "computation {:.1f} ms a step\n",
             spec.model.text,
             spec.model.size.parameters,
             spec.model.size.trainable,
             load->trained + load->frozen,
             load->units.size(),
             ho::to_string(options.dtype),
             spec.accumulation,
             spec.micro_batch,
             spec.sequence,
             spec.flops,
             spec.utilisation * 100,
             spec.scale,
             spec.emulated_bytes_per_s / 1e6,
             spec.real_bytes_per_s / 1e6,
             load->time_scale,
             load->compute_s() * 1e3) +
         links_text(links);
}

std::string outcomes_text(const BenchOptions& options,
                          std::span<const Outcome> outcomes,
                          double compute_factor) {
  const auto some = of_factor(outcomes, compute_factor);
  return fmt::format("Computation times {}; medians of {} rounds of {} steps.\n",
                     compute_factor,
                     options.rounds,
                     options.steps) +
         ho::aligned(ho::columns_of(kFields, some)) +
         "Times per step in ms, bytes per step over all ranks, memory of the fullest rank, and how "
         "busy the\n"
         "processors of rank 0's machine were meanwhile.\n\n" +
         memory_text(some) + "\n" + comparisons_text(outcomes, compute_factor) + order_text(some);
}

std::string outcomes_json(const BenchOptions& options,
                          const PlannerRequest& links,
                          uint32_t ranks,
                          std::span<const Outcome> outcomes) {
  nlohmann::json results = nlohmann::json::array();
  for (const Outcome& outcome : outcomes) {
    results.push_back(json_of(outcome));
  }
  nlohmann::json comparing = nlohmann::json::array();
  for (const double factor : options.compute_factors) {
    for (const Comparison& comparison : comparisons(outcomes, factor)) {
      comparing.push_back({{"compute_factor", factor},
                           {"baseline", comparison.baseline->system.name},
                           {"recommended", comparison.recommended->system.name},
                           {"ratio", comparison.ratio()}});
    }
  }
  const nlohmann::json all{
      {"config", json_of(options, links, ranks)}, {"results", results}, {"comparisons", comparing}};
  return all.dump(1) + "\n";
}

std::vector<std::string> wrong(std::span<const Outcome> outcomes) {
  std::vector<std::string> lines;
  for (const Outcome& outcome : outcomes) {
    if (as_planned(outcome) == "NO") {
      lines.push_back(outcome.system.name + ": the bytes that were sent are not the step plan's");
    }
  }
  return lines;
}

}  // namespace paro::bench
