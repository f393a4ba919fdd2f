// Kernels through a small table of driver calls, whose device addresses are not the host's.
#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "device/kernels/kernel_list.hpp"
#include "device/kernels/kernels.hpp"
#include "reduce/reduce.hpp"
#include "subjects.hpp"

namespace {

using namespace ho::device;  // NOLINT(google-build-using-namespace): all of it is tested
using ho::DType;
using ho::ReduceOp;
using ho::StatusCode;
using ho::test::Elements;
using ho::test::find_host_kernel;
using ho::test::HostKernel;
using ho::test::kOps;
using ho::test::kSubjects;
using ho::test::Pairs;
using ho::test::pairs_of;
using ho::test::Subject;
using ho::test::TouchedRange;

// What the device calls an address of the host.
constexpr uint64_t kShift = 1ULL << 50;
template <typename T>
T* on_device(T* host) {
  return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(host) + kShift);
}

// What the table's calls did, and what they are to do.
struct Calls {
  int loaded = 0;
  int unloaded = 0;
  std::string refused;  // a kernel's name
  DriverResult launch_result = kSuccess;
  std::vector<std::string> launched;
  std::vector<TouchedRange> touched;  // by the last launch
  unsigned grid_x = 0;
  unsigned grid_y = 0;
};
Calls calls;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): calls have no context

DriverResult load_module(ModuleHandle* module, const void* image) {
  ++calls.loaded;
  *module = reinterpret_cast<ModuleHandle>(const_cast<void*>(image));
  return kSuccess;
}
DriverResult unload_module(ModuleHandle) {
  ++calls.unloaded;
  return kSuccess;
}
DriverResult find_function(FunctionHandle* function, ModuleHandle, const char* name) {
  const HostKernel* const kernel = find_host_kernel(name);
  if (kernel == nullptr || calls.refused == name) {
    return 500;
  }
  *function = reinterpret_cast<FunctionHandle>(const_cast<HostKernel*>(kernel));
  return kSuccess;
}
DriverResult launch(FunctionHandle function,
                    unsigned grid_x,
                    unsigned grid_y,
                    unsigned,
                    unsigned block_x,
                    unsigned,
                    unsigned,
                    unsigned,
                    StreamHandle,
                    void** arguments,
                    void**) {
  if (calls.launch_result != kSuccess) {
    return calls.launch_result;
  }
  const auto* const kernel = reinterpret_cast<const HostKernel*>(function);
  calls.launched.emplace_back(kernel->name);
  calls.grid_x = grid_x;
  calls.grid_y = grid_y;
  calls.touched = kernel->ranges(arguments);
  if (block_x != kThreads) {
    return kInvalidValue;
  }
  kernel->run(arguments,
              [](uint64_t address) { return reinterpret_cast<void*>(address - kShift); });
  return kSuccess;
}
DriverResult error_name(DriverResult, const char** name) {
  *name = "CUDA_ERROR_OF_THE_TEST";
  return kSuccess;
}

constexpr std::byte kImage[1] = {};

Driver table() {
  calls = {};
  Driver driver;
  driver.module_load = load_module;
  driver.module_unload = unload_module;
  driver.module_function = find_function;
  driver.launch = launch;
  driver.error_name = error_name;
  driver.error_text = error_name;
  driver.kernels = kImage;
  return driver;
}

Kernels loaded(const Driver& driver) {
  auto kernels = Kernels::load(driver);
  REQUIRE(kernels.ok());
  return std::move(*kernels);
}

constexpr StreamHandle kStream = nullptr;

}  // namespace

TEST_CASE("kernels are loaded once and unloaded with their owner") {
  const Driver driver = table();
  {
    Kernels first = loaded(driver);
    Kernels second = std::move(first);
    first = std::move(second);
    CHECK(calls.unloaded == 0);
  }
  CHECK(calls.loaded == 1);
  CHECK(calls.unloaded == 1);
}

TEST_CASE("a build without kernels says what to do") {
  Driver driver = table();
  driver.kernels = {};
  const auto kernels = Kernels::load(driver);
  CHECK(kernels.status().code() == StatusCode::kUnsupported);
  CHECK(kernels.status().message().find("nvcc") != std::string::npos);
  CHECK(calls.loaded == 0);
}

TEST_CASE("an image that lacks a kernel is unloaded and the kernel named") {
  const Driver driver = table();
  calls.refused = "ho_adamw_float16";
  const auto kernels = Kernels::load(driver);
  REQUIRE(!kernels.ok());
  CHECK(kernels.status().message().find("ho_adamw_float16") != std::string::npos);
  CHECK(calls.unloaded == 1);
}

