#include "planner/reason.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "base/quantity.hpp"
#include "planner/near_miss.hpp"

namespace paro {
namespace {

// What of a step counts: below it nothing is a bottleneck.
constexpr double kCounts = 1e-3;

std::string memory_clause(const StrategyFigures& best, const PlannerRequest& request) {
  if (request.memory_bytes == 0) {
    return fmt::format("needs {} per rank, whose memory is not known",
                       ho::bytes_text(best.memory.total()));
  }
  return fmt::format("needs {} of {} per rank, {} to spare",
                     ho::bytes_text(best.memory.total()),
                     ho::bytes_text(request.memory_bytes),
                     ho::bytes_text(request.memory_bytes - best.memory.total()));
}

std::string bottleneck(const StrategyFigures& best) {
  const StepTime& time = best.time;
  if (time.communication_s == 0) {
    return "nothing is communicated";
  }
  const double counts_s = kCounts * time.step_s;
  if (time.exposed_s <= counts_s) {
    return "computation is the bottleneck";
  }
  const double gain_s = std::max(time.intra.gain_s, time.inter.gain_s);
  if (time.waiting_s > std::max(gain_s, counts_s)) {
    return fmt::format(
        "what other dimensions of parallelism send is the bottleneck and holds it up by {}",
        ho::seconds_text(time.waiting_s));
  }
  if (gain_s <= counts_s) {
    return "the links inside and between groups are the bottleneck, neither more than the other";
  }
  return fmt::format("the links {} groups are the bottleneck and hold it up by {}",
                     gain_s == time.inter.gain_s ? "between" : "inside",
                     ho::seconds_text(gain_s));
}

std::string effort_clause(Effort effort) {
  switch (effort) {
    case Effort::kNamesNone:
      return "has no name elsewhere";
    case Effort::kGroups:
      return "takes groups";
    case Effort::kSplit:
    case Effort::kWhole:
      break;
  }
  return "splits what fits whole";
}

// What puts `next` behind the best of those that are as fast: the first key of the order by which
// it is worse beyond a tie, or else at all.
std::string worse_clause(const StrategyFigures& best, const StrategyFigures& next) {
  const auto half_links_clause = [&] {
    return fmt::format("takes {}, not {}, on links half as good",
                       ho::seconds_text(next.time.half_links_s),
                       ho::seconds_text(best.time.half_links_s));
  };
  const auto memory = [&] { return "needs " + ho::bytes_text(next.memory.total()); };
  const double more_bytes = counted_memory(next) - counted_memory(best);
  if (!as_fast(best.time.half_links_s, next.time.half_links_s)) {
    return half_links_clause();
  }
  if (more_bytes > memory_tie(best)) {
    return memory();
  }
  if (effort(next.strategy) > effort(best.strategy)) {
    return effort_clause(effort(next.strategy));
  }
  return more_bytes > 0 ? memory() : std::string();
}

bool is_same(const StrategyFigures& a, const StrategyFigures& b) {
  return a.strategy == b.strategy && a.micro_batches == b.micro_batches;
}

// "NGG", and where others of its micro-batches are better "NGG with micro-batches of 2".
std::string fastest_text(const Recommendation& all, const PlannerRequest& request) {
  const StrategyFigures& fastest = all.fastest->figures;
  const std::string name = letters(fastest.strategy);
  return is_same(fastest, all.figures[all.fastest->row])
             ? name
             : fmt::format(
                   "{} with micro-batches of {}", name, request.sequences / fastest.micro_batches);
}

// Of one that fits and is not recommended: "The runner-up III"
std::string other_clause(const std::string& subject,
                         const Recommendation& all,
                         const StrategyFigures& other,
                         const PlannerRequest& request) {
  const StrategyFigures& best = *all.recommended();
  const StrategyFigures& fastest = all.fastest->figures;
  const std::string step = ho::seconds_text(other.time.step_s);
  if (!as_fast(fastest.time.step_s, other.time.step_s)) {
    return fmt::format("{} would take {}, {} of it exposed",
                       subject,
                       step,
                       ho::seconds_text(other.time.exposed_s));
  }
  const std::string worse = worse_clause(best, other);
  if (worse.empty()) {
    return fmt::format("{} is as fast ({}) and no better", subject, step);
  }
  const std::string of_size =
      all.of_one_size ? fmt::format(" in groups of {}", request.world.group_size) : "";
  return fmt::format("{} is {} ({}) but {}",
                     subject,
                     is_same(other, fastest) ? "the fastest" + of_size : "as fast",
                     step,
                     worse);
}

// Of the runner-up, and of the fastest where that is another one.
std::string others_sentence(const Recommendation& all, const PlannerRequest& request) {
  const StrategyFigures* const next = all.runner_up();
  const StrategyFigures& fastest = all.fastest->figures;
  std::string text =
      next == nullptr
          ? "Nothing else fits"
          : other_clause("The runner-up " + letters(next->strategy), all, *next, request);
  if (!is_same(fastest, *all.recommended()) && (next == nullptr || !is_same(fastest, *next))) {
    text += "; " + other_clause(fastest_text(all, request), all, fastest, request);
  }
  return text + ".";
}

// "sums in 16 bits (76.5 GB, 77 s a step), with 5 groups of 8 (79 GB) or with .."
std::string remedies_text(const std::vector<std::string>& remedies) {
  std::string text;
  for (size_t at = 0; at < remedies.size(); ++at) {
    const bool last = at + 1 == remedies.size();
    text += (at == 0 ? "" : last ? " or with " : ", with ") + remedies[at];
  }
  return text;
}

std::string near_miss_sentence(const Recommendation& all) {
  const NearMiss& miss = *all.near_miss;
  const StrategyFigures& figures = all.figures[miss.row];
  const auto& fastest = *std::min_element(all.figures.begin(),
                                          all.figures.end(),
                                          [](const StrategyFigures& a, const StrategyFigures& b) {
                                            return a.time.step_s < b.time.step_s;
                                          });
  const bool of_fastest = as_fast(fastest.time.step_s, figures.time.step_s);
  return fmt::format("{}{} would take {} but lacks {}; it fits with {}.",
                     of_fastest ? "Of those as fast as the fastest " : "",
                     letters(figures.strategy),
                     ho::seconds_text(figures.time.step_s),
                     ho::bytes_text(figures.missing_bytes),
                     remedies_text(miss.remedies));
}

std::string more_groups_clause(const Recommendation& recommendation,
                               const PlannerRequest& request) {
  std::optional<uint32_t> fewest;
  const StrategyFigures* with_them = nullptr;
  for (const StrategyFigures& figures : recommendation.figures) {
    const auto groups = groups_needed(figures.strategy, request);
    if (groups && (!fewest || *groups < *fewest)) {
      fewest = groups;
      with_them = &figures;
    }
  }
  if (!fewest) {
    return "no number of further groups is enough";
  }
  return fmt::format("{} fits from {} groups of {} on",
                     letters(with_them->strategy),
                     *fewest,
                     request.world.group_size);
}

std::string nothing_fits(const Recommendation& recommendation, const PlannerRequest& request) {
  const auto& smallest = *std::min_element(recommendation.figures.begin(),
                                           recommendation.figures.end(),
                                           [](const StrategyFigures& a, const StrategyFigures& b) {
                                             return a.memory.total() < b.memory.total();
                                           });
  const MemoryNeed& need = smallest.memory;
  const double buffers = need.gathered + need.gradient_buffers;
  std::string text = fmt::format(
      "nothing fits: {} needs the least, {} of {} per rank, and lacks {}; {} of it are "
      "model states, {} buffers and {} activations; {}",
      letters(smallest.strategy),
      ho::bytes_text(need.total()),
      ho::bytes_text(request.memory_bytes),
      ho::bytes_text(smallest.missing_bytes),
      ho::bytes_text(need.states.total()),
      ho::bytes_text(buffers),
      ho::bytes_text(need.activations),
      more_groups_clause(recommendation, request));
  const uint32_t micro_batch =
      request.sequences > 0 ? request.sequences / smallest.micro_batches : request.micro_batch;
  std::vector<std::string_view> less;  // of activations
  if (micro_batch != 1) {
    less.emplace_back("a smaller micro-batch");
  }
  if (!request.all_recomputed) {
    less.emplace_back("recomputing activations");
  }
  if (need.activations >= smallest.missing_bytes && !less.empty()) {
    text += fmt::format("; {} helps if it saves as much", fmt::join(less, " or "));
  } else if (buffers >= smallest.missing_bytes) {
    text += "; smaller layers take smaller buffers";
  }
  return text + ".";
}

}  // namespace

void add_size_reason(const StrategyFigures& best,
                     uint32_t size,
                     const StrategyFigures& other,
                     uint32_t other_size,
                     std::string& sentence) {
  const std::string step = ho::seconds_text(other.time.step_s);
  const std::string worse = worse_clause(best, other);
  sentence.pop_back();
  sentence += fmt::format(
      "; groups of {} are taken: {} in groups of {} {}.",
      size,
      letters(other.strategy),
      other_size,
      !as_fast(best.time.step_s, other.time.step_s)
          ? "would take " + step
          : fmt::format(
                "is as fast ({}) {}", step, worse.empty() ? "and no better" : "but " + worse));
}

std::vector<std::string> reasons(const Recommendation& recommendation,
                                 const PlannerRequest& request) {
  const StrategyFigures* const best = recommendation.recommended();
  if (best != nullptr) {
    return {fmt::format("{} takes {} a step, {} of it exposed communication, and {}; {}.",
                        letters(best->strategy),
                        ho::seconds_text(best->time.step_s),
                        ho::seconds_text(best->time.exposed_s),
                        memory_clause(*best, request),
                        bottleneck(*best)),
            others_sentence(recommendation, request)};
  }
  std::vector<std::string> lines{nothing_fits(recommendation, request)};
  if (recommendation.near_miss) {
    lines.push_back(near_miss_sentence(recommendation));
  }
  return lines;
}

}  // namespace paro
