// Norms and hashes of ranges, a tile by each block of threads, then all tiles by one. A host does
// the same, one thread after the other; between two steps here every thread of a block waits for
// all. A norm's order of additions is step_arithmetic.hpp's; a hash has none.
#pragma once

#include <cstdint>

#include "device/kernels/arguments.hpp"
#include "device/kernels/vectors.hpp"

namespace ho::device {

static_assert(kThreads == kNormTileBlocks * kNormColumns);  // a thread for each column of a tile

HORING_DEVICE constexpr uint64_t parts_of(uint64_t count, uint64_t in_each) {
  return count / in_each + (count % in_each != 0 ? 1U : 0U);
}
HORING_DEVICE constexpr uint64_t norm_tiles(uint64_t elements) {
  return parts_of(elements, kNormTileElements);
}

// --- Norms ------------------------------------------------------------------------------------

template <class Codec>
HORING_DEVICE inline float scaled_element(const NormArguments& arguments, uint64_t index) {
  float value[1];
  load<Codec>(arguments.values, index, value);
  return value[0] * arguments.scale;
}

// Adds an element to the column's sums.
template <class Codec>
HORING_DEVICE inline void add_element(const NormArguments& arguments,
                                      uint64_t index,
                                      GradientSums& column) {
  const auto value = static_cast<double>(scaled_element<Codec>(arguments, index));
  if (is_finite(value)) {
    column.squared += value * value;
  } else {
    const uint64_t from_last = kLastIndex - (arguments.first_index + index);
    add(column, {0, 1, from_last, is_nan(value) ? 1U : 0U});
  }
}

// Adds kCount elements, each kNormColumns after the one before. All reads are under way at once;
// and where the sum is finite all of them are, which is nearly always: then none is looked at
// alone.
template <class Codec, uint64_t kCount>
HORING_DEVICE inline void add_elements(const NormArguments& arguments,
                                       uint64_t index,
                                       GradientSums& column) {
  float values[kCount];
  HORING_UNROLL
  for (uint64_t k = 0; k < kCount; ++k) {
    values[k] = scaled_element<Codec>(arguments, index + k * kNormColumns);
  }
  double squared = column.squared;
  HORING_UNROLL
  for (uint64_t k = 0; k < kCount; ++k) {
    const auto value = static_cast<double>(values[k]);
    squared += value * value;
  }
  if (is_finite(squared)) {
    column.squared = squared;
    return;
  }
  HORING_NO_UNROLL
  for (uint64_t k = 0; k < kCount; ++k) {
    add_element<Codec>(arguments, index + k * kNormColumns, column);
  }
}

// Step 1: a column of one of the tile's blocks.
template <class Codec>
HORING_DEVICE inline GradientSums column_of_tile(const NormArguments& arguments,
                                                 uint64_t tile,
                                                 unsigned thread) {
  constexpr uint64_t kTogether = 8;
  const uint64_t block = tile * kNormTileBlocks + thread / kNormColumns;
  uint64_t index = block * kNormBlockElements + thread % kNormColumns;
  const uint64_t block_end = (block + 1) * kNormBlockElements;
  const uint64_t end = block_end < arguments.elements ? block_end : arguments.elements;
  GradientSums column = {};
  for (; index + (kTogether - 1) * kNormColumns < end; index += kTogether * kNormColumns) {
    add_elements<Codec, kTogether>(arguments, index, column);
  }
  for (; index < end; index += kNormColumns) {
    add_element<Codec>(arguments, index, column);
  }
  return column;
}

// Step 2: the columns of each block.
HORING_DEVICE inline void add_columns(GradientSums* columns, unsigned thread) {
  if (thread % kNormColumns == 0) {
    for (unsigned column = 1; column < kNormColumns; ++column) {
      add(columns[thread], columns[thread + column]);
    }
  }
}

// Step 3: the blocks of the tile; the sum is then the first thread's.
HORING_DEVICE inline void add_blocks(GradientSums* columns, unsigned thread) {
  if (thread == 0) {
    for (unsigned block = 1; block < kNormTileBlocks; ++block) {
      add(columns[0], columns[block * kNormColumns]);
    }
  }
}

HORING_DEVICE constexpr uint64_t norm_sections(uint64_t tiles) {
  return parts_of(tiles, kNormSectionTiles);
}

// Reads kCount of them. On a device 16 bytes at once, and the barrier has ptxas start many before
// it uses the first: else the one thread of a section would wait for most of them in turn.
template <size_t kCount>
HORING_DEVICE inline void read_sums(const GradientSums* from, GradientSums (&sums)[kCount]) {
  HORING_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
#ifdef __CUDA_ARCH__
    asm volatile("ld.global.v2.f64 {%0, %1}, [%2];"
                 : "=d"(sums[k].squared), "=d"(sums[k].not_finite)
                 : "l"(__cvta_generic_to_global(&from[k])));
    asm volatile("ld.global.v2.u64 {%0, %1}, [%2 + 16];"
                 : "=l"(sums[k].first_from_last), "=l"(sums[k].nan)
                 : "l"(__cvta_generic_to_global(&from[k])));
#else
    sums[k] = from[k];
#endif
  }
#ifdef __CUDA_ARCH__
  __syncwarp(__activemask());
#endif
}

