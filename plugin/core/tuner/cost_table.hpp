// NCCL's table of costs, one per algorithm and protocol, from the third version of its tuner
// interface on. NCCL takes the entry with the smallest cost and does not check again whether it can
// run, so a wrong write crashes the job. Nothing is written where the shape is not a known one.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/tuner/choice.hpp"
#include "core/tuner/inputs.hpp"

namespace ho::plugin {

inline constexpr int kProtocols = 3;            // LL, LL128, SIMPLE
inline constexpr int kAlgorithmsBefore223 = 6;  // without PAT
inline constexpr int kAlgorithmsSince223 = 7;
inline constexpr float kForbiddenCost = -1.0F;

// NCCL's number of an algorithm, -1 for kDefault and kOwn; and back, kDefault for what we do not
// know.
[[nodiscard]] int nccl_algorithm(Choice choice) noexcept;
[[nodiscard]] Choice choice_of_algorithm(int algorithm) noexcept;

// A view of one; NCCL owns it.
class CostTable {
 public:
  // Nothing where there is no table, or its shape is one that we do not know.
  [[nodiscard]] static std::optional<CostTable> of(float* costs,
                                                   int algorithms,
                                                   int protocols) noexcept;

  // What NCCL left allowed, in any protocol.
  [[nodiscard]] Choices allowed() const noexcept;
  // Makes NCCL take it: 0 for the cheapest of its allowed entries, and a little more for any other
  // entry that is 0. False, and nothing is written, where it has none.
  bool select(Choice choice) noexcept;
  // Forbids what goes through CollNet on several nodes, so that NCCL takes what its own model has
  // as the best of the rest. Nothing is written where no rest is allowed.
  void forbid_rails() noexcept;
  // Allows CollNet direct where it is forbidden, and makes NCCL take it.
  void force_collnet_direct() noexcept;

 private:
  explicit CostTable(std::span<float> costs) : costs_(costs) {}
  // The algorithm's entries; none for kDefault, kOwn and an algorithm that NCCL does not have.
  [[nodiscard]] std::span<float> row(Choice choice) const noexcept;

  void take(float& entry) noexcept;

  std::span<float> costs_;
};

// The same for the second version of NCCL's tuner interface, which has no table. It passes whether
// the call can take CollNet and NVLS, and takes what the tuner names. It does not show whether
// nodes have an NVSwitch, without which NCCL forbids direct; NVLS does not exist without one. Nor
// what heads NCCL found: all-gather and reduce-scatter, where a rank that is no head would trap, go
// through CollNet with one rank per node only.
[[nodiscard]] Choices allowed_by_support(const CommonInputs& inputs,
                                         TunedCollective collective,
                                         bool collnet,
                                         bool nvls) noexcept;

// Whether CollNet direct may be taken where NCCL forbids it, which it does on nodes without an
// NVSwitch. Only where nothing else can have forbidden it and it is known to run:
//   - one rank per node (each is a head then; a rank that is none would trap) and CollNet known to
//     be connected for this communicator (without heads NCCL divides by zero);
//   - the user set neither NCCL_ALGO nor NCCL_PROTO, whose exclusions have the same effect on the
//   table;
//   - CollNet reduces this type with this operation: always so for an all-gather; for an all-reduce
//     NCCL shows it by allowing the chain; else only if CollNet reduces all that NCCL has.
[[nodiscard]] bool may_force_collnet_direct(const CommonInputs& inputs,
                                            TunedCollective collective,
                                            Choices allowed) noexcept;

}  // namespace ho::plugin
