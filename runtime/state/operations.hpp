// What is done with the elements of states where they lie: the arithmetic and the moves of a step,
// over ranges of one flat buffer. A Memory has its own (memory.hpp); whoever works on states takes
// them from there and never asks where a state lies.
//
// Operations are of one stream, where there are streams: what is asked of them runs in that order,
// and after the call has returned, but where it says that it waits. What other streams do the
// caller orders, by marks. One that fails is the first cause of what finish() returns, and nothing
// runs after it, nor on the memory's other streams. On a host all has run when the call returns,
// and nothing fails.
//
// Parameters and gradients are of a compute type (optim/gradients.hpp); masters, the rule's states
// and sums over micro-batches are fp32. Ranges do not overlap unless said. Each element's result
// depends on nothing but its own values, so it does not matter how a range is cut. Only norm() sums
// up, always in the same blocks from its range's beginning on: pass whole ranges.
//
// Addresses are of the memory; spans and vectors are of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "optim/gradients.hpp"
#include "optim/optimizer.hpp"
#include "optim/step_control.hpp"

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

// A place in what a stream was given (Memory::make_mark()). On a host nothing.
class Mark {
 public:
  Mark() = default;
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  virtual ~Mark() = default;
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
  // Adds what values[i] * factor sum up to (step_arithmetic.hpp has the order). `first_index`: what
  // the first value counts as where one is not finite.
  virtual void norm(ho::DType dtype,
                    const void* values,
                    uint64_t count,
                    double factor,
                    uint64_t first_index,
                    GradientSums* sums) const = 0;
  // Adds the first that is not finite, `first_index` as above; and whether it is no number, or, on
  // a device, any is. The rest of the sums is unspecified then.
  virtual void note_not_finite(ho::DType dtype,
                               const void* values,
                               uint64_t count,
                               uint64_t first_index,
                               GradientSums* sums) const = 0;
  // Whether the step is taken, by the control's sums, and what its updates need.
  virtual void decide(const StepLimits& limits, StepControl* control) const = 0;
  // One step of the rule on gradients times the control's factor, or none where it leaves the step
  // out; parameters are masters rounded.
  virtual void update(const Rule& rule,
                      const StepControl* control,
                      const UpdatedElements& elements) const = 0;

  // The first that is not finite. Waits.
  [[nodiscard]] virtual std::optional<NotFinite> first_not_finite(ho::DType dtype,
                                                                  const void* values,
                                                                  uint64_t count) const = 0;
  // The same bytes have the same hash, whatever memory they lie in. Waits.
  [[nodiscard]] virtual uint64_t hash(const void* values, size_t bytes) const = 0;
  // values[i] = from[i] * factor. Waits.
  virtual void fetch(ho::DType dtype,
                     const void* from,
                     double factor,
                     std::span<float> values) const = 0;
  // Bytes as they are, behind those that are there. Waits.
  virtual void fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const = 0;
  // Bytes as they are; they are there after finish() or arrived(), and `to` stays until then.
  virtual void fetch_later(const void* from, std::span<std::byte> to) const = 0;
  // Whether all that fetch_later() was asked for is there. Waits for it, at most so long (0: until
  // the memory's own deadline, which is a failure), and for nothing that was asked since.
  [[nodiscard]] virtual ho::Result<bool> arrived(uint64_t /*timeout_ms*/) const { return true; }
  // Rounded to the compute type. What is stored may change once the call has returned.
  virtual void store(ho::DType dtype, std::span<const float> values, void* to) const = 0;
  virtual void store(std::span<const std::byte> bytes, void* to) const = 0;

  // The mark stands for all that was asked so far. Never waits.
  virtual void set(Mark& /*mark*/) const {}
  // What is asked from now on comes after all that the mark stands for now, which was set on this
  // stream or another one of the memory; never set: it stands for nothing. Never waits.
  virtual void come_after(const Mark& /*mark*/) const {}
  // What runs on it by other calls is in order with them: cudaStream_t; nullptr: the default
  // stream, or a host.
  [[nodiscard]] virtual void* stream() const { return nullptr; }

  // Ok, or what failed first, of what is known by now. Never waits.
  [[nodiscard]] virtual ho::Status status() const { return {}; }
  // Waits for all that was asked, and says what failed of it first.
  [[nodiscard]] virtual ho::Status finish() const = 0;
};

}  // namespace paro
