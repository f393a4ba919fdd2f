// The kernels' element functions, compiled for this host, against src/reduce: bit for bit, in every
// type and operation, on every instruction set, aligned and not.
//
// Of two NaN operands an instruction keeps the first one, and compilers may swap the operands of
// Highway's additions and products. There alone, and for the NaN alone, both are right.
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "device/kernels/arguments.hpp"
#include "every_target.hpp"
#include "reduce/reduce.hpp"
#include "subjects.hpp"

namespace {

using ho::DType;
using ho::ReduceOp;
using ho::device::ConvertArguments;
using ho::device::PremultiplyArguments;
using ho::device::SumArguments;
using ho::test::Elements;
using ho::test::kOps;
using ho::test::kSubjects;
using ho::test::on_every_target;
using ho::test::Pairs;
using ho::test::pairs_of;
using ho::test::run_kernel;
using ho::test::Subject;

constexpr Subject kHalf = kSubjects[6];
constexpr Subject kSingle = kSubjects[7];
constexpr Subject kBrain = kSubjects[9];
static_assert(kHalf.dtype == DType::kFloat16 && kSingle.dtype == DType::kFloat32 &&
              kBrain.dtype == DType::kBfloat16);

// How a sum is asked for, but for the data.
struct Form {
  ReduceOp op = ReduceOp::kSum;
  uint64_t divisor = 1;
  bool rounds_before_division = true;
};

void sum(const std::string& kernel, const Form& form, Elements& dst, Elements& a, Elements& b) {
  SumArguments arguments{.range = {},
                         .count = 1,
                         .op = static_cast<uint32_t>(form.op),
                         .rounds_before_division = form.rounds_before_division ? 1U : 0U};
  arguments.range[0] = {dst.address(), a.address(), b.address(), dst.size(), form.divisor};
  run_kernel(kernel, arguments);
}

// What is compared: results, results with a and b swapped, and the host's.
void check_same(const std::string& what,
                Elements& got,
                Elements& swapped,
                Elements& want,
                const std::function<bool(size_t)>& two_nans) {
  // Many times as fast under sanitizers as what follows.
  if (std::memcmp(got.data(), want.data(), got.bytes()) == 0) {
    return;
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (got.pattern(i) == want.pattern(i) ||
        (two_nans(i) && swapped.pattern(i) == want.pattern(i))) {
      continue;
    }
    FAIL(what << ": element " << i << " is " << std::hex << got.pattern(i) << ", not "
              << want.pattern(i));
  }
}

void check_sums(const Subject& subject, const Pairs& pairs, const Form& form) {
  const size_t bytes = subject.bytes();
  const size_t count = pairs.a.size();
  const std::string kernel = std::string("ho_sum_") + subject.name;
  Elements a(bytes, pairs.a);
  Elements b(bytes, pairs.b);
  Elements got(bytes, count);
  Elements swapped(bytes, count);
  sum(kernel, form, got, a, b);
  sum(kernel, form, swapped, b, a);
  Elements want(bytes, count);
  ho::reduce(subject.dtype, form.op, want.data(), a.data(), b.data(), count);
  ho::scale_average(subject.dtype, want.data(), count, form.divisor);
  check_same(
      kernel + " " + std::string(ho::to_string(form.op)) + " / " + std::to_string(form.divisor),
      got,
      swapped,
      want,
      [&](size_t i) { return subject.is_nan(a.pattern(i)) && subject.is_nan(b.pattern(i)); });
  // One after another where any one address is not aligned for more.
  for (size_t moved = 0; moved < 3; ++moved) {
    Elements dst(bytes, count, moved == 0 ? 1 : 0);
    Elements src(bytes, pairs.a, moved == 1 ? 1 : 0);
    Elements incoming(bytes, pairs.b, moved == 2 ? 1 : 0);
    sum(kernel, form, dst, src, incoming);
    CHECK(std::memcmp(dst.data(), got.data(), count * bytes) == 0);
  }
}

// All on the best instruction set, some on every one: emulated ones are slow.
void check_sums_everywhere(const Subject& subject, const Pairs& pairs, const Form& form) {
  check_sums(subject, pairs, form);
  constexpr size_t kEvery = 23;
  Pairs some;
  for (size_t i = form.divisor % kEvery; i < pairs.a.size(); i += kEvery) {
    some.add(pairs.a[i], pairs.b[i]);
  }
  on_every_target([&] { check_sums(subject, some, form); });
}

}  // namespace

TEST_CASE("sums of every type and operation have the host's bits") {
  for (const Subject& subject : kSubjects) {
    const Pairs pairs = pairs_of(subject);
    for (const ReduceOp op : kOps) {
      if (ho::reduction_supported(subject.dtype, op)) {
        check_sums_everywhere(subject, pairs, {.op = op});
      }
    }
  }
}

