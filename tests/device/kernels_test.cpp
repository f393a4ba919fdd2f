// The kernels on a real GPU: every result is compared with the host's, bit for bit, and the large
// ones are timed beside a plain copy. Exits with 77 and one line where there is no GPU.
//
// usage: device_kernels [--compare]   --compare: nothing is timed, as under compute-sanitizer
//
// The driver's table is used with two calls of our own in it: one remembers which function has
// which name, the other runs each kernel on the host too, on a copy of the device's memory. So
// whatever is launched, both memories must be the same afterwards.
#include "device/kernels/kernels.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_kernels_on_host.hpp"
#include "device/address.hpp"
#include "device/kernels/image.hpp"

namespace {

using namespace ho::device;  // NOLINT(google-build-using-namespace): all of it is tested
using ho::DType;
using ho::ReduceOp;
using ho::Status;
using ho::test::HostKernel;

constexpr int kSkipped = 77;

// One piece of device memory and the host's copy of it.
struct Memories {
  const Driver* driver = nullptr;
  StreamHandle stream = nullptr;
  DeviceAddress device = 0;
  std::vector<std::byte> host;
  std::map<FunctionHandle, const HostKernel*> kernels;
  bool compares = true;  // false while time is measured
};
Memories
    memories;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): calls have no context

DriverResult find_function(FunctionHandle* function, ModuleHandle module, const char* name) {
  const DriverResult result = memories.driver->module_function(function, module, name);
  if (result == kSuccess) {
    memories.kernels[*function] = ho::test::find_host_kernel(name);
  }
  return result;
}

DriverResult launch_on_both(FunctionHandle function,
                            unsigned grid_x,
                            unsigned grid_y,
                            unsigned grid_z,
                            unsigned block_x,
                            unsigned block_y,
                            unsigned block_z,
                            unsigned shared_bytes,
                            StreamHandle stream,
                            void** arguments,
                            void** extra) {
  if (memories.compares) {
    memories.kernels.at(function)->run(arguments, [](uint64_t address) -> void* {
      return memories.host.data() + (address - memories.device);
    });
  }
  return memories.driver->launch(function,
                                 grid_x,
                                 grid_y,
                                 grid_z,
                                 block_x,
                                 block_y,
                                 block_z,
                                 shared_bytes,
                                 stream,
                                 arguments,
                                 extra);
}

int failures = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): of the program

void expect(bool right, const std::string& what) {
  if (!right) {
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
  }
}
void expect(const Status& status, const std::string& what) {
  expect(status.ok(), what + ": " + status.to_string());
}

DeviceAddress address_of(const void* host) {
  return reinterpret_cast<DeviceAddress>(host);
}

// Both memories get the same words.
void fill(const std::function<uint32_t(size_t word)>& word_at) {
  for (size_t at = 0; at + 4 <= memories.host.size(); at += 4) {
    const uint32_t word = word_at(at / 4);
    std::memcpy(memories.host.data() + at, &word, 4);
  }
  const Driver& driver = *memories.driver;
  expect(driver.copy_async(memories.device,
                           address_of(memories.host.data()),
                           memories.host.size(),
                           memories.stream) == kSuccess,
         "copy to the device");
  expect(driver.stream_synchronize(memories.stream) == kSuccess, "copy to the device");
}

void compare(const std::string& what) {
  std::vector<std::byte> device(memories.host.size());
  const Driver& driver = *memories.driver;
  expect(
      driver.copy_async(
          address_of(device.data()), memories.device, device.size(), memories.stream) == kSuccess,
      what + ": copy to the host");
  expect(driver.stream_synchronize(memories.stream) == kSuccess, what + ": the kernel");
  if (std::memcmp(device.data(), memories.host.data(), device.size()) == 0) {
    return;
  }
  size_t at = 0;
  while (device[at] == memories.host[at]) {
    ++at;
  }
  expect(false, what + ": differs from the host's from byte " + std::to_string(at) + " on");
}

// Memory is cut into places of this size; arrays begin there, or `shift` bytes further.
constexpr size_t kSlotBytes = size_t{2} << 20;
constexpr size_t kSlots = 6;
constexpr uint64_t kElements = 200'003;

template <typename T = void>
T* slot(size_t index, size_t shift = 0) {
  return static_cast<T*>(pointer_to(memories.device + index * kSlotBytes + shift));
}

