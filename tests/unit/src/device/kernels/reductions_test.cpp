// Norms and hashes: right, and the same whatever runs them.
#include "device/kernels/reductions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "catch.hpp"
#include "device/kernels/kernel_list.hpp"
#include "optim/gradients.hpp"
#include "reduce/reduce.hpp"
#include "subjects.hpp"

namespace {

using namespace ho::device;  // NOLINT(google-build-using-namespace): all of it is tested
using ho::DType;
using ho::test::Elements;
using ho::test::run_kernel;

std::vector<float> random_values(size_t count) {
  std::mt19937_64 random(count + 1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

SquaredNorm norm_of(const std::string& kernel, const void* values, size_t count, float scale = 1) {
  std::vector<SquaredNorm> parts(tile_count(count));
  SquaredNorm norm = {-1, 1};
  const auto at = reinterpret_cast<uint64_t>(parts.data());
  run_kernel(kernel,
             NormArguments{.values = reinterpret_cast<uint64_t>(values),
                           .elements = count,
                           .parts = at,
                           .scale = scale});
  run_kernel("ho_finish_norm",
             FinishArguments{
                 .parts = at, .count = parts.size(), .result = reinterpret_cast<uint64_t>(&norm)});
  return norm;
}

uint64_t hash_of(Elements& values, size_t element_bytes, uint64_t first_index = 0) {
  std::vector<uint64_t> parts(tile_count(values.size()));
  uint64_t hash = 1;
  const auto at = reinterpret_cast<uint64_t>(parts.data());
  run_kernel("ho_hash_" + std::to_string(element_bytes),
             HashArguments{.values = values.address(),
                           .elements = values.size(),
                           .first_index = first_index,
                           .parts = at});
  run_kernel("ho_finish_hash",
             FinishArguments{
                 .parts = at, .count = parts.size(), .result = reinterpret_cast<uint64_t>(&hash)});
  return hash;
}

bool near(double a, double b) {
  return std::fabs(a - b) <= 1e-13 * std::fabs(b);
}

// A block's work as a device does it, its threads in an order of their own between two waits.
template <class Reduction, class Arguments>
typename Reduction::Part tile_on_device(const Arguments& arguments, uint64_t tile, uint64_t seed) {
  std::vector<unsigned> order(kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    order[thread] = thread;
  }
  std::mt19937_64 random(seed);
  std::vector<typename Reduction::Part> thread_parts(kThreads);
  std::shuffle(order.begin(), order.end(), random);
  for (const unsigned thread : order) {
    thread_parts[thread] = Reduction::part_of(arguments, tile, thread);
  }
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    std::shuffle(order.begin(), order.end(), random);
    for (const unsigned thread : order) {
      add_pair(thread_parts.data(), thread, distance);
    }
  }
  return thread_parts[0];
}

constexpr size_t kSizes[] = {
    0, 1, 3, 4, 1023, 1024, 1025, kTileElements - 1, kTileElements, kTileElements + 1, 100'003};

}  // namespace

TEST_CASE("a norm is the sum of squares in double precision") {
  for (const size_t count : kSizes) {
    const std::vector<float> values = random_values(count);
    long double want = 0;
    for (const float value : values) {
      const float scaled = value * 0.3F;
      want += static_cast<long double>(scaled) * static_cast<long double>(scaled);
    }
    const SquaredNorm norm = norm_of("ho_norm_float32", values.data(), count, 0.3F);
    CHECK(near(norm.squared, static_cast<double>(want)));
    CHECK(norm.not_finite == 0);
  }
}

TEST_CASE("a norm of 16-bit values is that of the same values in fp32") {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    for (const size_t count : kSizes) {
      std::vector<float> narrow = random_values(count);
      paro::round_in_place(dtype, narrow.data(), count);
      std::vector<float> wide(count);
      ho::widen(dtype, wide.data(), narrow.data(), count);
      const char* const kernel = dtype == DType::kFloat16 ? "ho_norm_float16" : "ho_norm_bfloat16";
      const double got = norm_of(kernel, narrow.data(), count).squared;
      const double want = norm_of("ho_norm_float32", wide.data(), count).squared;
      CHECK(std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(want));
    }
  }
}

TEST_CASE("values that are not finite are counted and stay out of the norm") {
  std::vector<float> values = random_values(50'000);
  std::vector<float> finite = values;
  const float infinity = std::numeric_limits<float>::infinity();
  uint64_t count = 0;
  for (size_t i = 5; i < values.size(); i += 1237, ++count) {
    values[i] = count % 3 == 0 ? infinity : count % 3 == 1 ? -infinity : std::nanf("");
    finite[i] = 0;
  }
  const SquaredNorm norm = norm_of("ho_norm_float32", values.data(), values.size());
  const SquaredNorm want = norm_of("ho_norm_float32", finite.data(), finite.size());
  CHECK(norm.not_finite == count);
  CHECK(norm.squared == want.squared);
  // What the scale makes infinite counts too.
  const float largest = std::numeric_limits<float>::max();
  CHECK(norm_of("ho_norm_float32", &largest, 1, 2).not_finite == 1);
}

TEST_CASE("a norm has the same bits on any grid and in any order of threads") {
  const std::vector<float> values = random_values(7 * kTileElements + 77);
  const SquaredNorm want = norm_of("ho_norm_float32", values.data(), values.size());
  const NormArguments arguments = {.values = reinterpret_cast<uint64_t>(values.data()),
                                   .elements = values.size(),
                                   .parts = 0,
                                   .scale = 1};
  for (const uint64_t blocks : {1ULL, 2ULL, 3ULL, 8ULL, 100ULL}) {
    std::vector<SquaredNorm> parts(tile_count(values.size()));
    for (uint64_t block = blocks; block-- > 0;) {
      for (uint64_t tile = block; tile < parts.size(); tile += blocks) {
        parts[tile] = tile_on_device<NormOf<Float32>>(arguments, tile, blocks);
      }
    }
    const FinishArguments finish = {
        .parts = reinterpret_cast<uint64_t>(parts.data()), .count = parts.size(), .result = 0};
    const SquaredNorm got = tile_on_device<Finish<SquaredNorm>>(finish, 0, blocks);
    CHECK(std::bit_cast<uint64_t>(got.squared) == std::bit_cast<uint64_t>(want.squared));
  }
}

TEST_CASE("a norm has the same bits at any alignment of its values") {
  for (const size_t count : kSizes) {
    const std::vector<float> values = random_values(count);
    std::vector<uint64_t> patterns(count);
    for (size_t i = 0; i < count; ++i) {
      patterns[i] = std::bit_cast<uint32_t>(values[i]);
    }
    const double want = norm_of("ho_norm_float32", values.data(), count).squared;
    for (const size_t skipped : {1U, 2U, 3U}) {
      Elements moved(4, patterns, skipped);
      CHECK(norm_of("ho_norm_float32", moved.data(), count).squared == want);
    }
  }
}

TEST_CASE("more tiles than threads are added up in full") {
  constexpr size_t kParts = 1000;
  std::vector<SquaredNorm> parts(kParts);
  for (size_t i = 0; i < kParts; ++i) {
    parts[i] = {static_cast<double>(i), i};
  }
  SquaredNorm norm = {};
  run_kernel("ho_finish_norm",
             FinishArguments{.parts = reinterpret_cast<uint64_t>(parts.data()),
                             .count = kParts,
                             .result = reinterpret_cast<uint64_t>(&norm)});
  CHECK(norm.squared == kParts * (kParts - 1) / 2);
  CHECK(norm.not_finite == kParts * (kParts - 1) / 2);
}

TEST_CASE("a hash changes with any bit of any element") {
  for (const size_t element_bytes : {1U, 2U, 4U}) {
    std::mt19937_64 random(element_bytes);
    Elements values(element_bytes, 300);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t bits = random();
      std::memcpy(values.at(i), &bits, element_bytes);
    }
    const uint64_t before = hash_of(values, element_bytes);
    size_t unnoticed = 0;
    for (size_t bit = 0; bit < values.size() * element_bytes * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      values.data()[bit / 8] ^= mask;
      unnoticed += hash_of(values, element_bytes) == before ? 1U : 0U;
      values.data()[bit / 8] ^= mask;
    }
    CHECK(unnoticed == 0);
    CHECK(hash_of(values, element_bytes) == before);
  }
}

TEST_CASE("a hash knows where each element stands") {
  std::vector<uint64_t> patterns(1000);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = i;
  }
  Elements values(4, patterns);
  const uint64_t want = hash_of(values, 4);
  size_t unnoticed = 0;
  for (size_t i = 0; i + 1 < patterns.size(); ++i) {
    std::vector<uint64_t> swapped = patterns;
    std::swap(swapped[i], swapped[(i * 17 + 1) % 1000]);
    Elements other(4, swapped);
    unnoticed += swapped != patterns && hash_of(other, 4) == want ? 1U : 0U;
  }
  CHECK(unnoticed == 0);
  Elements zeros(4, std::vector<uint64_t>(10));
  Elements more_zeros(4, std::vector<uint64_t>(11));
  CHECK(hash_of(zeros, 4) != hash_of(more_zeros, 4));
}

TEST_CASE("hashes of parts add up to that of the whole") {
  std::mt19937_64 random(3);
  std::vector<uint64_t> patterns(2 * kTileElements + 100);
  for (uint64_t& pattern : patterns) {
    pattern = random() & 0xffff;
  }
  Elements whole(2, patterns);
  const uint64_t want = hash_of(whole, 2);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{777}, size_t{kTileElements + 5}}) {
    const auto middle = patterns.begin() + static_cast<std::ptrdiff_t>(cut);
    Elements left(2, std::vector<uint64_t>(patterns.begin(), middle));
    Elements right(2, std::vector<uint64_t>(middle, patterns.end()), 3);
    CHECK(hash_of(left, 2) + hash_of(right, 2, cut) == want);
  }
}
