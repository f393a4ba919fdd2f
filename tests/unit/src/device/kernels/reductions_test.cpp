// Norms and hashes: right, and those of the host whatever runs them.
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
#include "optim/step_control.hpp"
#include "state/host_operations.hpp"
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

// Added to what was there.
GradientSums norm_of(const std::string& kernel,
                     const void* values,
                     size_t count,
                     float scale = 1,
                     const GradientSums& before = {}) {
  std::vector<GradientSums> parts(norm_tiles(count));
  GradientSums sums = before;
  const auto at = reinterpret_cast<uint64_t>(parts.data());
  run_kernel(kernel,
             NormArguments{.values = reinterpret_cast<uint64_t>(values),
                           .elements = count,
                           .parts = at,
                           .first_index = 100,
                           .scale = scale});
  run_kernel("ho_finish_norm",
             FinishNormArguments{
                 .parts = at, .count = parts.size(), .sums = reinterpret_cast<uint64_t>(&sums)});
  return sums;
}

GradientSums norm_on_host(DType dtype,
                          const void* values,
                          size_t count,
                          float scale = 1,
                          const GradientSums& before = {}) {
  GradientSums sums = before;
  paro::HostOperations().norm(dtype, values, count, static_cast<double>(scale), 100, &sums);
  return sums;
}

bool same(const GradientSums& a, const GradientSums& b) {
  return std::bit_cast<uint64_t>(a.squared) == std::bit_cast<uint64_t>(b.squared) &&
         a.not_finite == b.not_finite && a.first_from_last == b.first_from_last &&
         (a.nan != 0) == (b.nan != 0);
}

uint64_t hash_of(const void* values, size_t bytes, uint64_t first_word = 0) {
  std::vector<uint64_t> parts(hash_tiles(bytes));
  uint64_t hash = 1;
  const auto at = reinterpret_cast<uint64_t>(parts.data());
  run_kernel("ho_hash",
             HashArguments{.values = reinterpret_cast<uint64_t>(values),
                           .bytes = bytes,
                           .first_word = first_word,
                           .parts = at});
  run_kernel("ho_finish_hash",
             FinishHashArguments{
                 .parts = at, .count = parts.size(), .result = reinterpret_cast<uint64_t>(&hash)});
  return hash;
}

bool near(double a, double b) {
  return std::fabs(a - b) <= 1e-13 * std::fabs(b);
}

// A tile as a device does it, threads in an order of their own between two waits.
GradientSums tile_on_device(const NormArguments& arguments, uint64_t tile, uint64_t seed) {
  std::vector<unsigned> order(kThreads);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    order[thread] = thread;
  }
  std::mt19937_64 random(seed);
  std::vector<GradientSums> columns(kThreads);
  const auto each_thread = [&](auto step) {
    std::shuffle(order.begin(), order.end(), random);
    for (const unsigned thread : order) {
      step(thread);
    }
  };
  each_thread(
      [&](unsigned thread) { columns[thread] = column_of_tile<Float32>(arguments, tile, thread); });
  each_thread([&](unsigned thread) { add_columns(columns.data(), thread); });
  each_thread([&](unsigned thread) { add_blocks(columns.data(), thread); });
  return columns[0];
}

constexpr size_t kSizes[] = {0,
                             1,
                             15,
                             17,
                             4095,
                             4096,
                             4097,
                             kNormTileElements - 1,
                             kNormTileElements,
                             kNormTileElements + 1,
                             100'003};

}  // namespace

TEST_CASE("a norm is the sum of squares in double precision") {
  for (const size_t count : kSizes) {
    const std::vector<float> values = random_values(count);
    long double want = 0;
    for (const float value : values) {
      const float scaled = value * 0.3F;
      want += static_cast<long double>(scaled) * static_cast<long double>(scaled);
    }
    const GradientSums norm = norm_of("ho_norm_float32", values.data(), count, 0.3F);
    CHECK(near(norm.squared, static_cast<double>(want)));
    CHECK(norm.not_finite == 0);
  }
}

TEST_CASE("a norm has the host's bits in every type and goes on from the one before") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    GradientSums want = {};
    GradientSums got = {};
    for (const size_t count : kSizes) {
      std::vector<float> values = random_values(count);
      paro::round_in_place(dtype, values.data(), count);
      const std::string kernel = "ho_norm_" + std::string(dtype == DType::kFloat32   ? "float32"
                                                          : dtype == DType::kFloat16 ? "float16"
                                                                                     : "bfloat16");
      want = norm_on_host(dtype, values.data(), count, 0.3F, want);
      got = norm_of(kernel, values.data(), count, 0.3F, got);
      CHECK(same(got, want));
    }
  }
}

