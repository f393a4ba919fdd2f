#include "comm/selection.hpp"

#include <string>

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

}  // namespace

Result<Algorithm> select_algorithm(const SelectionRules& rules, const SelectionInput& input) {
  if (const auto wanted = input.requested ? input.requested : rules.forced) {
    HORING_TRY(check(*wanted, input));
    return *wanted;
  }
  const bool small =
      input.total_bytes <= rules.direct_max_bytes && input.message_bytes <= kMaxPayloadBytes;
  return small && !input.fp32_sums ? Algorithm::kDirect : Algorithm::kHoRing;
}

}  // namespace ho
