// The paper's cluster and models, as requests.
#pragma once

#include <algorithm>
#include <string>

#include "catch.hpp"
#include "planner/planner.hpp"

namespace paro {

constexpr double kGigabit = 1e9 / 8;

inline ho::cost::Level level(const char* name, uint32_t size, double rate, double nics) {
  ho::cost::Level made;
  made.name = name;
  made.size = size;
  made.rate = rate;
  made.nics = nics;
  return made;
}

// 4 groups of 8 ranks, 80 GB each; 2000 Gb/s inside a group and 80 Gb/s of a NIC per rank; flat
// rings; 10 micro-batches.
inline PlannerRequest request_for(double parameters, double trainable, uint32_t layers) {
  PlannerRequest request;
  request.model = {parameters, trainable};
  request.layers = layers;
  request.world = {4, 8};
  request.links = {2000 * kGigabit, 80 * kGigabit, 8, WorldAlgorithm::kRing};
  request.memory_bytes = 80e9;
  request.micro_batches = 10;
  return request;
}

inline PlannerRequest seven_billion() {
  PlannerRequest request = request_for(7e9, 7e9, 32);
  request.compute_s = 5.7;
  return request;
}

inline PlannerRequest sixty_five_billion() {
  PlannerRequest request = request_for(65e9, 65e9, 80);
  request.compute_s = 54;
  return request;
}

inline Recommendation recommendation_for(const PlannerRequest& request) {
  const auto recommendation = recommend(request);
  INFO(recommendation.status().message());
  REQUIRE(recommendation.ok());
  return *recommendation;
}

inline const StrategyFigures& row_of(const Recommendation& all, const std::string& name) {
  const auto found =
      std::find_if(all.figures.begin(), all.figures.end(), [&](const StrategyFigures& row) {
        return letters(row.strategy) == name;
      });
  REQUIRE(found != all.figures.end());
  return *found;
}

}  // namespace paro
