// Reading and writing kCount neighbouring elements: as few words as possible where they are aligned
// for that, one element otherwise.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>

#include "device/kernels/operations.hpp"

namespace ho::device {

inline constexpr size_t kVectorBytes = 16;  // the most that a GPU's thread reads or writes at once

// How many elements go together where the largest of the types has `element_bytes`.
HORING_DEVICE constexpr size_t vector_count(size_t element_bytes) {
  return kVectorBytes / element_bytes;
}

// The memory at an address. On a device it is global memory, never a block's or a thread's own:
// where nvcc knows that, reading takes it less.
template <typename T>
HORING_DEVICE inline T* memory_at(uint64_t address) {
#ifdef __CUDA_ARCH__
  return static_cast<T*>(__cvta_global_to_generic(address));
#else
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an argument of a kernel is an address
  return reinterpret_cast<T*>(address);
#endif
}

// kBytes in 32-bit words, the first one lowest.
template <size_t kBytes>
struct Words {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  uint32_t word[kBytes / 4];
};

// `address` is a multiple of kBytes.
template <size_t kBytes>
HORING_DEVICE inline Words<kBytes> read_words(uint64_t address) {
  Words<kBytes> words;
#ifdef __CUDA_ARCH__
  if constexpr (kBytes == 16) {
    const uint4 at = *memory_at<const uint4>(address);
    words.word[0] = at.x;
    words.word[1] = at.y;
    words.word[2] = at.z;
    words.word[3] = at.w;
  } else if constexpr (kBytes == 8) {
    const uint2 at = *memory_at<const uint2>(address);
    words.word[0] = at.x;
    words.word[1] = at.y;
  } else {
    words.word[0] = *memory_at<const uint32_t>(address);
  }
#else
  assert(address % kBytes == 0);  // which a GPU asks for, and a host does not
  std::memcpy(&words, memory_at<const void>(address), kBytes);
#endif
  return words;
}

template <size_t kBytes>
HORING_DEVICE inline void write_words(uint64_t address, const Words<kBytes>& words) {
#ifdef __CUDA_ARCH__
  if constexpr (kBytes == 16) {
    *memory_at<uint4>(address) =
        make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
  } else if constexpr (kBytes == 8) {
    *memory_at<uint2>(address) = make_uint2(words.word[0], words.word[1]);
  } else {
    *memory_at<uint32_t>(address) = words.word[0];
  }
#else
  assert(address % kBytes == 0);
  std::memcpy(memory_at<void>(address), &words, kBytes);
#endif
}

template <typename Element, size_t kBytes>
HORING_DEVICE inline Element element_of(const Words<kBytes>& words, size_t k) {
  if constexpr (sizeof(Element) == 8) {
    return words.word[2 * k] | static_cast<uint64_t>(words.word[2 * k + 1]) << 32;
  } else {
    constexpr size_t kPerWord = 4 / sizeof(Element);
    constexpr size_t kBits = 8 * sizeof(Element);
    return static_cast<Element>(words.word[k / kPerWord] >> (kBits * (k % kPerWord)));
  }
}

// Of words that were zeros.
template <typename Element, size_t kBytes>
HORING_DEVICE inline void put_element(Words<kBytes>& words, size_t k, Element bits) {
  if constexpr (sizeof(Element) == 8) {
    words.word[2 * k] = static_cast<uint32_t>(bits);
    words.word[2 * k + 1] = static_cast<uint32_t>(bits >> 32);
  } else {
    constexpr size_t kPerWord = 4 / sizeof(Element);
    constexpr size_t kBits = 8 * sizeof(Element);
    words.word[k / kPerWord] |= static_cast<uint32_t>(bits) << (kBits * (k % kPerWord));
  }
}

// Elements `index` to index + kCount - 1 of the array at `address`.
template <class Codec, size_t kCount>
HORING_DEVICE inline void load(uint64_t address,
                               uint64_t index,
                               typename Codec::Number (&numbers)[kCount]) {
  using Element = typename Codec::Element;
  const uint64_t at = address + index * sizeof(Element);
  if constexpr (kCount == 1) {
    numbers[0] = Codec::load(*memory_at<const Element>(at));
  } else {
    const auto words = read_words<kCount * sizeof(Element)>(at);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      numbers[k] = Codec::load(element_of<Element>(words, k));
    }
  }
}

template <class Codec, size_t kCount>
HORING_DEVICE inline void store(uint64_t address,
                                uint64_t index,
                                const typename Codec::Number (&numbers)[kCount]) {
  using Element = typename Codec::Element;
  const uint64_t at = address + index * sizeof(Element);
  if constexpr (kCount == 1) {
    *memory_at<Element>(at) = Codec::store(numbers[0]);
  } else {
    Words<kCount * sizeof(Element)> words = {};
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      put_element<Element>(words, k, Codec::store(numbers[k]));
    }
    write_words(at, words);
  }
}

// Whether kCount elements of the codec may be read or written together from `address` on.
template <class Codec, size_t kCount>
HORING_DEVICE inline bool aligned(uint64_t address) {
  return address % (kCount * sizeof(typename Codec::Element)) == 0;
}

}  // namespace ho::device
