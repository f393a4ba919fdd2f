#include "state/host_operations.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/hash.hpp"

namespace paro {
namespace {

constexpr uint64_t kBlockElements = 4096;

// fp32 gradients of a block, on their way from sums to a norm or an update: 16 KiB of the stack.
using Block = std::array<float, kBlockElements>;

const std::byte* element_at(ho::DType dtype, const void* values, uint64_t element) {
  return static_cast<const std::byte*>(values) + element * ho::size_bytes(dtype);
}

void note_not_finite(std::span<const float> block, uint64_t begin, NotFiniteFound& found) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto first = std::find_if_not(block.begin(), block.end(), finite);
  if (!found.first) {
    found.first = begin + static_cast<uint64_t>(first - block.begin());
  }
  found.nan =
      found.nan || std::any_of(first, block.end(), [](float value) { return value != value; });
}

}  // namespace

void HostOperations::zero(void* address, size_t bytes) const {
  std::memset(address, 0, bytes);
}

void HostOperations::copy(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void HostOperations::add(
    ho::DType sum_dtype, void* sums, ho::DType dtype, const void* from, uint64_t count) const {
  if (sum_dtype == ho::DType::kFloat32) {
    accumulate(dtype, {static_cast<float*>(sums), count}, from);
  } else {
    accumulate(dtype, sums, from, count);
  }
}

void HostOperations::round(ho::DType dtype, const float* from, void* to, uint64_t count) const {
  round_to(dtype, {from, count}, to);
}

void HostOperations::round_in_place(ho::DType dtype, void* address, uint64_t count) const {
  paro::round_in_place(dtype, address, count);
}

NotFiniteFound HostOperations::norm(
    ho::DType dtype, const void* values, uint64_t count, double factor, Norm& norm) const {
  Block block;  // NOLINT(cppcoreguidelines-pro-type-member-init): each part is written first
  NotFiniteFound found;
  for (uint64_t begin = 0; begin < count; begin += kBlockElements) {
    const std::span<float> part(block.data(), std::min(kBlockElements, count - begin));
    unscale(dtype, element_at(dtype, values, begin), factor, part);
    const Norm of_part = norm_of(part);
    if (of_part.not_finite > 0) {
      note_not_finite(part, begin, found);
    }
    norm += of_part;
  }
  return found;
}

std::optional<NotFinite> HostOperations::first_not_finite(ho::DType dtype,
                                                          const void* values,
                                                          uint64_t count) const {
  return paro::first_not_finite(dtype, values, count);
}

void HostOperations::update(const Rule& rule,
                            uint64_t step,
                            double factor,
                            const UpdatedElements& elements) const {
  Block block;  // NOLINT(cppcoreguidelines-pro-type-member-init): each part is written first
  const uint32_t states = state_count(rule);
  for (uint64_t begin = 0; begin < elements.count; begin += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, elements.count - begin);
    const std::span<float> gradient(block.data(), count);
    unscale(elements.gradient_dtype,
            element_at(elements.gradient_dtype, elements.gradient, begin),
            factor,
            gradient);
    Elements part{{elements.master + begin, count}, {}, gradient};
    for (uint32_t state = 0; state < states; ++state) {
      part.state[state] = {elements.rule[state] + begin, count};
    }
    paro::update(rule, step, part);
    round_to(elements.parameter_dtype,
             part.master,
             static_cast<std::byte*>(elements.parameter) +
                 begin * ho::size_bytes(elements.parameter_dtype));
  }
}

uint64_t HostOperations::hash(const void* values, size_t bytes) const {
  return ho::Hash().add(std::span(static_cast<const std::byte*>(values), bytes)).value();
}

void HostOperations::fetch(ho::DType dtype,
                           const void* from,
                           double factor,
                           std::span<float> values) const {
  unscale(dtype, from, factor, values);
}

void HostOperations::fetch(const void* from, size_t bytes, std::vector<std::byte>& behind) const {
  const auto* const first = static_cast<const std::byte*>(from);
  behind.insert(behind.end(), first, first + bytes);
}

void HostOperations::store(ho::DType dtype, std::span<const float> values, void* to) const {
  round_to(dtype, values, to);
}

void HostOperations::store(std::span<const std::byte> bytes, void* to) const {
  std::memcpy(to, bytes.data(), bytes.size());
}

}  // namespace paro
