// One call of a collective as a value, made on every rank and compared with a formula.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/dtype.hpp"
#include "horing.h"
#include "plan/plan.hpp"

namespace ho::test {

struct Case {
  Collective collective = Collective::kAllGather;
  std::optional<Algorithm> algorithm = Algorithm::kHoRing;  // none: auto
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t count = 1;  // per rank for all-gather and reduce-scatter
  bool in_place = false;
  int32_t root = 0;
  bool fp32_sums = false;
  bool unequal = false;  // all-gather and reduce-scatter: other counts on every rank, on one none
  bool request = false;  // in the background, then waited for

  [[nodiscard]] std::string name() const;
};

// Makes the call. Throws what is wrong with its result or with what it left of its input.
void check_case(ho_comm* comm, const Case& c);

// Throws unless the promise is kept.
void expect(bool kept, const char* promise);

inline constexpr std::array kCollectives{Collective::kAllGather,
                                         Collective::kReduceScatter,
                                         Collective::kAllReduce,
                                         Collective::kBroadcast};
inline constexpr std::array kAlgorithms{Algorithm::kRing,
                                        Algorithm::kMultiRing,
                                        Algorithm::kHierarchical,
                                        Algorithm::kHoRing,
                                        Algorithm::kDirect};

}  // namespace ho::test
