// What is done with the elements of states where they lie: the arithmetic and the moves of a step,
// over ranges of one flat buffer. A Memory has its own (memory.hpp); whoever works on states takes
// them from there and never asks where a state lies. HostOperations is the one there is today.
//
// Parameters and gradients are of a compute type (optim/gradients.hpp); masters, the rule's states
// and sums over micro-batches are fp32. Ranges do not overlap unless said. Each element's result
// depends on nothing but its own values, so it does not matter how a range is cut. Only norm() sums
// up, always in the same blocks from its range's beginning on: pass whole ranges.
//
// Addresses of states are of the memory; spans and vectors are of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "optim/gradients.hpp"
#include "optim/optimizer.hpp"

namespace paro {

// The same elements of all that an update reads and writes.
struct UpdatedElements {
  float* master = nullptr;
  std::array<float*, kMaxStates> rule{};  // the first state_count() of them
  ho::DType gradient_dtype = ho::DType::kFloat32;
  const void* gradient = nullptr;
  ho::DType parameter_dtype = ho::DType::kFloat32;
  void* parameter = nullptr;
  uint64_t count = 0;
};

// What norm() met that is not finite.
struct NotFiniteFound {
  std::optional<uint64_t> first;  // element of the range
  bool nan = false;               // any is
};

class Operations {
 public:
  Operations() = default;
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  virtual ~Operations() = default;

  virtual void zero(void* address, size_t bytes) const = 0;
  virtual void copy(void* to, const void* from, size_t bytes) const = 0;
  // sums[i] += from[i], added in fp32; sums are fp32, or of the type of `from`.
  virtual void add(
      ho::DType sum_dtype, void* sums, ho::DType dtype, const void* from, uint64_t count) const = 0;
  // fp32 rounded to the compute type.
  virtual void round(ho::DType dtype, const float* from, void* to, uint64_t count) const = 0;
  // The same in place: results lie one after the other from the address on.
  virtual void round_in_place(ho::DType dtype, void* address, uint64_t count) const = 0;
  // Adds the norm of values[i] * factor to `norm`. What is not finite is counted, and stays out.
  [[nodiscard]] virtual NotFiniteFound norm(
      ho::DType dtype, const void* values, uint64_t count, double factor, Norm& norm) const = 0;
  // The first that is not finite.
  [[nodiscard]] virtual std::optional<NotFinite> first_not_finite(ho::DType dtype,
                                                                  const void* values,
                                                                  uint64_t count) const = 0;
  // One step of the rule, which counts from 1, on gradients times `factor`; parameters are masters
  // rounded.
  virtual void update(const Rule& rule,
                      uint64_t step,
                      double factor,
                      const UpdatedElements& elements) const = 0;
  // The same values have the same hash, whatever memory they lie in.
  [[nodiscard]] virtual uint64_t hash(const void* values, size_t bytes) const = 0;

  // values[i] = from[i] * factor.
  virtual void fetch(ho::DType dtype,
                     const void* from,
                     double factor,
                     std::span<float> values) const = 0;
  // Bytes as they are, behind those that are there.
  virtual void fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const = 0;
  // Rounded to the compute type.
  virtual void store(ho::DType dtype, std::span<const float> values, void* to) const = 0;
  virtual void store(std::span<const std::byte> bytes, void* to) const = 0;
};

}  // namespace paro
