#include "bench/train_gpt/strategy_choice.hpp"

#include <array>

#include "cli/paro/job/measure.hpp"
#include "planner/planner.hpp"
#include "step/buckets.hpp"

namespace paro::gpt {
namespace {

ho::Result<Recommendation> recommend_for(const Options& options,
                                         const Cost& cost,
                                         const tool::MeasuredJob& measured) {
  std::vector<std::string> notes;
  HORING_ASSIGN(const ClusterFacts facts, tool::facts_of(measured, notes));
  PlannerRequest request;
  HORING_TRY(apply(facts, request));
  request.model = {static_cast<double>(cost.parameters),
                   static_cast<double>(cost.trained),
                   static_cast<double>(cost.shared),
                   static_cast<double>(cost.shared_trained)};
  request.layers = options.shape.layers;
  request.sharing_units = 1;
  // AdamW has a master and two moments; sums are fp32 even of one micro-batch, since the head is
  // tied.
  const double element = options.bfloat16 ? 2 : 4;
  request.bytes = {element, element, 12, 4.0};
  request.memory_bytes = static_cast<double>(options.memory_bytes);
  request.micro_batches = options.accumulation;
  request.compute_s = cost.seconds * options.accumulation;
  request.bucket_bytes = kDefaultBucketBytes;
  return recommend(request);
}

}  // namespace

ho::Result<Choice> choose_strategy(horing::Communicator& job, const Options& options, Cost cost) {
  if (job.world_size() == 1) {
    return Choice{{"NNN"}, "a single rank has no rank to share with"};
  }
  job.all_reduce(std::span<double>(&cost.seconds, 1), HO_MAX);  // the slowest rank's
  const auto recommendation = recommend_for(options, cost, tool::measure_job(job));
  if (!recommendation.ok()) {
    return ho::Status(
        recommendation.status().code(),
        "--strategy auto: " + recommendation.status().message() + "; or name a strategy");
  }
  if (recommendation->recommended() == nullptr) {
    return ho::Status(ho::StatusCode::kOutOfMemory, "--memory: " + recommendation->why());
  }
  Choice choice{{}, recommendation->why()};
  for (const size_t row : recommendation->ranking) {
    choice.strategies.push_back(letters(recommendation->figures[row].strategy));
  }
  return choice;
}

}  // namespace paro::gpt