// Half random, half every 16-bit pattern in turn.
uint32_t any_word(size_t word) {
  static std::mt19937_64 random(1);
  const auto pattern = static_cast<uint32_t>(word & 0xffff);
  const auto bits = static_cast<uint32_t>(random());
  return word % 2 == 0 ? bits : pattern << 16 | (bits & 0xffff);
}

void compare_sums(const Kernels& kernels) {
  for (uint8_t type = 0; type < ho::kDTypeCount; ++type) {
    for (uint8_t op = 0; op < ho::kReduceOpCount; ++op) {
      SumKind kind = {.dtype = static_cast<DType>(type), .op = static_cast<ReduceOp>(op)};
      if (!ho::reduction_supported(kind.dtype, kind.op)) {
        continue;
      }
      const size_t bytes = ho::size_bytes(kind.dtype);
      const bool narrow = kind.dtype == DType::kFloat16 || kind.dtype == DType::kBfloat16;
      for (int form = 0; form < (narrow ? 5 : 1); ++form) {
        kind.fp32_sums = form > 0;
        kind.src_is_fp32 = form == 2 || form == 4;
        kind.dst_is_fp32 = form >= 3;
        for (const size_t shift : {size_t{0}, bytes}) {
          const Sum sum = {.dst = slot(0, kind.dst_is_fp32 ? 0 : shift),
                           .src = slot(1),
                           .incoming = slot(2),
                           .elements = kElements,
                           .divisor = kind.op == ReduceOp::kAvg ? 3U : 1U};
          const std::string what = "sum of " + std::string(ho::to_string(kind.dtype)) + ", " +
                                   std::string(ho::to_string(kind.op)) + ", form " +
                                   std::to_string(form);
          expect(kernels.sum(memories.stream, kind, sum), what);
          compare(what);
        }
      }
    }
  }
}

// Many ranges in one launch, one of them empty.
void compare_sums_of_ranges(const Kernels& kernels) {
  const SumKind kind = {.dtype = DType::kBfloat16, .op = ReduceOp::kAvg};
  std::vector<Sum> sums;
  constexpr size_t kRange = 300;  // elements
  for (size_t i = 0; i < 2 * kMaxSummedRanges + 3; ++i) {
    const size_t at = 2 * (kRange + 2) * i;  // no range reaches the next one, shifted or not
    sums.push_back({.dst = slot(0, at + 2 * (i % 3)),
                    .src = slot(1, at),
                    .incoming = slot(2, at),
                    .elements = i % 7 == 2 ? 0 : kRange - 2 * (i % 40),
                    .divisor = i % 2 + 1});
  }
  expect(kernels.sum(memories.stream, kind, sums), "sums of many ranges");
  compare("sums of many ranges");
}

void compare_conversions(const Kernels& kernels) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  for (const DType to : kTypes) {
    for (const DType from : kTypes) {
      if (to != from) {
        const std::string what = "conversion of " + std::string(ho::to_string(from)) + " to " +
                                 std::string(ho::to_string(to));
        expect(kernels.convert(memories.stream, to, slot(0), from, slot(1), kElements), what);
        compare(what);
      }
    }
  }
  for (const DType dtype : {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBfloat16}) {
    const std::string what = "premultiplied " + std::string(ho::to_string(dtype));
    expect(kernels.premultiply(memories.stream, dtype, slot(0), slot(1), kElements, 1.0 / 3), what);
    compare(what);
  }
  const MemoryCopy copies[] = {
      {slot(0), slot(1), 70'001}, {slot(2, 4), slot(3, 8), 50'000}, {slot(4, 1), slot(5), 333}};
  expect(kernels.copy(memories.stream, copies), "copies");
  compare("copies");
}