TEST_CASE("averages of every type are divided as on the host") {
  for (const Subject& subject : kSubjects) {
    const Pairs pairs = pairs_of(subject);
    for (const uint64_t divisor : {2ULL, 3ULL, 300ULL, 2048ULL, 0x100000001ULL, ~0ULL}) {
      check_sums_everywhere(subject, pairs, {.op = ReduceOp::kAvg, .divisor = divisor});
    }
  }
}

TEST_CASE("a sum may be written over either of its sources") {
  const Pairs pairs = pairs_of(kBrain);
  Elements want(2, pairs.a.size());
  Elements a(2, pairs.a);
  Elements b(2, pairs.b);
  sum("ho_sum_bfloat16", {}, want, a, b);
  for (const bool over_b : {false, true}) {
    Elements left(2, pairs.a);
    Elements right(2, pairs.b);
    Elements& dst = over_b ? right : left;
    sum("ho_sum_bfloat16", {}, dst, left, right);
    CHECK(std::memcmp(dst.data(), want.data(), 2 * want.size()) == 0);
  }
}

namespace {

// Sources of a sum in fp32 of 16-bit data.
struct WideSources {
  Elements wide;      // fp32
  Elements narrow;    // the source, where it is 16-bit
  Elements incoming;  // 16-bit
};

WideSources wide_sources(const Subject& narrow, size_t skipped) {
  const Pairs wide = pairs_of(kSingle);
  const Pairs pairs = pairs_of(narrow);
  std::vector<uint64_t> left(pairs.a.size());
  for (size_t i = 0; i < left.size(); ++i) {
    left[i] = wide.a[i % wide.a.size()];
  }
  return {Elements(4, left, skipped), Elements(2, pairs.a, skipped), Elements(2, pairs.b, skipped)};
}

// As src/exec computes it: in fp32, divided there, rounded at most once.
void sum_on_host(
    const Subject& narrow, const Form& form, bool wide_src, Elements& out, WideSources& from) {
  auto* const sums = reinterpret_cast<float*>(out.data());
  if (wide_src) {
    ho::reduce_widening(narrow.dtype,
                        form.op,
                        sums,
                        reinterpret_cast<const float*>(from.wide.data()),
                        from.incoming.data(),
                        out.size());
  } else {
    ho::reduce_widening_pair(
        narrow.dtype, form.op, sums, from.narrow.data(), from.incoming.data(), out.size());
  }
  ho::scale_average(DType::kFloat32, sums, out.size(), form.divisor);
}

void check_wide_sums(const Subject& narrow, const Form& form, bool wide_src, size_t skipped) {
  WideSources from = wide_sources(narrow, skipped);
  const size_t count = from.incoming.size();
  Elements wide_want(4, count);
  Elements narrow_want(2, count);
  Elements wide_got(4, count, skipped);
  Elements narrow_got(2, count, skipped);
  const std::string type = narrow.name;
  Elements& src = wide_src ? from.wide : from.narrow;
  const std::string rest = (wide_src ? "float32_" : type + "_") + type;
  sum("ho_sum_float32_" + rest, form, wide_got, src, from.incoming);
  sum(wide_src ? "ho_sum_" + type + "_" + rest : "ho_sum_" + type,
      form,
      narrow_got,
      src,
      from.incoming);
  sum_on_host(narrow, form, wide_src, wide_want, from);
  ho::narrow(
      narrow.dtype, narrow_want.data(), reinterpret_cast<const float*>(wide_want.data()), count);
  for (size_t i = 0; i < count; ++i) {
    const bool two_nans = (wide_src ? kSingle : narrow).is_nan(src.pattern(i)) &&
                          narrow.is_nan(from.incoming.pattern(i));
    const bool same = wide_got.pattern(i) == wide_want.pattern(i) &&
                      narrow_got.pattern(i) == narrow_want.pattern(i);
    const bool both_nan =
        two_nans && kSingle.is_nan(wide_got.pattern(i)) && narrow.is_nan(narrow_got.pattern(i));
    if (!same && !both_nan) {
      FAIL(type << " " << ho::to_string(form.op) << ", element " << i << ": " << std::hex
                << wide_got.pattern(i) << " and " << narrow_got.pattern(i) << ", not "
                << wide_want.pattern(i) << " and " << narrow_want.pattern(i));
    }
  }
}

}  // namespace

TEST_CASE("fp32 sums of 16-bit data have the host's bits") {
  for (const Subject& narrow : {kHalf, kBrain}) {
    for (const bool wide_src : {false, true}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
        check_wide_sums(narrow, {.op = op, .rounds_before_division = false}, wide_src, 0);
      }
      const Form average = {.op = ReduceOp::kAvg, .divisor = 3, .rounds_before_division = false};
      check_wide_sums(narrow, average, wide_src, 1);
    }
  }
}

