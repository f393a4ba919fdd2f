// Every type and operation against scalar references, at sizes around the vector widths,
// unaligned, and with the destination on top of a source, on every instruction set.
#include "reduce/reduce.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "every_target.hpp"
#include "small_float_reference.hpp"

namespace {

using ho::DType;
using ho::ReduceOp;
using ho::test::on_every_target;
using ho::test::RoundingReference;
using ho::test::SmallFormat;
using ho::test::value_of;

constexpr size_t kSizes[] = {0,  1,  2,  3,  4,  5,  7,  8,  9,   15,
                             16, 17, 31, 32, 33, 63, 64, 65, 127, 1000};
constexpr ReduceOp kOps[] = {ReduceOp::kSum,
                             ReduceOp::kProd,
                             ReduceOp::kMax,
                             ReduceOp::kMin,
                             ReduceOp::kAvg,
                             ReduceOp::kBand,
                             ReduceOp::kBor,
                             ReduceOp::kBxor,
                             ReduceOp::kPremulSum};

template <typename T>
T combine_numbers(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // Sums and products of any width agree in their low bits, whatever the sign was extended to.
    const auto wide_a = static_cast<uint64_t>(static_cast<int64_t>(a));
    const auto wide_b = static_cast<uint64_t>(static_cast<int64_t>(b));
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
      case ReduceOp::kPremulSum:
        return static_cast<T>(wide_a + wide_b);
      case ReduceOp::kBand:
        return static_cast<T>(wide_a & wide_b);
      case ReduceOp::kBor:
        return static_cast<T>(wide_a | wide_b);
      case ReduceOp::kBxor:
        return static_cast<T>(wide_a ^ wide_b);
      case ReduceOp::kProd:
        return static_cast<T>(wide_a * wide_b);
      case ReduceOp::kMax:
        return a > b ? a : b;
      case ReduceOp::kMin:
        return a < b ? a : b;
    }
  } else {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
      case ReduceOp::kPremulSum:
        return a + b;
      case ReduceOp::kProd:
        return a * b;
      case ReduceOp::kMax:
        return std::isnan(a) || std::isnan(b) ? a + b : (a > b ? a : b);
      case ReduceOp::kMin:
        return std::isnan(a) || std::isnan(b) ? a + b : (a < b ? a : b);
      default:
        break;
    }
  }
  return T{};
}

bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b;
}

// Raw elements of one type, and what combining two of them must give.
struct Subject {
  DType dtype;
  std::vector<std::byte> (*random)(std::mt19937_64&, size_t);
  // Whether `got` is a right result of a (op) b; pointers need no alignment.
  bool (*right)(ReduceOp op, const std::byte* got, const std::byte* a, const std::byte* b);
};

template <typename T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::vector<std::byte> random_bytes(std::mt19937_64& generator, size_t size) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) {
    byte = static_cast<std::byte>(generator() & 0xff);
  }
  return bytes;
}

template <typename T>
bool right_integer(ReduceOp op, const std::byte* got, const std::byte* a, const std::byte* b) {
  return read<T>(got) == combine_numbers(op, read<T>(a), read<T>(b));
}

template <typename T>
bool right_real(ReduceOp op, const std::byte* got, const std::byte* a, const std::byte* b) {
  const T expected = combine_numbers(op, read<T>(a), read<T>(b));
  return same_number(static_cast<double>(read<T>(got)), static_cast<double>(expected));
}

template <int kFormat>
const RoundingReference& reference() {
  constexpr SmallFormat kFormats[] = {
      ho::test::kHalf, ho::test::kBrain, ho::test::kE4m3, ho::test::kE5m2};
  static const RoundingReference instance(kFormats[kFormat]);
  return instance;
}

template <int kFormat, typename Bits>
bool right_small(ReduceOp op, const std::byte* got, const std::byte* a, const std::byte* b) {
  constexpr SmallFormat kFormats[] = {
      ho::test::kHalf, ho::test::kBrain, ho::test::kE4m3, ho::test::kE5m2};
  const SmallFormat& format = kFormats[kFormat];
  // Sums and products of two such numbers in double round at most once before the format does;
  // the reference works on the exact value wherever it can matter.
  const double exact =
      combine_numbers(op, value_of(format, read<Bits>(a)), value_of(format, read<Bits>(b)));
  const uint32_t expected = reference<kFormat>().round(exact);
  return same_number(value_of(format, read<Bits>(got)), value_of(format, expected));
}