void compare_reductions(const Kernels& kernels) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (const uint64_t elements : {kElements, uint64_t{5}, uint64_t{70'001}}) {
      const std::string what = "norm of " + std::string(ho::to_string(dtype));
      expect(kernels.norm(memories.stream,
                          {.values = slot(1),
                           .dtype = dtype,
                           .elements = elements,
                           .first_index = 99,
                           .scale = 0x1p-70F,
                           .parts = {slot<GradientSums>(2, alignof(GradientSums)), kMinNormParts},
                           .sums = slot<GradientSums>(3)}),
             what);
      compare(what);
    }
  }
  // More than the parts are enough for at once, so two launches of each kernel.
  constexpr uint64_t kMany = 3'000'000;
  static_assert(kMany > kMinNormParts * kNormTileElements && kMany * 2 <= 3 * kSlotBytes);
  expect(kernels.norm(memories.stream,
                      {.values = slot(0),
                       .dtype = DType::kBfloat16,
                       .elements = kMany,
                       .first_index = 99,
                       .scale = 0x1p-70F,
                       .parts = {slot<GradientSums>(3), kMinNormParts},
                       .sums = slot<GradientSums>(4)}),
         "norm of several launches");
  compare("norm of several launches");
  for (const size_t shift : {0U, 4U, 2U, 1U}) {
    const std::string what = "hash from byte " + std::to_string(shift) + " on";
    expect(kernels.hash(memories.stream,
                        {.values = slot(1, shift),
                         .bytes = 4 * kElements + 3,
                         .first_word = 99,
                         .parts = slot<uint64_t>(2),
                         .result = slot<uint64_t>(3)}),
           what);
    compare(what);
    expect(kernels.zero(memories.stream, slot(4, shift), 70'001), "zeros");
    compare("zeros");
  }
}

// In the last slot: a step that is taken.
StepControl* control() {
  return slot<StepControl>(5);
}
Update update_of(uint64_t elements) {
  return {.control = control(),
          .master = slot<float>(0),
          .gradient = slot(3),
          .parameter = slot(4),
          .elements = elements};
}
AdamW adamw_rule() {
  return {.momentum = slot<float>(1),
          .variance = slot<float>(2),
          .learning_rate = 0.001,
          .epsilon = 1e-8,
          .decay = 0.9999F,
          .beta_1 = 0.9F,
          .rest_1 = 0.1F,
          .beta_2 = 0.999F,
          .rest_2 = 0.001F};
}

// The control is decided upon on both.
void compare_decision(const Kernels& kernels) {
  expect(kernels.zero(memories.stream, control(), sizeof(StepControl)), "a control");
  for (int step = 0; step < 100; ++step) {
    expect(kernels.decide(memories.stream, {0.25, 1, 0.9, 0.999}, control()), "a decision");
    compare("the decision on step " + std::to_string(step));
  }
}

// Of numbers alone: what a step makes of a NaN is a NaN, which one is not said.
void compare_updates(const Kernels& kernels) {
  fill([](size_t word) {
    const bool variance = word * 4 / kSlotBytes == 2;
    return any_word(word) & (variance ? 0x3fffffffU : 0xbfffbfffU);
  });
  compare_decision(kernels);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  for (const DType gradient : kTypes) {
    for (const DType parameter : kTypes) {
      Update update = update_of(kElements);
      update.gradient_dtype = gradient;
      update.parameter_dtype = parameter;
      const std::string what = ", gradient " + std::string(ho::to_string(gradient)) +
                               ", parameter " + std::string(ho::to_string(parameter));
      expect(kernels.adamw(memories.stream, update, adamw_rule()), "AdamW" + what);
      compare("AdamW" + what);
      for (float* const velocity : {static_cast<float*>(nullptr), slot<float>(1)}) {
        expect(kernels.sgd(memories.stream, update, {velocity, 1e-3F, 0.9F, 0.01F}), "SGD" + what);
        compare("SGD" + what);
      }
    }
  }
}

// Bytes per nanosecond, the best of some rounds of many launches.
double rate(double bytes, const std::function<bool()>& start) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    constexpr int kLaunches = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) {
      expect(start(), "a timed launch");
    }
    expect(memories.driver->stream_synchronize(memories.stream) == kSuccess, "timed launches");
    const std::chrono::duration<double, std::nano> passed =
        std::chrono::steady_clock::now() - begin;
    best = std::max(best, kLaunches * bytes / passed.count());
  }
  return best;
}

