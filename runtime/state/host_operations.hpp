// Operations on states in the host's memory, by optim's arithmetic.
#pragma once

#include "state/operations.hpp"

namespace paro {

class HostOperations final : public Operations {
 public:
  void zero(void* address, size_t bytes) const override;
  void copy(void* to, const void* from, size_t bytes) const override;
  void add(ho::DType sum_dtype,
           void* sums,
           ho::DType dtype,
           const void* from,
           uint64_t count) const override;
  void round(ho::DType dtype, const float* from, void* to, uint64_t count) const override;
  void round_in_place(ho::DType dtype, void* address, uint64_t count) const override;
  void norm(ho::DType dtype,
            const void* values,
            uint64_t count,
            double factor,
            uint64_t first_index,
            GradientSums* sums) const override;
  void note_not_finite(ho::DType dtype,
                       const void* values,
                       uint64_t count,
                       uint64_t first_index,
                       GradientSums* sums) const override;
  void decide(const StepLimits& limits, StepControl* control) const override;
  void update(const Rule& rule,
              const StepControl* control,
              const UpdatedElements& elements) const override;
  [[nodiscard]] std::optional<NotFinite> first_not_finite(ho::DType dtype,
                                                          const void* values,
                                                          uint64_t count) const override;
  [[nodiscard]] uint64_t hash(const void* values, size_t bytes) const override;
  void fetch(ho::DType dtype,
             const void* from,
             double factor,
             std::span<float> values) const override;
  void fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const override;
  void fetch_later(const void* from, std::span<std::byte> to) const override;
  void store(ho::DType dtype, std::span<const float> values, void* to) const override;
  void store(std::span<const std::byte> bytes, void* to) const override;
  [[nodiscard]] ho::Status finish() const override { return {}; }
};

}  // namespace paro
