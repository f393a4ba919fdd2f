#include "planner/price.hpp"

namespace paro {

TokenCost per_million_tokens(double step_s, double tokens_per_rank, const Prices& prices) {
  const double rank_hours = step_s / 3600 / tokens_per_rank * 1e6;
  const double kwh = rank_hours * prices.watts_per_rank / 1000;
  return {rank_hours * prices.per_rank_hour + kwh * prices.per_kwh, kwh};
}

}  // namespace paro