// Of all tiles, kThreads sections at a time. Step 1: the thread's section.
HORING_DEVICE inline GradientSums section_of(const FinishNormArguments& arguments,
                                             uint64_t section) {
  constexpr uint64_t kTogether = 16;
  const auto* const parts = memory_at<const GradientSums>(arguments.parts);
  const uint64_t begin = section * kNormSectionTiles;
  const uint64_t section_end = begin + kNormSectionTiles;
  const uint64_t end = section_end < arguments.count ? section_end : arguments.count;
  GradientSums sums = {};
  uint64_t tile = begin;
  for (; tile + kTogether <= end; tile += kTogether) {
    GradientSums read[kTogether];
    read_sums(parts + tile, read);
    HORING_UNROLL
    for (uint64_t k = 0; k < kTogether; ++k) {
      add(sums, read[k]);
    }
  }
  for (; tile < end; ++tile) {
    add(sums, parts[tile]);
  }
  return sums;
}

// Step 2: these, from number `first` on, added to what was there.
HORING_DEVICE inline void add_sections(const FinishNormArguments& arguments,
                                       const GradientSums* sections,
                                       uint64_t first,
                                       unsigned thread) {
  const uint64_t left = norm_sections(arguments.count) - first;
  const uint64_t count = left < kThreads ? left : kThreads;
  if (thread == 0) {
    GradientSums sums = *memory_at<const GradientSums>(arguments.sums);
    for (uint64_t section = 0; section < count; ++section) {
      add(sums, sections[section]);
    }
    *memory_at<GradientSums>(arguments.sums) = sums;
  }
}

// --- Hashes -----------------------------------------------------------------------------------

inline constexpr uint64_t kHashThreadWords = 16;
inline constexpr uint64_t kHashTileWords = kThreads * kHashThreadWords;

HORING_DEVICE constexpr uint64_t hash_tiles(uint64_t bytes) {
  return parts_of(parts_of(bytes, sizeof(uint64_t)), kHashTileWords);
}

// Its first byte lowest; read in the largest pieces that the address is aligned for.
template <typename Piece>
HORING_DEVICE inline uint64_t word_of_pieces(uint64_t address, uint64_t bytes) {
  uint64_t word = 0;
  for (uint64_t at = 0; at < bytes; at += sizeof(Piece)) {
    word |= static_cast<uint64_t>(*memory_at<const Piece>(address + at)) << (8 * at);
  }
  return word;
}

HORING_DEVICE inline uint64_t hash_word(const HashArguments& arguments, uint64_t index) {
  const uint64_t address = arguments.values + index * sizeof(uint64_t);
  const uint64_t left = arguments.bytes - index * sizeof(uint64_t);
  const uint64_t bytes = left < sizeof(uint64_t) ? left : sizeof(uint64_t);
  const uint64_t aligned_for = address | bytes;
  if (aligned_for % 8 == 0) {
    return *memory_at<const uint64_t>(address);
  }
  if (aligned_for % 4 == 0) {
    return word_of_pieces<uint32_t>(address, bytes);
  }
  return aligned_for % 2 == 0 ? word_of_pieces<uint16_t>(address, bytes)
                              : word_of_pieces<uint8_t>(address, bytes);
}

// Step 1: a thread's words of a tile.
HORING_DEVICE inline uint64_t hash_of_thread(const HashArguments& arguments,
                                             uint64_t tile,
                                             unsigned thread) {
  const uint64_t words = parts_of(arguments.bytes, sizeof(uint64_t));
  uint64_t sum = 0;
  for (uint64_t run = 0; run < kHashThreadWords; ++run) {
    const uint64_t index = tile * kHashTileWords + run * kThreads + thread;
    if (index < words) {
      sum += hash_of_word(arguments.first_word + index, hash_word(arguments, index));
    }
  }
  return sum;
}

HORING_DEVICE inline uint64_t hash_of_parts(const FinishHashArguments& arguments, unsigned thread) {
  const auto* const parts = memory_at<const uint64_t>(arguments.parts);
  uint64_t sum = 0;
  for (uint64_t part = thread; part < arguments.count; part += kThreads) {
    sum += parts[part];
  }
  return sum;
}

// Step 2, with `distance` 128, 64, and so on to 1: the sum is then the first thread's.
HORING_DEVICE inline void add_pair(uint64_t* sums, unsigned thread, unsigned distance) {
  if (thread < distance) {
    sums[thread] += sums[thread + distance];
  }
}

}  // namespace ho::device
