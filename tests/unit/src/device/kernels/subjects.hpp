// The types with arithmetic, as bit patterns, and patterns that are worth trying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "cuda_kernels_on_host.hpp"

namespace ho::test {

struct Subject {
  DType dtype;
  const char* name;       // in the kernels' names
  int exponent_bits = 0;  // of floats
  int mantissa_bits = 0;
  bool finite = false;  // no infinities

  [[nodiscard]] bool is_float() const { return exponent_bits != 0; }
  [[nodiscard]] size_t bytes() const { return size_bytes(dtype); }
  [[nodiscard]] uint64_t mask() const { return ~uint64_t{0} >> (64 - 8 * bytes()); }
  [[nodiscard]] bool is_nan(uint64_t bits) const {
    const uint64_t magnitude = bits & (mask() >> 1);
    const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
    return is_float() && (finite ? magnitude == mask() >> 1 : magnitude > infinity);
  }
};

inline constexpr Subject kSubjects[] = {
    {DType::kInt8, "int8"},
    {DType::kUint8, "uint8"},
    {DType::kInt32, "int32"},
    {DType::kUint32, "uint32"},
    {DType::kInt64, "int64"},
    {DType::kUint64, "uint64"},
    {DType::kFloat16, "float16", 5, 10},
    {DType::kFloat32, "float32", 8, 23},
    {DType::kFloat64, "float64", 11, 52},
    {DType::kBfloat16, "bfloat16", 8, 7},
    {DType::kFloat8E4m3, "float8_e4m3", 4, 3, true},
    {DType::kFloat8E5m2, "float8_e5m2", 5, 2},
};

inline constexpr ReduceOp kOps[] = {ReduceOp::kSum,
                                    ReduceOp::kProd,
                                    ReduceOp::kMax,
                                    ReduceOp::kMin,
                                    ReduceOp::kAvg,
                                    ReduceOp::kBand,
                                    ReduceOp::kBor,
                                    ReduceOp::kBxor,
                                    ReduceOp::kPremulSum};

// Elements of any type, at an address that is a multiple of 16, or a few elements past it.
class Elements {
 public:
  Elements(size_t element_bytes, size_t count, size_t skipped = 0)
      : element_bytes_(element_bytes), count_(count), skipped_(skipped) {
    storage_.resize((count + skipped) * element_bytes / sizeof(std::max_align_t) + 1);
  }
  Elements(size_t element_bytes, const std::vector<uint64_t>& patterns, size_t skipped = 0)
      : Elements(element_bytes, patterns.size(), skipped) {
    for (size_t i = 0; i < count_; ++i) {
      std::memcpy(at(i), &patterns[i], element_bytes_);
    }
  }
  [[nodiscard]] std::byte* at(size_t i) {
    return reinterpret_cast<std::byte*>(storage_.data()) + (skipped_ + i) * element_bytes_;
  }
  [[nodiscard]] std::byte* data() { return at(0); }
  [[nodiscard]] uint64_t address() { return reinterpret_cast<uint64_t>(data()); }
  [[nodiscard]] uint64_t pattern(size_t i) {
    uint64_t bits = 0;
    std::memcpy(&bits, at(i), element_bytes_);
    return bits;
  }
  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] size_t bytes() const { return count_ * element_bytes_; }

 private:
  std::vector<std::max_align_t> storage_;
  size_t element_bytes_;
  size_t count_;
  size_t skipped_;
};

// The limits of a type, and what lies beside them.
inline std::vector<uint64_t> special_patterns(const Subject& subject) {
  std::vector<uint64_t> magnitudes = {0, 1, 2, 3, 7, 100};
  if (subject.is_float()) {
    const uint64_t one = ((uint64_t{1} << (subject.exponent_bits - 1)) - 1)
                         << subject.mantissa_bits;
    const uint64_t infinity = ((uint64_t{1} << subject.exponent_bits) - 1) << subject.mantissa_bits;
    const uint64_t normal = uint64_t{1} << subject.mantissa_bits;
    const uint64_t quiet = normal >> 1;
    for (const uint64_t magnitude : {one - 1,
                                     one,
                                     one + 1,
                                     normal - 1,
                                     normal,
                                     normal + 1,
                                     infinity - 2,
                                     infinity - 1,
                                     infinity,
                                     infinity + 1,
                                     infinity + quiet - 1,
                                     infinity + quiet,
                                     infinity + quiet + 1}) {
      magnitudes.push_back(magnitude);
    }
  }
  magnitudes.push_back(subject.mask() >> 1);
  magnitudes.push_back((subject.mask() >> 1) - 1);
  std::vector<uint64_t> patterns;
  for (const uint64_t magnitude : magnitudes) {
    patterns.push_back(magnitude & subject.mask());
    patterns.push_back((magnitude | ((subject.mask() >> 1) + 1)) & subject.mask());
  }
  return patterns;
}

struct Pairs {
  std::vector<uint64_t> a;
  std::vector<uint64_t> b;
  void add(uint64_t left, uint64_t right) {
    a.push_back(left);
    b.push_back(right);
  }
};

// All pairs of 8 bits; of others all special ones with each other, some with each of 16 bits, and
// random ones, of any and of nearly the same size.
inline Pairs pairs_of(const Subject& subject) {
  Pairs pairs;
  if (subject.bytes() == 1) {
    for (uint64_t i = 0; i < 65536; ++i) {
      pairs.add(i & 0xff, i >> 8);
    }
    return pairs;
  }
  std::mt19937_64 random(static_cast<uint64_t>(subject.dtype));
  const std::vector<uint64_t> specials = special_patterns(subject);
  for (const uint64_t special : specials) {
    for (const uint64_t other : specials) {
      pairs.add(special, other);
    }
    for (int i = 0; i < 100; ++i) {
      const uint64_t other = random() & subject.mask();
      pairs.add(special, other);
      pairs.add(other, special);
    }
  }
  for (uint64_t i = 0; subject.bytes() == 2 && i < 65536; ++i) {
    pairs.add(i, specials[random() % specials.size()]);
  }
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t a = random() & subject.mask();
    const uint64_t near = a ^ (random() & (subject.mask() >> 9)) ^
                          (random() & (subject.mask() ^ (subject.mask() >> 1)));
    pairs.add(a, i % 2 == 0 ? random() & subject.mask() : near);
  }
  return pairs;
}

// Runs a kernel on host memory.
template <class Arguments>
void run_kernel(const std::string& name, Arguments arguments) {
  const HostKernel* const kernel = find_host_kernel(name);
  if (kernel == nullptr || kernel->argument_bytes != sizeof(Arguments)) {
    throw std::runtime_error("no such kernel: " + name);
  }
  void* pointers[] = {&arguments};
  kernel->run(pointers, [](uint64_t address) { return reinterpret_cast<void*>(address); });
}

}  // namespace ho::test