void measure(const Kernels& kernels, DeviceAddress memory, size_t array_bytes) {
  const auto at = [&](size_t i) {
    return static_cast<float*>(pointer_to(memory + i * array_bytes));
  };
  const uint64_t elements = array_bytes / sizeof(float) - 16384;
  const auto each = static_cast<double>(elements);
  // Numbers: what is not finite takes a norm longer.
  expect(kernels.zero(memories.stream, at(0), 5 * array_bytes), "zeros to measure with");
  const double copy = rate(2 * 4 * each, [&] {
    return memories.driver->copy_async(
               address_of(at(0)), address_of(at(1)), elements * 4, memories.stream) == kSuccess;
  });
  std::printf("copy: %.0f GB/s\n", copy);
  const auto print = [&](const char* what, double measured, double target) {
    std::printf(
        "%s: %.0f GB/s, %.2f of copy; target %.2f\n", what, measured, measured / copy, target);
  };
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    const auto bytes = static_cast<double>(ho::size_bytes(dtype));
    const double add = rate(3 * bytes * each, [&] {
      return kernels
          .sum(memories.stream,
               {.dtype = dtype},
               {.dst = at(0), .src = at(1), .incoming = at(2), .elements = elements})
          .ok();
    });
    print(("add " + std::string(ho::to_string(dtype))).c_str(), add, 0.90);
  }
  Update update = update_of(elements);
  update.master = at(0);
  update.gradient = at(3);
  update.gradient_dtype = DType::kBfloat16;
  update.parameter = at(4);
  update.parameter_dtype = DType::kBfloat16;
  AdamW rule = adamw_rule();
  rule.momentum = at(1);
  rule.variance = at(2);
  print("AdamW",
        rate(28 * each, [&] { return kernels.adamw(memories.stream, update, rule).ok(); }),
        0.85);
  print("SGD with momentum",
        rate(20 * each,
             [&] {
               return kernels.sgd(memories.stream, update, {at(1), 1e-3F, 0.9F, 0.01F}).ok();
             }),
        0.85);
  const Norm norm = {.values = at(1),
                     .elements = elements,
                     .parts = {reinterpret_cast<GradientSums*>(at(3)), 8192},
                     .sums = reinterpret_cast<GradientSums*>(at(4))};
  print("norm", rate(4 * each, [&] { return kernels.norm(memories.stream, norm).ok(); }), 0.85);
}

void compare_all(const Kernels& kernels) {
  fill(any_word);
  compare_sums(kernels);
  fill(any_word);
  compare_sums_of_ranges(kernels);
  compare_conversions(kernels);
  compare_reductions(kernels);
  compare_updates(kernels);
}

int run(const Driver& driver, bool timed) {
  Driver both = driver;
  both.kernels = driver.kernels.empty() ? embedded_kernels() : driver.kernels;
  both.module_function = find_function;
  both.launch = launch_on_both;
  memories.driver = &driver;
  memories.host.resize(kSlots * kSlotBytes);
  auto kernels = Kernels::load(both);
  if (!kernels.ok()) {
    std::printf("kernels: %s\n", kernels.status().to_string().c_str());
    return kernels.status().code() == ho::StatusCode::kUnsupported ? kSkipped : 1;
  }
  constexpr size_t kArrayBytes = size_t{256} << 20;
  DeviceAddress large = 0;
  if (driver.stream_create(&memories.stream, kStreamNonBlocking, 0) != kSuccess ||
      driver.memory_allocate(&memories.device, memories.host.size()) != kSuccess ||
      (timed && driver.memory_allocate(&large, 5 * kArrayBytes) != kSuccess)) {
    std::printf("kernels: the GPU has no memory free\n");
    return 1;
  }
  compare_all(*kernels);
  if (timed) {
    memories.compares = false;
    measure(*kernels, large, kArrayBytes);
    expect(driver.memory_free(large) == kSuccess, "free");
  }
  expect(driver.memory_free(memories.device) == kSuccess, "free");
  expect(driver.stream_destroy(memories.stream) == kSuccess, "destroy the stream");
  std::printf("kernels: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool timed = argc == 1;
  if (!timed && (argc != 2 || std::string_view(argv[1]) != "--compare")) {
    std::fprintf(stderr, "usage: device_kernels [--compare]\n");
    return 2;
  }
  const auto driver = ho::device::driver();
  int count = 0;
  if (!driver.ok()) {
    std::printf("skipped: %s\n", driver.status().to_string().c_str());
    return kSkipped;
  }
  if ((*driver)->init(0) != kSuccess || (*driver)->device_count(&count) != kSuccess || count == 0) {
    std::printf("skipped: there is no GPU\n");
    return kSkipped;
  }
  Ordinal device = 0;
  ContextHandle context = nullptr;
  if ((*driver)->device_get(&device, 0) != kSuccess ||
      (*driver)->primary_context_retain(&context, device) != kSuccess ||
      (*driver)->context_push(context) != kSuccess) {
    std::printf("kernels: the GPU's context cannot be used\n");
    return 1;
  }
  const int result = run(**driver, timed);
  if ((*driver)->primary_context_release(device) != kSuccess) {
    return 1;
  }
  return result;
}