TEST_CASE("a launch that fails names call, kernel and the driver's error") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  calls.launch_result = 700;
  const ho::Status status = kernels.sum(kStream, {}, {.dst = on_device(&calls), .elements = 1});
  REQUIRE(!status.ok());
  for (const char* const part : {"cuLaunchKernel", "ho_sum_float32", "CUDA_ERROR_OF_THE_TEST"}) {
    CHECK(status.message().find(part) != std::string::npos);
  }
}

TEST_CASE("launched sums of every type and operation are the host's") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  for (const Subject& subject : kSubjects) {
    Pairs pairs = pairs_of(subject);
    pairs.a.resize(5001);
    pairs.b.resize(5001);
    const size_t count = pairs.a.size();
    for (const ReduceOp op : kOps) {
      const SumKind kind = {.dtype = subject.dtype, .op = op};
      Elements a(subject.bytes(), pairs.a);
      Elements b(subject.bytes(), pairs.b);
      Elements got(subject.bytes(), count);
      const Sum sum = {.dst = on_device(got.data()),
                       .src = on_device(a.data()),
                       .incoming = on_device(b.data()),
                       .elements = count,
                       .divisor = op == ReduceOp::kAvg ? 3U : 1U};
      if (!ho::reduction_supported(subject.dtype, op)) {
        CHECK(kernels.sum(kStream, kind, sum).code() == StatusCode::kInvalidArgument);
        continue;
      }
      REQUIRE(kernels.sum(kStream, kind, sum).ok());
      Elements want(subject.bytes(), count);
      ho::reduce(subject.dtype, op, want.data(), a.data(), b.data(), count);
      ho::scale_average(subject.dtype, want.data(), count, sum.divisor);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) {
        const bool two_nans = subject.is_nan(a.pattern(i)) && subject.is_nan(b.pattern(i));
        wrong += got.pattern(i) == want.pattern(i) || two_nans ? 0U : 1U;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("fp32 sums launch the kernel of their sources and destination") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  std::vector<float> memory(100);
  const auto kernel_name = [&](const SumKind& kind) {
    const Sum sum = {.dst = on_device(memory.data()),
                     .src = on_device(memory.data()),
                     .incoming = on_device(memory.data() + 50),
                     .elements = 50};
    CHECK(kernels.sum(kStream, kind, sum).ok());
    return calls.launched.back();
  };
  SumKind kind = {.dtype = DType::kBfloat16, .fp32_sums = true};
  CHECK(kernel_name(kind) == "ho_sum_bfloat16");
  kind.dst_is_fp32 = true;
  CHECK(kernel_name(kind) == "ho_sum_float32_bfloat16_bfloat16");
  kind.src_is_fp32 = true;
  CHECK(kernel_name(kind) == "ho_sum_float32_float32_bfloat16");
  kind.dtype = DType::kFloat16;
  kind.dst_is_fp32 = false;
  CHECK(kernel_name(kind) == "ho_sum_float16_float32_float16");
  kind.dtype = DType::kFloat64;
  CHECK(kernels.sum(kStream, kind, Sum{}).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("an average of 16-bit data with fp32 sums is rounded once") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  const Pairs pairs = pairs_of(kSubjects[9]);
  Elements a(2, pairs.a);
  Elements b(2, pairs.b);
  Elements once(2, pairs.a.size());
  Elements twice(2, pairs.a.size());
  for (Elements* const dst : {&once, &twice}) {
    const SumKind kind = {
        .dtype = DType::kBfloat16, .op = ReduceOp::kAvg, .fp32_sums = dst == &once};
    REQUIRE(kernels
                .sum(kStream,
                     kind,
                     {.dst = on_device(dst->data()),
                      .src = on_device(a.data()),
                      .incoming = on_device(b.data()),
                      .elements = dst->size(),
                      .divisor = 3})
                .ok());
  }
  std::vector<float> sums(once.size());
  ho::reduce_widening_pair(
      DType::kBfloat16, ReduceOp::kSum, sums.data(), a.data(), b.data(), sums.size());
  ho::scale_average(DType::kFloat32, sums.data(), sums.size(), 3);
  Elements want(2, sums.size());
  ho::narrow(DType::kBfloat16, want.data(), sums.data(), sums.size());
  size_t wrong = 0;
  size_t rounded_twice = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool nan = kSubjects[9].is_nan(want.pattern(i));
    wrong += nan || once.pattern(i) == want.pattern(i) ? 0U : 1U;
    rounded_twice += nan || twice.pattern(i) == want.pattern(i) ? 0U : 1U;
  }
  CHECK(wrong == 0);
  CHECK(rounded_twice > 0);
}

TEST_CASE("a kernel names the ranges that it reads and writes") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  std::vector<float> memory(64);
  std::vector<uint16_t> incoming(64);
  const auto address = [](const void* host) { return reinterpret_cast<uint64_t>(host) + kShift; };
  REQUIRE(kernels
              .sum(kStream,
                   {.dtype = DType::kFloat16,
                    .fp32_sums = true,
                    .src_is_fp32 = true,
                    .dst_is_fp32 = true},
                   {.dst = on_device(memory.data()),
                    .src = on_device(memory.data()),
                    .incoming = on_device(incoming.data()),
                    .elements = 64})
              .ok());
  REQUIRE(calls.touched.size() == 3);
  CHECK(calls.touched[0].address == address(memory.data()));
  CHECK(calls.touched[0].bytes == 256);
  CHECK(!calls.touched[0].written);
  CHECK(calls.touched[1].address == address(incoming.data()));
  CHECK(calls.touched[1].bytes == 128);
  CHECK(!calls.touched[1].written);
  CHECK(calls.touched[2].bytes == 256);
  CHECK(calls.touched[2].written);
}