const Subject kSubjects[] = {
    {DType::kInt8, random_bytes, right_integer<int8_t>},
    {DType::kUint8, random_bytes, right_integer<uint8_t>},
    {DType::kInt32, random_bytes, right_integer<int32_t>},
    {DType::kUint32, random_bytes, right_integer<uint32_t>},
    {DType::kInt64, random_bytes, right_integer<int64_t>},
    {DType::kUint64, random_bytes, right_integer<uint64_t>},
    {DType::kFloat32, random_bytes, right_real<float>},
    {DType::kFloat64, random_bytes, right_real<double>},
    {DType::kFloat16, random_bytes, right_small<0, uint16_t>},
    {DType::kBfloat16, random_bytes, right_small<1, uint16_t>},
    {DType::kFloat8E4m3, random_bytes, right_small<2, uint8_t>},
    {DType::kFloat8E5m2, random_bytes, right_small<3, uint8_t>},
};

enum class Output { kApart, kOnA, kOnB };

void check_once(const Subject& subject, ReduceOp op, size_t count, Output output) {
  constexpr size_t kGuard = 16;
  const size_t element = ho::size_bytes(subject.dtype);
  const size_t bytes = count * element;
  std::mt19937_64 generator(count * 31 + static_cast<size_t>(op));
  for (const size_t shift : {size_t{0}, size_t{1}}) {  // 1: unaligned for every type but bytes
    const std::vector<std::byte> a = subject.random(generator, bytes + shift);
    const std::vector<std::byte> b = subject.random(generator, bytes + shift);
    std::vector<std::byte> out_a = a;
    std::vector<std::byte> out_b = b;
    std::vector<std::byte> apart(bytes + shift + kGuard, std::byte{0x5a});
    std::byte* dst = apart.data() + shift;
    if (output != Output::kApart) {
      dst = (output == Output::kOnA ? out_a : out_b).data() + shift;
    }
    ho::reduce(subject.dtype, op, dst, out_a.data() + shift, out_b.data() + shift, count);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = i * element;
      if (!subject.right(op, dst + at, a.data() + shift + at, b.data() + shift + at)) {
        FAIL(ho::to_string(subject.dtype)
             << " " << ho::to_string(op) << ": element " << i << " of " << count);
      }
    }
    for (size_t i = 0; i < kGuard; ++i) {
      REQUIRE(apart[bytes + shift + i] == std::byte{0x5a});
    }
  }
}

template <typename T>
void check_integer_division(DType dtype) {
  const std::vector<T> numbers = {0,
                                  1,
                                  static_cast<T>(-1),
                                  7,
                                  static_cast<T>(-7),
                                  100,
                                  std::numeric_limits<T>::max(),
                                  std::numeric_limits<T>::min()};
  for (const uint64_t divisor : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{300}}) {
    std::vector<T> data = numbers;
    ho::scale_average(dtype, data.data(), data.size(), divisor);
    for (size_t i = 0; i < data.size(); ++i) {
      __extension__ using Wide = __int128;
      CHECK(data[i] == static_cast<T>(static_cast<Wide>(numbers[i]) / static_cast<Wide>(divisor)));
    }
  }
}

}  // namespace

TEST_CASE("every type and operation agrees with the scalar reference") {
  on_every_target([] {
    for (const Subject& subject : kSubjects) {
      for (const ReduceOp op : kOps) {
        if (!ho::reduction_supported(subject.dtype, op)) {
          continue;
        }
        for (const size_t count : kSizes) {
          for (const Output output : {Output::kApart, Output::kOnA, Output::kOnB}) {
            check_once(subject, op, count, output);
          }
        }
      }
    }
  });
}

