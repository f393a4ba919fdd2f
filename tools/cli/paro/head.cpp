#include "cli/paro/head.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "planner/text/group_text.hpp"

namespace paro::tool {
namespace {

std::string rate_text(double bytes_per_s) {
  return fmt::format("{:.4g} Gbit/s", bytes_per_s * 8 / 1e9);
}

// "; 131 million in a unit that 1 more shares"; nothing where none does.
std::string sharing_text(const PlannerRequest& request) {
  return request.sharing_units == 0
             ? ""
             : fmt::format("; {} in a unit that {} more share{}",
                           ho::count_text(request.model.shared / request.sharing_units),
                           request.sharing_units,
                           request.sharing_units == 1 ? "s" : "");
}

std::string batch_text(const PlanOptions& options) {
  const PlannerRequest& request = options.request;
  return request.sequences > 0
             ? ho::counted(request.sequences, "sequence") +
                   " a rank, in micro-batches as memory is for"
             : fmt::format(
                   "micro-batch {}, accumulation {}", options.micro_batch, request.micro_batches);
}

// What a rank has of the model, and what dimensions beside data parallelism send; nothing where
// there are none.
std::string parallelism_text(const PlanOptions& options) {
  if (!options.job || options.job->sizes.alone()) {
    return {};
  }
  const Parallelism& sizes = options.job->sizes;
  std::string text =
      fmt::format("beside   tp {}, cp {}, ep {}, pp {}: of {} parameters a rank has {}",
                  sizes.tensor,
                  sizes.context,
                  sizes.expert,
                  sizes.pipeline,
                  ho::count_text(options.model.size.parameters),
                  ho::count_text(options.request.model.parameters));
  const ho::cost::Cluster levels = levels_of(options.request.world, options.request.links);
  for (const DimensionTraffic& each : options.steps.traffic) {
    text += fmt::format("; {} sends {} a {} {} {}s",
                        each.dimension,
                        ho::bytes_text(each.bytes),
                        options.request.sequences > 0 ? "sequence" : "micro-batch",
                        each.level == 0 ? "inside" : "between",
                        levels.at(each.level - std::min<size_t>(each.level, 1)).name);
  }
  return text + fmt::format("; bubble {:.3g} %\n", options.steps.bubble * 100);
}

// Of the head, what follows the cluster.
std::string tail_text(const Report& report) {
  const PlanOptions& options = report.options;
  const PlannerRequest& request = options.request;
  std::string text =
      fmt::format("\nstep     {}; computation {}\n",
                  batch_text(options),
                  request.compute_s > 0 ? ho::seconds_text(request.compute_s - request.waiting_s)
                                        : "not given");
  text += fmt::format("rank     {}; activations {}\n",
                      request.memory_bytes > 0 ? ho::bytes_text(request.memory_bytes) + " of memory"
                                               : "memory not given, everything counts as fitting",
                      ho::bytes_text(request.activation_bytes));
  text += parallelism_text(options);
  for (const std::string& note : report.notes) {
    text += "note     " + note + "\n";
  }
  return text + "\n";
}

std::string model_text(const PlanOptions& options) {
  const PlannerRequest& request = options.request;
  return fmt::format(
      "model    {}: {} parameters, {} of them trained, {} layers{}{}; bytes {},{},{}{}\n",
      ho::escaped(options.model.text),
      ho::count_text(request.model.parameters),
      ho::count_text(request.model.trainable),
      request.layers,
      options.job && !options.job->sizes.alone() ? " of a rank" : "",
      sharing_text(request),
      request.bytes.parameter,
      request.bytes.gradient,
      request.bytes.optimizer,
      request.bytes.gradient_sum > 0
          ? fmt::format(", sums of gradients {}", request.bytes.gradient_sum)
          : "");
}

}  // namespace

std::string head_text(const Report& report) {
  const PlanOptions& options = report.options;
  const PlannerRequest& request = options.request;
  const WorldShape& world = request.world;
  std::string text = model_text(options);
  const char* const seen_by =
      options.job && !options.job->sizes.alone() ? "for data parallelism " : "";
  if (!request.links.levels.empty()) {
    text += fmt::format("cluster  {}{}", seen_by, levels_text(request)) + "\ngroups   " +
            groups_text(request);
    return text + tail_text(report);
  }
  text += fmt::format("cluster  {}{} of {}",
                      seen_by,
                      ho::counted(world.group_count, "node"),
                      ho::counted(world.group_size, "rank"));
  if (world.group_size > 1) {
    text += fmt::format("; inside {} per rank", rate_text(request.links.intra_bytes_per_s));
  }
  if (world.group_count > 1) {
    text += fmt::format("; between {} per NIC, NICs per node: {}; world collectives: {}",
                        rate_text(request.links.inter_bytes_per_s),
                        request.links.nics_per_group,
                        to_string(request.links.world));
  }
  return text + tail_text(report);
}

}  // namespace paro::tool
