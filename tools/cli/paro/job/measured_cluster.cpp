#include "cli/paro/job/measured_cluster.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/quantity.hpp"
#include "cli/subcommands/statistics.hpp"

namespace paro::tool {
namespace {

// Links are as good as equal above this share of the fastest.
constexpr double kEqualShare = 0.7;
void note_rates(std::string_view where,
                const RateSpan& rates,
                std::string_view which,
                std::vector<std::string>& notes) {
  if (rates.slowest <= 0) {
    return;
  }
  std::string note = fmt::format("measured {}: {}/s to {}/s, of which {} counts",
                                 where,
                                 ho::bytes_text(rates.slowest),
                                 ho::bytes_text(rates.fastest),
                                 which);
  if (rates.slowest < kEqualShare * rates.fastest) {
    note += "; they are unequal, horing doctor shows which";
  }
  notes.push_back(std::move(note));
}

std::string sizes_text(const std::vector<uint32_t>& sizes) {
  std::string text;
  for (const uint32_t size : sizes) {
    text += (text.empty() ? "" : "+") + std::to_string(size);
  }
  return text;
}

}  // namespace

RateSpan span_of(std::vector<double> rates) {
  if (rates.empty()) {
    return {};
  }
  std::sort(rates.begin(), rates.end());
  return {rates.front(), ho::percentile(rates, 0.5), rates.back()};
}

double slowdown_of(const OverlapSeconds& seconds) {
  const double hides = std::min(seconds.computation, seconds.collectives);
  const double back = seconds.both - std::max(seconds.computation, seconds.collectives);
  return hides > 0 ? std::clamp(back / hides, 0.0, 1.0) : 0;
}

ho::Result<ClusterFacts> facts_of(const MeasuredJob& job, std::vector<std::string>& notes) {
  const auto& sizes = job.group_sizes;
  for (const uint32_t size : sizes) {
    if (size != sizes.front()) {
      return ho::Status(ho::StatusCode::kUnsupported,
                        fmt::format("this job's groups have {} ranks, and the planner's formulas "
                                    "take groups of one size; start it with as many ranks on "
                                    "every node, or describe such a cluster with --nodes and "
                                    "--ranks-per-node",
                                    sizes_text(sizes)));
    }
  }
  ClusterFacts facts;
  facts.nodes = static_cast<uint32_t>(sizes.size());
  facts.ranks_per_node = sizes.front();
  if ((*facts.ranks_per_node > 1 && job.intra.slowest <= 0) ||
      (*facts.nodes > 1 && job.inter.slowest <= 0)) {
    return ho::Status(ho::StatusCode::kConnection,
                      "a link of this job carried nothing while it was measured; horing doctor "
                      "shows which");
  }
  if (*facts.ranks_per_node > 1) {
    facts.intra_bytes_per_s = job.intra.median;
  }
  if (*facts.nodes > 1) {
    facts.inter_bytes_per_s = job.inter.slowest;
    facts.nics = job.rails;
  }
  facts.intra_call_s = job.intra_call_s;
  facts.inter_call_s = job.inter_call_s;
  facts.world_call_s = job.world_call_s;
  if (job.world_call_s > 0) {
    notes.push_back(
        fmt::format("measured calls of next to no bytes: {} inside nodes, {} between, "
                    "{} over all ranks",
                    ho::seconds_text(job.intra_call_s),
                    ho::seconds_text(job.inter_call_s),
                    ho::seconds_text(job.world_call_s)));
  }
  facts.slowdown = job.slowdown;
  if (job.slowdown) {
    notes.push_back(
        fmt::format("measured a computation beside collectives: of what it hides {:.2f} comes back",
                    *job.slowdown));
  }
  if (*facts.nodes == 1 && *facts.ranks_per_node == 1) {
    notes.emplace_back(
        "this is a job of one rank, with no links to measure; start it on every rank of a job, as "
        "horing run -n 4x4 -- paro plan --measure");
  }
  note_rates("inside nodes",
             job.intra,
             fmt::format("the median, {}/s,", ho::bytes_text(job.intra.median)),
             notes);
  note_rates(fmt::format("between nodes, on each rail (of {})", job.rails),
             job.inter,
             "the slowest",
             notes);
  return facts;
}

}  // namespace paro::tool