TEST_CASE("premultiplied elements have the host's bits") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Subject& subject : kSubjects) {
    if (!ho::reduction_supported(subject.dtype, ReduceOp::kPremulSum)) {
      continue;
    }
    const std::vector<uint64_t> patterns = pairs_of(subject).a;
    for (const double factor : {1.0 / 3, -0.0, 65504.0, 1e-30, 1e300, -infinity, nan}) {
      for (const size_t skipped : {0U, 1U}) {
        Elements from(subject.bytes(), patterns, skipped);
        Elements got(subject.bytes(), patterns.size(), skipped);
        Elements want(subject.bytes(), patterns.size());
        run_kernel(std::string("ho_premultiply_") + subject.name,
                   PremultiplyArguments{.dst = got.address(),
                                        .src = from.address(),
                                        .elements = got.size(),
                                        .factor = factor});
        ho::premultiply(subject.dtype, want.data(), from.data(), want.size(), factor);
        for (size_t i = 0; i < want.size(); ++i) {
          const bool both_nan = std::isnan(factor) && subject.is_nan(from.pattern(i)) &&
                                subject.is_nan(got.pattern(i));
          if (got.pattern(i) != want.pattern(i) && !both_nan) {
            FAIL(subject.name << " " << from.pattern(i) << " times " << factor << " is "
                              << got.pattern(i) << ", not " << want.pattern(i));
          }
        }
      }
    }
  }
}

namespace {

void convert(const std::string& kernel, Elements& dst, Elements& src) {
  run_kernel(kernel,
             ConvertArguments{.dst = dst.address(), .src = src.address(), .elements = dst.size()});
}

// Without the processor's own conversion, Highway leaves a signaling NaN of fp16 as it is.
uint64_t quieted(uint64_t bits) {
  return kSingle.is_nan(bits) ? bits | 0x400000 : bits;
}

// The bits of 16-bit numbers in fp32, what lies between two of them, and what lies beside that.
std::vector<uint64_t> boundaries(const Subject& narrow, Elements& widened) {
  std::vector<uint64_t> patterns = pairs_of(kSingle).a;
  const uint64_t half = narrow.dtype == DType::kFloat16 ? 0x1000 : 0x8000;
  for (size_t i = 0; i < widened.size(); ++i) {
    for (const uint64_t beyond : {uint64_t{0}, uint64_t{1}, half - 1, half, half + 1}) {
      patterns.push_back((widened.pattern(i) + beyond) & 0xffffffff);
    }
  }
  return patterns;
}

}  // namespace

TEST_CASE("every 16-bit pattern widens and rounds as on the host") {
  std::vector<uint64_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  for (const Subject& narrow : {kHalf, kBrain}) {
    const std::string type = narrow.name;
    for (const size_t skipped : {0U, 1U}) {
      Elements from(2, all, skipped);
      Elements wide(4, all.size(), skipped);
      Elements wide_want(4, all.size());
      convert("ho_convert_float32_" + type, wide, from);
      Elements sources(4, boundaries(narrow, wide), skipped);
      Elements rounded(2, sources.size(), skipped);
      Elements rounded_want(2, sources.size());
      convert("ho_convert_" + type + "_float32", rounded, sources);
      const auto compare = [&] {
        ho::widen(
            narrow.dtype, reinterpret_cast<float*>(wide_want.data()), from.data(), all.size());
        ho::narrow(narrow.dtype,
                   rounded_want.data(),
                   reinterpret_cast<const float*>(sources.data()),
                   sources.size());
        size_t wrong = 0;
        for (size_t i = 0; i < all.size(); ++i) {
          const bool quiets = narrow.dtype == DType::kFloat16;
          const uint64_t want = wide_want.pattern(i);
          wrong += wide.pattern(i) == (quiets ? quieted(want) : want) ? 0U : 1U;
        }
        CHECK(wrong == 0);
        CHECK(std::memcmp(rounded.data(), rounded_want.data(), 2 * rounded.size()) == 0);
      };
      if (skipped == 0) {
        on_every_target(compare);
      } else {
        compare();
      }
    }
  }
}

TEST_CASE("conversion between 16-bit types goes through fp32") {
  std::vector<uint64_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  for (const bool to_half : {false, true}) {
    const std::string to = to_half ? "float16" : "bfloat16";
    const std::string from = to_half ? "bfloat16" : "float16";
    Elements src(2, all);
    Elements wide(4, all.size());
    Elements want(2, all.size());
    Elements got(2, all.size());
    convert("ho_convert_float32_" + from, wide, src);
    convert("ho_convert_" + to + "_float32", want, wide);
    convert("ho_convert_" + to + "_" + from, got, src);
    CHECK(std::memcmp(got.data(), want.data(), 2 * all.size()) == 0);
  }
}
