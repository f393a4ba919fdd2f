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
  uint64_t count = 1;  // of a rank's block where each has one
  bool in_place = false;
  int32_t root = 0;
  bool fp32_sums = false;
  bool unequal = false;  // takes_counts(): other counts on every rank, some of them none
  bool request = false;  // in the background, then waited for

  [[nodiscard]] std::string name() const;
};

// Whether the collective has a form with counts per rank.
[[nodiscard]] bool takes_counts(Collective collective);

// Makes the call. Throws what is wrong with its result or with what it left of its input.
void check_case(ho_comm* comm, const Case& c);

// Throws unless the promise is kept.
void expect(bool kept, const char* promise);

inline constexpr std::array kCollectives{Collective::kAllGather,
                                         Collective::kReduceScatter,
                                         Collective::kAllReduce,
                                         Collective::kBroadcast,
                                         Collective::kAllToAll,
                                         Collective::kGather,
                                         Collective::kScatter,
                                         Collective::kReduce};
inline constexpr std::array kAlgorithms{Algorithm::kRing,
                                        Algorithm::kMultiRing,
                                        Algorithm::kHierarchical,
                                        Algorithm::kHoRing,
                                        Algorithm::kDirect};

}  // namespace ho::test