TEST_CASE("more sections than there are threads are added up in the host's order") {
  constexpr size_t kTiles = kThreads * kNormSectionTiles + 3 * kNormSectionTiles + 7;
  std::vector<GradientSums> parts(kTiles);
  std::mt19937_64 random(5);
  for (GradientSums& part : parts) {
    part = {std::ldexp(static_cast<double>(random()), -40), 1, random() % 9, 0};
  }
  GradientSums want = {0.1, 0, 0, 0};
  for (size_t begin = 0; begin < kTiles; begin += kNormSectionTiles) {
    GradientSums section = {};
    for (size_t tile = begin; tile < std::min<size_t>(kTiles, begin + kNormSectionTiles); ++tile) {
      add(section, parts[tile]);
    }
    add(want, section);
  }
  GradientSums got = {0.1, 0, 0, 0};
  run_kernel("ho_finish_norm",
             FinishNormArguments{.parts = reinterpret_cast<uint64_t>(parts.data()),
                                 .count = kTiles,
                                 .sums = reinterpret_cast<uint64_t>(&got)});
  CHECK(same(got, want));
  CHECK(got.not_finite == kTiles);
}

TEST_CASE(
    "values that are not finite are counted, the first is found, and all stay out of the norm") {
  std::vector<float> values = random_values(150'000);
  std::vector<float> finite = values;
  const float infinity = std::numeric_limits<float>::infinity();
  uint64_t count = 0;
  for (size_t i = 70'005; i < values.size(); i += 1237, ++count) {
    values[i] = count % 3 == 0 ? infinity : count % 3 == 1 ? -infinity : std::nanf("");
    finite[i] = 0;
  }
  const GradientSums norm = norm_of("ho_norm_float32", values.data(), values.size());
  const GradientSums want = norm_of("ho_norm_float32", finite.data(), finite.size());
  CHECK(norm.not_finite == static_cast<double>(count));
  CHECK(norm.squared == want.squared);
  CHECK(paro::first_not_finite_of(norm) == 70'105U);
  CHECK(norm.nan != 0);
  CHECK(same(norm, norm_on_host(DType::kFloat32, values.data(), values.size())));
  CHECK_FALSE(paro::first_not_finite_of(want));
  // What the scale makes infinite counts too, and is no NaN.
  const float largest = std::numeric_limits<float>::max();
  const GradientSums scaled = norm_of("ho_norm_float32", &largest, 1, 2);
  CHECK((scaled.not_finite == 1 && scaled.nan == 0));
}

TEST_CASE("a norm has the same bits in any order of threads") {
  const std::vector<float> values = random_values(3 * kNormTileElements + 77);
  const NormArguments arguments = {.values = reinterpret_cast<uint64_t>(values.data()),
                                   .elements = values.size(),
                                   .parts = 0,
                                   .first_index = 0,
                                   .scale = 1};
  for (const uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    GradientSums got = {};
    for (uint64_t tile = 0; tile < norm_tiles(values.size()); ++tile) {
      add(got, tile_on_device(arguments, tile, seed));
    }
    CHECK(same(got, norm_on_host(DType::kFloat32, values.data(), values.size())));
  }
}

TEST_CASE("a hash changes with any bit of any byte") {
  std::mt19937_64 random(3);
  for (const size_t bytes : {size_t{301}, size_t{600}}) {
    Elements values(1, bytes);
    for (size_t i = 0; i < bytes; ++i) {
      *values.at(i) = static_cast<std::byte>(random());
    }
    const uint64_t before = hash_of(values.data(), bytes);
    size_t unnoticed = 0;
    for (size_t bit = 0; bit < bytes * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1U << (bit % 8));
      values.data()[bit / 8] ^= mask;
      unnoticed += hash_of(values.data(), bytes) == before ? 1U : 0U;
      values.data()[bit / 8] ^= mask;
    }
    CHECK(unnoticed == 0);
    CHECK(hash_of(values.data(), bytes) == before);
  }
}

TEST_CASE("a hash knows where each word stands, and is the host's at any alignment") {
  std::vector<uint64_t> words(1000);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = i;
  }
  const uint64_t want = hash_of(words.data(), 8000);
  CHECK(want == paro::HostOperations().hash(words.data(), 8000));
  for (const size_t shift : {1U, 2U, 4U, 8U, 14U}) {
    Elements moved(1, 8000, shift);
    std::memcpy(moved.data(), words.data(), 8000);
    CHECK(hash_of(moved.data(), 8000) == want);
    CHECK(paro::HostOperations().hash(moved.data(), 8000) == want);
    CHECK(hash_of(moved.data(), 7997) == paro::HostOperations().hash(moved.data(), 7997));
  }
  size_t unnoticed = 0;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    std::vector<uint64_t> swapped = words;
    std::swap(swapped[i], swapped[(i * 17 + 1) % 1000]);
    unnoticed += swapped != words && hash_of(swapped.data(), 8000) == want ? 1U : 0U;
  }
  CHECK(unnoticed == 0);
  const std::vector<uint64_t> zeros(11);
  CHECK(hash_of(zeros.data(), 80) != hash_of(zeros.data(), 88));
}

TEST_CASE("hashes of parts add up to that of the whole") {
  std::mt19937_64 random(3);
  std::vector<uint64_t> words(2 * kHashTileWords + 100);
  for (uint64_t& word : words) {
    word = random();
  }
  const uint64_t want = hash_of(words.data(), words.size() * 8);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{777}, size_t{kHashTileWords + 5}}) {
    CHECK(hash_of(words.data(), cut * 8) +
              hash_of(words.data() + cut, (words.size() - cut) * 8, cut) ==
          want);
  }
}
