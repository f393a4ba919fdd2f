// What a step's seconds cost per token. Pure.
#pragma once

namespace paro {

// Money in any currency.
struct Prices {
  double per_rank_hour = 0;
  double watts_per_rank = 0;
  double per_kwh = 0;
};

struct TokenCost {
  double money = 0;
  double kwh = 0;
};

// Per million tokens, where every rank works on `tokens_per_rank` tokens (above 0) in a step of
// `step_s` seconds. How many ranks there are makes no difference.
[[nodiscard]] TokenCost per_million_tokens(double step_s,
                                           double tokens_per_rank,
                                           const Prices& prices);

}  // namespace paro
