#include "comm/selection.hpp"

#include <string>

#include "cost/collective.hpp"
#include "transport/frame.hpp"

namespace ho {
namespace {

Status check(Algorithm algorithm, const SelectionInput& input) {
  if (algorithm != Algorithm::kDirect) {
    return {};
  }
  if (input.fp32_sums) {
    return {StatusCode::kUnsupported,
            "the direct algorithm has no fp32_sums (its partial sums are sent more than once); "
            "use auto or ho_ring"};
  }
  if (input.message_bytes > kMaxPayloadBytes) {
    return {StatusCode::kUnsupported,
            "the direct algorithm moves whole messages of at most " +
                std::to_string(kMaxPayloadBytes) + " bytes, this call has " +
                std::to_string(input.message_bytes) + "; use auto or ho_ring"};
  }
  return {};
}

// How much faster direct must be: what is nearer than the model is right to would be chance.
constexpr double kMargin = 1.05;

bool has_closed_forms(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllReduce || collective == Collective::kBroadcast;
}

bool direct_is_better(const SelectionRules& rules, const SelectionInput& input) {
  if (!rules.levels || !has_closed_forms(input.collective)) {
    return input.total_bytes <= rules.direct_max_bytes;
  }
  const ModelledLevels& known = *rules.levels;
  if (input.total_bytes > known.limits.scratch_bytes) {
    return false;  // it keeps sums and blocks whole
  }
  const uint64_t block_bytes = input.total_bytes / cost::member_count(known.members);
  const auto seconds = [&](Algorithm algorithm) {
    return cost::seconds_of(
        *known.levels,
        known.members,
        cost::Call{input.collective,
                   cost::algorithm_of(algorithm),
                   static_cast<double>(input.total_bytes),
                   static_cast<double>(known.limits.piece_bytes_of(block_bytes)),
                   known.group_levels});
  };
  return seconds(Algorithm::kDirect) * kMargin < seconds(Algorithm::kHoRing);
}

}  // namespace

Result<Algorithm> select_algorithm(const SelectionRules& rules, const SelectionInput& input) {
  if (const auto wanted = input.requested ? input.requested : rules.forced) {
    HORING_TRY(check(*wanted, input));
    return *wanted;
  }
  const bool direct_can = input.message_bytes <= kMaxPayloadBytes && !input.fp32_sums;
  return direct_can && direct_is_better(rules, input) ? Algorithm::kDirect : Algorithm::kHoRing;
}

}  // namespace ho
