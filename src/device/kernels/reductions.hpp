// Norms and hashes of arrays. The elements are cut into tiles, a tile among kThreads threads; a
// thread adds up its elements in order, then threads are added in pairs: thread l and l + 128, l
// and l + 64, and so on. On a device a block does a tile; a host does one after another. So the
// order of the additions depends on the number of elements alone, and the sum has the same bits
// whatever runs it. One block adds up the tiles in the same way, as if each were an element.
#pragma once

#include <cstdint>

#include "device/kernels/arguments.hpp"
#include "device/kernels/vectors.hpp"

namespace ho::device {

// Neighbouring elements that one thread takes together, and how often it does in a tile.
inline constexpr uint64_t kThreadRun = 4;
inline constexpr uint64_t kThreadRuns = 16;
inline constexpr uint64_t kTileElements = kThreads * kThreadRun * kThreadRuns;

HORING_DEVICE constexpr uint64_t tile_count(uint64_t elements) {
  return elements / kTileElements + (elements % kTileElements != 0 ? 1U : 0U);
}

HORING_DEVICE inline void add(SquaredNorm& sum, const SquaredNorm& part) {
  sum.squared += part.squared;
  sum.not_finite += part.not_finite;
}
// Of hashes: in any order the same.
HORING_DEVICE inline void add(uint64_t& sum, const uint64_t& part) {
  sum += part;
}

// operation.at<kCount>(index) for a thread's elements of a tile.
template <class Operation>
HORING_DEVICE inline void each_of_thread(
    uint64_t elements, bool aligned, uint64_t tile, unsigned thread, Operation& operation) {
  const uint64_t first = tile * kTileElements + thread * kThreadRun;
  constexpr uint64_t kNextRun = kThreads * kThreadRun;
  if (aligned && (tile + 1) * kTileElements <= elements) {
    HORING_UNROLL
    for (uint64_t run = 0; run < kThreadRuns; ++run) {
      operation.template at<kThreadRun>(first + run * kNextRun);
    }
    return;
  }
  for (uint64_t run = 0; run < kThreadRuns; ++run) {
    const uint64_t begin = first + run * kNextRun;
    for (uint64_t i = begin; i < begin + kThreadRun && i < elements; ++i) {
      operation.template at<1>(i);
    }
  }
}

template <class Codec>
struct NormThread {
  const NormArguments& arguments;
  SquaredNorm part = {};

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) {
    float values[kCount];
    load<Codec>(arguments.values, index, values);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      const float scaled = values[k] * arguments.scale;
      const bool finite = (bits_of(scaled) & 0x7f800000U) != 0x7f800000U;
      const double value = finite ? static_cast<double>(scaled) : 0.0;
      part.squared += value * value;
      part.not_finite += finite ? 0U : 1U;
    }
  }
};

template <class Codec>
struct NormOf {
  using Part = SquaredNorm;
  static constexpr uint64_t kElementBytes = sizeof(typename Codec::Element);
  HORING_DEVICE static Part part_of(const NormArguments& arguments,
                                    uint64_t tile,
                                    unsigned thread) {
    NormThread<Codec> of_thread{arguments};
    const bool together = aligned<Codec, kThreadRun>(arguments.values);
    each_of_thread(arguments.elements, together, tile, thread, of_thread);
    return of_thread.part;
  }
};

// Any change of one element's bits changes what it adds: each step can be undone.
HORING_DEVICE inline uint64_t hash_of_element(uint64_t index, uint64_t bits) {
  uint64_t value = bits + (index + 1) * 0xeb01a1c12a3a2107ULL;
  value = (value ^ (value >> 31)) * 0xeb0404f2b09490b9ULL;
  value = (value ^ (value >> 29)) * 0xc8007596a28f5b37ULL;
  return value ^ (value >> 32);
}

template <typename Element>
struct HashThread {
  const HashArguments& arguments;
  uint64_t part = 0;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) {
    Element values[kCount];
    load<Integer<Element>>(arguments.values, index, values);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      const uint64_t offset = arguments.first_index + index + k;
      part += hash_of_element(offset, values[k]);
    }
  }
};

template <typename Element>
struct HashOf {
  using Part = uint64_t;
  static constexpr uint64_t kElementBytes = sizeof(Element);
  HORING_DEVICE static Part part_of(const HashArguments& arguments,
                                    uint64_t tile,
                                    unsigned thread) {
    HashThread<Element> of_thread{arguments};
    const bool together = aligned<Integer<Element>, kThreadRun>(arguments.values);
    each_of_thread(arguments.elements, together, tile, thread, of_thread);
    return of_thread.part;
  }
};

// All parts as one tile.
template <class PartType>
struct Finish {
  using Part = PartType;
  HORING_DEVICE static Part part_of(const FinishArguments& arguments,
                                    uint64_t /*tile*/,
                                    unsigned thread) {
    const auto* const parts = memory_at<const Part>(arguments.parts);
    Part sum = {};
    for (uint64_t i = thread; i < arguments.count; i += kThreads) {
      add(sum, parts[i]);
    }
    return sum;
  }
};

// One step of adding threads in pairs; `distance` is 128, then 64, and so on to 1. The first thread
// has the sum of all in the end. Between two steps every thread waits for all.
template <class Part>
HORING_DEVICE inline void add_pair(Part* thread_parts, unsigned thread, unsigned distance) {
  if (thread < distance) {
    add(thread_parts[thread], thread_parts[thread + distance]);
  }
}

// A tile on a host.
template <class Reduction, class Arguments>
typename Reduction::Part tile_on_host(const Arguments& arguments, uint64_t tile) {
  typename Reduction::Part thread_parts[kThreads];
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    thread_parts[thread] = Reduction::part_of(arguments, tile, thread);
  }
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    for (unsigned thread = 0; thread < distance; ++thread) {
      add_pair(thread_parts, thread, distance);
    }
  }
  return thread_parts[0];
}

}  // namespace ho::device
