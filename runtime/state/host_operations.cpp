#include "state/host_operations.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

namespace paro {
namespace {

constexpr uint64_t kBlockElements = ho::device::kNormBlockElements;

// fp32 gradients of a block, on their way from sums to a norm or an update: 16 KiB of the stack.
using Block = std::array<float, kBlockElements>;

const std::byte* element_at(ho::DType dtype, const void* values, uint64_t element) {
  return static_cast<const std::byte*>(values) + element * ho::size_bytes(dtype);
}

void note_block(std::span<const float> block, uint64_t first_index, GradientSums& sums) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto first = std::find_if_not(block.begin(), block.end(), finite);
  const bool nan = std::any_of(first, block.end(), [](float value) { return value != value; });
  const uint64_t index = first_index + static_cast<uint64_t>(first - block.begin());
  add(sums, {0, 0, ho::device::kLastIndex - index, nan ? 1U : 0U});
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

// Blocks are added up to tiles, and these to sections, as on a device.
void HostOperations::norm(ho::DType dtype,
                          const void* values,
                          uint64_t count,
                          double factor,
                          uint64_t first_index,
                          GradientSums* sums) const {
  constexpr uint64_t kSectionBlocks = ho::device::kNormSectionTiles * ho::device::kNormTileBlocks;
  Block block;  // NOLINT(cppcoreguidelines-pro-type-member-init): each part is written first
  Norm tile;
  Norm section;
  const auto end_tile = [&] { section += std::exchange(tile, {}); };
  const auto end_section = [&] {
    const Norm ended = std::exchange(section, {});
    ho::device::add(*sums, {ended.squared, static_cast<double>(ended.not_finite), 0, 0});
  };
  uint64_t blocks = 0;
  for (uint64_t begin = 0; begin < count; begin += kBlockElements) {
    const std::span<float> part(block.data(), std::min(kBlockElements, count - begin));
    unscale(dtype, element_at(dtype, values, begin), factor, part);
    const Norm of_part = norm_of(part);
    if (of_part.not_finite > 0) {
      note_block(part, first_index + begin, *sums);
    }
    tile += of_part;
    ++blocks;
    if (blocks % ho::device::kNormTileBlocks == 0) {
      end_tile();
    }
    if (blocks % kSectionBlocks == 0) {
      end_section();
    }
  }
  end_tile();
  end_section();
}

void HostOperations::note_not_finite(ho::DType dtype,
                                     const void* values,
                                     uint64_t count,
                                     uint64_t first_index,
                                     GradientSums* sums) const {
  if (sums->first_from_last != 0) {
    return;
  }
  if (const auto found = first_not_finite(dtype, values, count)) {
    ho::device::add(*sums,
                    {.squared = 0,
                     .not_finite = 1,
                     .first_from_last = ho::device::kLastIndex - first_index - found->index,
                     .nan = found->nan ? uint64_t{1} : 0});
  }
}

void HostOperations::decide(const StepLimits& limits, StepControl* control) const {
  paro::decide(limits, *control);
}

std::optional<NotFinite> HostOperations::first_not_finite(ho::DType dtype,
                                                          const void* values,
                                                          uint64_t count) const {
  return paro::first_not_finite(dtype, values, count);
}

void HostOperations::update(const Rule& rule,
                            const StepControl* control,
                            const UpdatedElements& elements) const {
  if (control->left_out != 0) {
    return;
  }
  Block block;  // NOLINT(cppcoreguidelines-pro-type-member-init): each part is written first
  const uint32_t states = state_count(rule);
  for (uint64_t begin = 0; begin < elements.count; begin += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, elements.count - begin);
    const std::span<float> gradient(block.data(), count);
    unscale(elements.gradient_dtype,
            element_at(elements.gradient_dtype, elements.gradient, begin),
            control->factor,
            gradient);
    Elements part{{elements.master + begin, count}, {}, gradient};
    for (uint32_t state = 0; state < states; ++state) {
      part.state[state] = {elements.rule[state] + begin, count};
    }
    paro::update(rule, control->steps, part);
    round_to(elements.parameter_dtype,
             part.master,
             static_cast<std::byte*>(elements.parameter) +
                 begin * ho::size_bytes(elements.parameter_dtype));
  }
}

uint64_t HostOperations::hash(const void* values, size_t bytes) const {
  const auto* const from = static_cast<const std::byte*>(values);
  const auto of_word = [from](uint64_t index, size_t present = sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from + index * sizeof word, present);
    return ho::device::hash_of_word(index, word);
  };
  const uint64_t words = bytes / sizeof(uint64_t);
  std::array<uint64_t, 4> sums = {};  // which do not wait for each other
  uint64_t index = 0;
  for (; index + sums.size() <= words; index += sums.size()) {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += of_word(index + i);
    }
  }
  for (; index < words; ++index) {
    sums[0] += of_word(index);
  }
  if (bytes % sizeof(uint64_t) != 0) {
    sums[0] += of_word(words, bytes % sizeof(uint64_t));
  }
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
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

void HostOperations::fetch_later(const void* from, std::span<std::byte> to) const {
  std::copy_n(static_cast<const std::byte*>(from), to.size(), to.data());
}

void HostOperations::store(ho::DType dtype, std::span<const float> values, void* to) const {
  round_to(dtype, values, to);
}

void HostOperations::store(std::span<const std::byte> bytes, void* to) const {
  std::ranges::copy(bytes, static_cast<std::byte*>(to));
}

}  // namespace paro