TEST_CASE("nothing is launched for no elements, and a norm of none adds nothing") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  CHECK(kernels.sum(kStream, {}, Sum{}).ok());
  CHECK(kernels.premultiply(kStream, DType::kFloat32, nullptr, nullptr, 0, 2).ok());
  CHECK(kernels.convert(kStream, DType::kFloat32, nullptr, DType::kFloat16, nullptr, 0).ok());
  CHECK(kernels.copy(kStream, {}).ok());
  CHECK(kernels.adamw(kStream, {}, {}).ok());
  CHECK(kernels.sgd(kStream, {}, {}).ok());
  CHECK(kernels.zero(kStream, nullptr, 0).ok());
  std::vector<GradientSums> parts(kMinNormParts);
  CHECK(kernels.norm(kStream, {.parts = parts}).ok());
  CHECK(calls.launched.empty());
}

TEST_CASE("a norm of more than its parts have room for has the same bits") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  std::vector<float> values(3 * kNormSectionTiles * kNormTileElements / 2 + 77);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 1013) / 7;
  }
  values[values.size() - 3] = std::numeric_limits<float>::infinity();
  const auto norm_with = [&](size_t capacity) {
    std::vector<GradientSums> parts(capacity);
    GradientSums sums = {};
    REQUIRE(kernels
                .norm(kStream,
                      {.values = on_device(values.data()),
                       .elements = values.size(),
                       .first_index = 5,
                       .parts = {on_device(parts.data()), capacity},
                       .sums = on_device(&sums)})
                .ok());
    return sums;
  };
  const GradientSums at_once = norm_with(4 * kMinNormParts);
  const GradientSums in_two = norm_with(kMinNormParts + 5);
  CHECK(calls.launched.size() == 2 + 4);
  CHECK(at_once.squared == in_two.squared);
  CHECK(kLastIndex - in_two.first_from_last == 5 + values.size() - 3);
  CHECK(at_once.first_from_last == in_two.first_from_last);
  GradientSums too_few[1] = {};
  CHECK(kernels.norm(kStream, {.parts = too_few}).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("bytes are zeroed whatever their alignment and number") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  for (const size_t bytes : {1U, 4U, 16U, 333U}) {
    for (const size_t skipped : {0U, 1U, 4U}) {
      std::vector<std::byte> memory(512, std::byte{7});
      std::vector<std::byte> want = memory;
      std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(skipped), bytes, std::byte{0});
      REQUIRE(kernels.zero(kStream, on_device(memory.data() + skipped), bytes).ok());
      CHECK(memory == want);
    }
  }
}