namespace {

struct Factor {
  DType dtype;
  // Whether got is the element at `from` times the factor, rounded once.
  bool (*right)(const std::byte* got, const std::byte* from, double factor);
};

template <typename T>
bool right_product(const std::byte* got, const std::byte* from, double factor) {
  return same_number(read<T>(got), read<T>(from) * static_cast<T>(factor));
}

// Of a 16-bit number and one of 24 bits: exact in double, so it is rounded to fp32 there and then.
template <int kFormat>
bool right_small_product(const std::byte* got, const std::byte* from, double factor) {
  constexpr SmallFormat kFormats[] = {ho::test::kHalf, ho::test::kBrain};
  const SmallFormat& format = kFormats[kFormat];
  const float product =
      static_cast<float>(value_of(format, read<uint16_t>(from))) * static_cast<float>(factor);
  return same_number(value_of(format, read<uint16_t>(got)),
                     value_of(format, reference<kFormat>().round(static_cast<double>(product))));
}

constexpr Factor kFactors[] = {{DType::kFloat16, right_small_product<0>},
                               {DType::kBfloat16, right_small_product<1>},
                               {DType::kFloat32, right_product<float>},
                               {DType::kFloat64, right_product<double>}};

void check_factor(const Factor& subject, size_t count, size_t shift, double factor, bool in_place) {
  const size_t bytes = count * ho::size_bytes(subject.dtype);
  std::mt19937_64 generator(count + shift);
  const std::vector<std::byte> source = random_bytes(generator, bytes + shift);
  std::vector<std::byte> out = source;
  out.insert(out.end(), 16, std::byte{0x5a});
  const std::byte* from = in_place ? out.data() : source.data();
  ho::premultiply(subject.dtype, out.data() + shift, from + shift, count, factor);
  for (size_t at = shift; at < bytes + shift; at += ho::size_bytes(subject.dtype)) {
    if (!subject.right(out.data() + at, source.data() + at, factor)) {
      FAIL(ho::to_string(subject.dtype)
           << " times " << factor << ": byte " << at << " of " << bytes);
    }
  }
  for (size_t i = 0; i < 16; ++i) {
    REQUIRE(out[bytes + shift + i] == std::byte{0x5a});
  }
}

}  // namespace

TEST_CASE("a factor is applied with one rounding, at every size and place, and keeps NaN") {
  const double factors[] = {1.0,
                            -0.1,
                            1.0 / 3,
                            0.0,
                            1e-30,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  on_every_target([&] {
    for (const Factor& subject : kFactors) {
      for (const size_t count : kSizes) {
        for (const double factor : factors) {
          for (const size_t shift : {size_t{0}, size_t{1}}) {
            check_factor(subject, count, shift, factor, false);
            check_factor(subject, count, shift, factor, true);
          }
        }
      }
    }
  });
}

TEST_CASE("fp8 reduces every pair of values with every operation") {
  const SmallFormat formats[] = {ho::test::kE4m3, ho::test::kE5m2};
  const DType dtypes[] = {DType::kFloat8E4m3, DType::kFloat8E5m2};
  std::vector<uint8_t> a(size_t{256} * 256);
  std::vector<uint8_t> b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i / 256);
    b[i] = static_cast<uint8_t>(i % 256);
  }
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const SmallFormat& format = formats[which];
    const RoundingReference rounding(format);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      REQUIRE(ho::reduction_supported(dtypes[which], op));
      std::vector<double> expected(a.size());
      for (size_t i = 0; i < a.size(); ++i) {
        // Both are exact in double; past the largest number this rounds to infinity or NaN.
        const double exact = combine_numbers(op, value_of(format, a[i]), value_of(format, b[i]));
        expected[i] = value_of(format, rounding.round(exact));
      }
      on_every_target([&] {
        std::vector<uint8_t> out(a.size());
        ho::reduce(dtypes[which], op, out.data(), a.data(), b.data(), a.size());
        size_t wrong = 0;
        for (size_t i = 0; i < a.size(); ++i) {
          const double got = value_of(format, out[i]);
          // A zero keeps its sign in a product.
          const bool sign = op != ReduceOp::kProd || std::isnan(got) ||
                            std::signbit(got) == std::signbit(expected[i]);
          wrong += same_number(got, expected[i]) && sign ? 0U : 1U;
        }
        CAPTURE(which, ho::to_string(op));
        CHECK(wrong == 0);
      });
    }
    CHECK_FALSE(ho::reduction_supported(dtypes[which], ReduceOp::kAvg));
  }
}

