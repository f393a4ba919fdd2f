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

// What `squared` is with kCount more, each kNormColumns after the one before. All reads are under
// way at once.
template <class Codec, uint64_t kCount>
HORING_DEVICE inline double with_squares(const NormArguments& arguments,
                                         uint64_t index,
                                         double squared) {
  float values[kCount];
  HORING_UNROLL
  for (uint64_t k = 0; k < kCount; ++k) {
    values[k] = scaled_element<Codec>(arguments, index + k * kNormColumns);
  }
  HORING_UNROLL
  for (uint64_t k = 0; k < kCount; ++k) {
    const auto value = static_cast<double>(values[k]);
    squared += value * value;
  }
  return squared;
}

// Step 1: a column of one of the tile's blocks. Where the sum is finite all elements are, which is
// nearly always: else the column is read once more and each looked at alone. So what is not finite
// takes no registers while reading, and a device has all of its threads reading: with more
// registers its last tiles would be read by few.
template <class Codec>
HORING_DEVICE inline GradientSums column_of_tile(const NormArguments& arguments,
                                                 uint64_t tile,
                                                 unsigned thread) {
  constexpr unsigned kTogether = 8;
  const uint64_t block = tile * kNormTileBlocks + thread / kNormColumns;
  const uint64_t first = block * kNormBlockElements + thread % kNormColumns;
  const uint64_t left = first < arguments.elements ? arguments.elements - first : 0;
  const auto rows = static_cast<unsigned>(
      parts_of(left < kNormBlockElements ? left : kNormBlockElements, kNormColumns));
  double squared = 0;
  unsigned row = 0;
  HORING_NO_UNROLL
  for (; row + kTogether <= rows; row += kTogether) {
    squared = with_squares<Codec, kTogether>(arguments, first + row * kNormColumns, squared);
  }
  HORING_NO_UNROLL
  for (; row < rows; ++row) {
    squared = with_squares<Codec, 1>(arguments, first + row * kNormColumns, squared);
  }
  GradientSums column = {squared, 0, 0, 0};
  if (!is_finite(squared)) {
    column = {};
    HORING_NO_UNROLL
    for (row = 0; row < rows; ++row) {
      add_element<Codec>(arguments, first + row * kNormColumns, column);
    }
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

// Of all tiles, so many sections at a time. Each is padded: threads that add up one each would all
// read one bank of their block's memory else.
inline constexpr uint64_t kSectionsAtOnce = 32;
struct NormSection {
  GradientSums tiles[kNormSectionTiles];
  uint64_t padding;
};

// Step 1: the sections from tile `first` on are read, by all threads. All reads are under way at
// once. Zeros stand for tiles past the last one: added, they change nothing.
HORING_DEVICE inline void read_sections(const FinishNormArguments& arguments,
                                        uint64_t first,
                                        NormSection* sections,
                                        unsigned thread) {
  constexpr uint64_t kRuns = kSectionsAtOnce * kNormSectionTiles / kThreads;
  static_assert(kRuns * kThreads == kSectionsAtOnce * kNormSectionTiles);
  const auto* const parts = memory_at<const GradientSums>(arguments.parts);
  GradientSums read[kRuns];
  HORING_UNROLL
  for (uint64_t run = 0; run < kRuns; ++run) {
    const uint64_t tile = first + run * kThreads + thread;
    read[run] = tile < arguments.count ? parts[tile] : GradientSums{};
  }
  HORING_UNROLL
  for (uint64_t run = 0; run < kRuns; ++run) {
    const uint64_t tile = run * kThreads + thread;
    sections[tile / kNormSectionTiles].tiles[tile % kNormSectionTiles] = read[run];
  }
}

// Step 2: a section's tiles; the sum is then the first one's.
HORING_DEVICE inline void add_tiles(NormSection& section) {
  GradientSums sums = section.tiles[0];
  for (unsigned tile = 1; tile < kNormSectionTiles; ++tile) {
    add(sums, section.tiles[tile]);
  }
  section.tiles[0] = sums;
}

// Step 3: the sections, to what was there.
HORING_DEVICE inline void add_sections(const NormSection* sections, GradientSums& sums) {
  for (unsigned section = 0; section < kSectionsAtOnce; ++section) {
    add(sums, sections[section].tiles[0]);
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