TEST_CASE("types that have no kernel are refused by name") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  const auto refused = [](const ho::Status& status) {
    return status.code() == StatusCode::kInvalidArgument &&
           status.message().find("int32") != std::string::npos;
  };
  CHECK(refused(kernels.premultiply(kStream, DType::kInt32, nullptr, nullptr, 1, 2)));
  CHECK(refused(kernels.convert(kStream, DType::kInt32, nullptr, DType::kFloat32, nullptr, 1)));
  CHECK(refused(kernels.convert(kStream, DType::kFloat32, nullptr, DType::kInt32, nullptr, 1)));
  CHECK(refused(kernels.norm(kStream, {.dtype = DType::kInt32})));
  CHECK(refused(kernels.adamw(kStream, {.gradient_dtype = DType::kInt32}, {})));
  CHECK(refused(kernels.sgd(kStream, {.gradient_dtype = DType::kInt32}, {})));
  int parameter = 0;
  CHECK(refused(
      kernels.sgd(kStream, {.parameter = &parameter, .parameter_dtype = DType::kInt32}, {})));
}

TEST_CASE("ranges are packed whatever their alignment and number") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  std::vector<std::byte> from(40'000);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  std::vector<std::byte> to(from.size());
  std::vector<std::byte> want(from.size());
  std::vector<MemoryCopy> copies;
  size_t at = 0;
  for (size_t i = 0; at + 100 < to.size() && i < 2 * kMaxCopiedRanges + 5; ++i) {
    const size_t bytes = i % 8 == 0 ? 64 : i % 83;
    const size_t source = (i * 131) % (from.size() - 100);
    copies.push_back({on_device(to.data() + at), on_device(from.data() + source), bytes});
    std::memcpy(want.data() + at, from.data() + source, bytes);
    at += bytes + i % 3;
  }
  REQUIRE(kernels.copy(kStream, copies).ok());
  CHECK(to == want);
  CHECK(calls.launched.size() == 3);
  CHECK(calls.grid_y == 5);
}

TEST_CASE("sums of many ranges are those of one each, whatever their alignment and number") {
  const Driver driver = table();
  const Kernels kernels = loaded(driver);
  constexpr size_t kRanges = 2 * kMaxSummedRanges + 5;
  std::vector<uint16_t> src(40'000);
  std::vector<uint16_t> incoming(src.size());
  for (size_t i = 0; i < src.size(); ++i) {  // small numbers: no NaN
    src[i] = static_cast<uint16_t>(0x3f80 + i % 509);
    incoming[i] = static_cast<uint16_t>(0x4000 + i * 7 % 251);
  }
  // A gap after each range, which stays as it was.
  std::vector<uint16_t> got(src.size(), 0xabcd);
  std::vector<uint16_t> want = got;
  const SumKind kind = {.dtype = DType::kBfloat16, .op = ReduceOp::kAvg};
  std::vector<Sum> sums;
  size_t at = 0;
  for (size_t i = 0; i < kRanges; ++i) {
    const size_t elements = i % 8 == 3 ? 0 : i % 5 == 0 ? 64 : i % 83;
    const size_t source = (i * 131) % (src.size() - 100);
    const uint64_t divisor = i % 3 + 1;
    sums.push_back({on_device(got.data() + at),
                    on_device(src.data() + source),
                    on_device(incoming.data() + source + i % 4),
                    elements,
                    divisor});
    REQUIRE(kernels
                .sum(kStream,
                     kind,
                     Sum{on_device(want.data() + at),
                         sums.back().src,
                         sums.back().incoming,
                         elements,
                         divisor})
                .ok());
    at += elements + 1 + i % 3;
  }
  calls.launched.clear();
  REQUIRE(kernels.sum(kStream, kind, sums).ok());
  CHECK(got == want);
  CHECK(calls.launched == std::vector<std::string>(3, "ho_sum_bfloat16"));
  CHECK(calls.grid_y == 5);
  // Each of the last launch's ranges that has elements reads two and writes one.
  size_t with_elements = 0;
  for (size_t i = kRanges - 5; i < kRanges; ++i) {
    with_elements += sums[i].elements > 0 ? 1U : 0U;
  }
  CHECK(calls.touched.size() == 3 * with_elements);
  CHECK(calls.touched.back().item == 4);
}

TEST_CASE("a large array takes no more blocks than the limit") {
  Driver driver = table();
  driver.launch = [](FunctionHandle,
                     unsigned grid_x,
                     unsigned,
                     unsigned,
                     unsigned,
                     unsigned,
                     unsigned,
                     unsigned,
                     StreamHandle,
                     void**,
                     void**) {
    calls.grid_x = grid_x;
    return kSuccess;
  };
  const Kernels kernels = loaded(driver);
  CHECK(kernels.sum(kStream, {}, {.elements = 1ULL << 40}).ok());
  CHECK(calls.grid_x == 16384);
  CHECK(kernels.sum(kStream, {}, {.elements = 1}).ok());
  CHECK(calls.grid_x == 1);
}