TEST_CASE("max and min keep NaN from either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {nan, 1, nan, 2, 1};
  const std::vector<float> b = {1, nan, nan, 1, 2};
  on_every_target([&] {
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      std::vector<float> out(a.size());
      ho::reduce(DType::kFloat32, op, out.data(), a.data(), b.data(), a.size());
      CHECK((std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[2])));
      CHECK(out[3] == (op == ReduceOp::kMax ? 2.0F : 1.0F));
    }
  });
}

TEST_CASE("averages divide once, toward zero for integers") {
  on_every_target([] {
    check_integer_division<int8_t>(DType::kInt8);
    check_integer_division<uint8_t>(DType::kUint8);
    check_integer_division<int32_t>(DType::kInt32);
    check_integer_division<uint32_t>(DType::kUint32);
    check_integer_division<int64_t>(DType::kInt64);
    check_integer_division<uint64_t>(DType::kUint64);
    for (const size_t count : kSizes) {
      std::vector<float> singles(count);
      std::vector<double> doubles(count);
      for (size_t i = 0; i < count; ++i) {
        singles[i] = static_cast<float>(i) + 0.1F;
        doubles[i] = static_cast<double>(i) + 0.1;
      }
      ho::scale_average(DType::kFloat32, singles.data(), count, 7);
      ho::scale_average(DType::kFloat64, doubles.data(), count, 7);
      for (size_t i = 0; i < count; ++i) {
        REQUIRE(singles[i] == (static_cast<float>(i) + 0.1F) / 7.0F);
        REQUIRE(doubles[i] == (static_cast<double>(i) + 0.1) / 7.0);
      }
    }
  });
}

TEST_CASE("averages of 16-bit floats round once, for every value") {
  const SmallFormat formats[] = {ho::test::kHalf, ho::test::kBrain};
  const DType dtypes[] = {DType::kFloat16, DType::kBfloat16};
  for (const size_t which : {size_t{0}, size_t{1}}) {
    const RoundingReference rounding(formats[which]);
    for (const uint64_t divisor : {uint64_t{3}, uint64_t{16}, uint64_t{1000}}) {
      std::vector<uint16_t> data(65536);
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<uint16_t>(i);
      }
      ho::scale_average(dtypes[which], data.data(), data.size(), divisor);
      size_t wrong = 0;
      for (size_t i = 0; i < data.size(); ++i) {
        const double exact =
            value_of(formats[which], static_cast<uint32_t>(i)) / static_cast<double>(divisor);
        const uint32_t expected = rounding.round(exact);
        const bool same =
            same_number(value_of(formats[which], data[i]), value_of(formats[which], expected));
        wrong += static_cast<size_t>(!same);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("widening reductions add 16-bit data into fp32 sums") {
  const SmallFormat formats[] = {ho::test::kHalf, ho::test::kBrain};
  const DType dtypes[] = {DType::kFloat16, DType::kBfloat16};
  std::mt19937_64 generator(7);
  on_every_target([&] {
    for (const size_t which : {size_t{0}, size_t{1}}) {
      for (const size_t count : kSizes) {
        std::vector<uint16_t> a(count);
        std::vector<uint16_t> b(count);
        std::vector<float> sums(count);
        for (size_t i = 0; i < count; ++i) {
          a[i] = static_cast<uint16_t>(generator());
          b[i] = static_cast<uint16_t>(generator());
          sums[i] = static_cast<float>(i) * 1.7F;
        }
        for (const ReduceOp op : kOps) {
          if (!ho::reduction_supported(dtypes[which], op)) {
            continue;
          }
          std::vector<float> pair(count);
          std::vector<float> onto = sums;
          ho::reduce_widening_pair(dtypes[which], op, pair.data(), a.data(), b.data(), count);
          ho::reduce_widening(dtypes[which], op, onto.data(), onto.data(), b.data(), count);
          for (size_t i = 0; i < count; ++i) {
            const auto left = static_cast<float>(value_of(formats[which], a[i]));
            const auto right = static_cast<float>(value_of(formats[which], b[i]));
            const float of_pair = combine_numbers(op, left, right);
            const float of_sum = combine_numbers(op, sums[i], right);
            REQUIRE(same_number(static_cast<double>(pair[i]), static_cast<double>(of_pair)));
            REQUIRE(same_number(static_cast<double>(onto[i]), static_cast<double>(of_sum)));
          }
        }
      }
    }
  });
}
