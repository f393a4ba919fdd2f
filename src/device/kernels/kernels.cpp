#include "device/kernels/kernels.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/names.hpp"
#include "device/kernels/kernel_list.hpp"

namespace ho::device {
namespace {

#define HORING_NAME(name, ...) #name,
constexpr const char* kNames[] = {
    HORING_SUM_KERNELS(HORING_NAME) HORING_PREMULTIPLY_KERNELS(HORING_NAME)
        HORING_CONVERT_KERNELS(HORING_NAME) HORING_ADAMW_KERNELS(HORING_NAME)
            HORING_SGD_KERNELS(HORING_NAME) HORING_NORM_KERNELS(HORING_NAME)
                HORING_SINGLE_KERNELS(HORING_NAME)};
#undef HORING_NAME
static_assert(std::size(kNames) == kKernelCount);

constexpr size_t kNone = kKernelCount;
constexpr size_t index_of(std::string_view name) {
  for (size_t i = 0; i < kKernelCount; ++i) {
    if (name == kNames[i]) {
      return i;
    }
  }
  return kNone;
}

// Kernels by what types are called in their names.
constexpr Names<12> kTypeNames{"int8",
                               "uint8",
                               "int32",
                               "uint32",
                               "int64",
                               "uint64",
                               "float16",
                               "float32",
                               "float64",
                               "bfloat16",
                               "float8_e4m3",
                               "float8_e5m2"};
static_assert(kTypeNames.size() == static_cast<size_t>(DType::kFloat8E5m2) + 1);

// index_of(prefix + the types' names, with _ between).
template <typename... Types>
constexpr size_t kernel_of(std::string_view prefix, Types... types) {
  char name[64] = {};
  size_t length = 0;
  const auto append = [&](std::string_view text) {
    for (const char character : text) {
      name[length++] = character;
    }
  };
  append(prefix);
  ((append("_"), append(name_in(kTypeNames, types, ""))), ...);
  return index_of({name, length});
}

using TypeTable = std::array<size_t, kDTypeCount>;
constexpr TypeTable kernels_by_type(std::string_view prefix) {
  TypeTable table{};
  for (uint8_t type = 0; type < kDTypeCount; ++type) {
    table[type] = kernel_of(prefix, static_cast<DType>(type));
  }
  return table;
}
constexpr TypeTable kSums = kernels_by_type("ho_sum");
constexpr TypeTable kPremultiplies = kernels_by_type("ho_premultiply");
constexpr TypeTable kAdamWs = kernels_by_type("ho_adamw");
constexpr TypeTable kSgds = kernels_by_type("ho_sgd");
constexpr TypeTable kNorms = kernels_by_type("ho_norm");

size_t of_type(const TypeTable& table, DType dtype) {
  return table[static_cast<size_t>(dtype)];
}

// By whether dst and src are fp32.
struct WideSums {
  size_t both;
  size_t dst;
  size_t src;
};
constexpr WideSums wide_sums(DType narrow) {
  constexpr DType kWide = DType::kFloat32;
  return {kernel_of("ho_sum", kWide, kWide, narrow),
          kernel_of("ho_sum", kWide, narrow, narrow),
          kernel_of("ho_sum", narrow, kWide, narrow)};
}
constexpr WideSums kFloat16Sums = wide_sums(DType::kFloat16);
constexpr WideSums kBfloat16Sums = wide_sums(DType::kBfloat16);

constexpr TypeTable converts_to(DType dst) {
  TypeTable table{};
  for (uint8_t type = 0; type < kDTypeCount; ++type) {
    table[type] = kernel_of("ho_convert", dst, static_cast<DType>(type));
  }
  return table;
}
constexpr TypeTable kToFloat32 = converts_to(DType::kFloat32);
constexpr TypeTable kToFloat16 = converts_to(DType::kFloat16);
constexpr TypeTable kToBfloat16 = converts_to(DType::kBfloat16);

bool is_16_bit_float(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

size_t sum_kernel(const SumKind& kind) {
  if (!kind.src_is_fp32 && !kind.dst_is_fp32) {
    return of_type(kSums, kind.dtype);
  }
  const WideSums& sums = kind.dtype == DType::kFloat16 ? kFloat16Sums : kBfloat16Sums;
  if (kind.src_is_fp32 && kind.dst_is_fp32) {
    return sums.both;
  }
  return kind.dst_is_fp32 ? sums.dst : sums.src;
}

Status check(const SumKind& kind) {
  if (!reduction_supported(kind.dtype, kind.op)) {
    return invalid("sum on a device: no " + std::string(to_string(kind.op)) + " of " +
                   std::string(to_string(kind.dtype)));
  }
  if (kind.fp32_sums ? !is_16_bit_float(kind.dtype) : kind.src_is_fp32 || kind.dst_is_fp32) {
    return invalid("sum on a device: fp32 sums are of fp16 and bf16, not of " +
                   std::string(to_string(kind.dtype)));
  }
  return {};
}

// The type has no kernel: "norm on a device: not of int8".
Status no_kernel(std::string_view what, DType dtype) {
  return invalid(std::string(what) + " on a device: not of " + std::string(to_string(dtype)));
}

uint64_t address_of(const void* memory) {
  return reinterpret_cast<uint64_t>(memory);
}

ParameterKind parameter_kind(const Update& update) {
  if (update.parameter == nullptr) {
    return ParameterKind::kNone;
  }
  switch (update.parameter_dtype) {
    case DType::kFloat16:
      return ParameterKind::kFloat16;
    case DType::kBfloat16:
      return ParameterKind::kBfloat16;
    default:
      return ParameterKind::kFloat32;
  }
}

// Enough blocks to fill every device of today many times over, so that the last ones to run leave
// little of it idle; threads of large arrays take several steps.
constexpr uint64_t kMaxBlocks = 16384;

}  // namespace

uint64_t hash_part_count(uint64_t bytes) {
  return hash_tiles(bytes);
}

Result<Kernels> Kernels::load(const Driver& driver) {
  if (driver.kernels.empty()) {
    return Status(StatusCode::kUnsupported,
                  "this build has no kernels for devices, since CUDA's compiler was not found when "
                  "it was made: put nvcc on PATH and build again");
  }
  Kernels kernels(driver);
  if (const DriverResult result = driver.module_load(&kernels.module_, driver.kernels.data());
      result != kSuccess) {
    kernels.module_ = nullptr;
    return driver_error(driver, "cuModuleLoadData", result)
        .with_context("this build's kernels, for compute capability 8.0 and later");
  }
  for (size_t i = 0; i < kKernelCount; ++i) {
    if (const DriverResult result =
            driver.module_function(&kernels.functions_[i], kernels.module_, kNames[i]);
        result != kSuccess) {
      return driver_error(driver, "cuModuleGetFunction", result).with_context(kNames[i]);
    }
  }
  return kernels;
}

Kernels::Kernels(Kernels&& other) noexcept
    : driver_(other.driver_),
      module_(std::exchange(other.module_, nullptr)),
      functions_(other.functions_) {}

Kernels& Kernels::operator=(Kernels&& other) noexcept {
  if (this != &other) {
    unload();
    driver_ = other.driver_;
    module_ = std::exchange(other.module_, nullptr);
    functions_ = other.functions_;
  }
  return *this;
}

Kernels::~Kernels() {
  unload();
}

void Kernels::unload() noexcept {
  if (module_ != nullptr) {
    static_cast<void>(
        driver_->module_unload(module_));  // of a lost context it fails: nothing is left
  }
}

Status Kernels::launch(StreamHandle stream,
                       size_t kernel,
                       const Grid& grid,
                       void* arguments) const {
  const uint64_t blocks = (grid.threads + kThreads - 1) / kThreads;
  void* arguments_of_kernel[] = {arguments};
  const DriverResult result =
      driver_->launch(functions_[kernel],
                      static_cast<unsigned>(std::clamp<uint64_t>(blocks, 1, kMaxBlocks)),
                      grid.rows,
                      1,
                      kThreads,
                      1,
                      1,
                      0,
                      stream,
                      arguments_of_kernel,
                      nullptr);
  return result == kSuccess
             ? Status()
             : driver_error(*driver_, "cuLaunchKernel", result).with_context(kNames[kernel]);
}

namespace {

// Threads for steps of a vector of elements of which the largest has so many bytes.
uint64_t threads_for(uint64_t elements, size_t element_bytes) {
  const auto together = static_cast<uint64_t>(vector_count(element_bytes));
  return elements / together + 1;
}

}  // namespace

Status Kernels::sum(StreamHandle stream, const SumKind& kind, std::span<const Sum> sums) const {
  HORING_TRY(check(kind));
  const bool wide = kind.src_is_fp32 || kind.dst_is_fp32;
  const size_t element_bytes = wide ? sizeof(float) : size_bytes(kind.dtype);
  for (size_t at = 0; at < sums.size(); at += kMaxSummedRanges) {
    const auto part = sums.subspan(at, std::min<size_t>(kMaxSummedRanges, sums.size() - at));
    SumArguments arguments = {};
    arguments.op = static_cast<uint32_t>(kind.op);
    arguments.rounds_before_division = kind.fp32_sums ? 0U : 1U;
    uint64_t largest = 0;
    for (const Sum& sum : part) {
      arguments.range[arguments.count++] = {address_of(sum.dst),
                                            address_of(sum.src),
                                            address_of(sum.incoming),
                                            sum.elements,
                                            sum.divisor};
      largest = std::max(largest, sum.elements);
    }
    if (largest > 0) {
      HORING_TRY(launch(stream,
                        sum_kernel(kind),
                        {threads_for(largest, element_bytes), arguments.count},
                        &arguments));
    }
  }
  return {};
}

Status Kernels::premultiply(StreamHandle stream,
                            DType dtype,
                            void* dst,
                            const void* src,
                            uint64_t elements,
                            double factor) const {
  const size_t kernel = of_type(kPremultiplies, dtype);
  if (kernel == kNone) {
    return no_kernel("premultiply", dtype);
  }
  if (elements == 0) {
    return {};
  }
  PremultiplyArguments arguments = {
      .dst = address_of(dst), .src = address_of(src), .elements = elements, .factor = factor};
  return launch(stream, kernel, {threads_for(elements, size_bytes(dtype))}, &arguments);
}

Status Kernels::convert(StreamHandle stream,
                        DType dst_dtype,
                        void* dst,
                        DType src_dtype,
                        const void* src,
                        uint64_t elements) const {
  size_t kernel = kNone;
  if (dst_dtype == DType::kFloat32) {
    kernel = of_type(kToFloat32, src_dtype);
  } else if (is_16_bit_float(dst_dtype)) {
    kernel = of_type(dst_dtype == DType::kFloat16 ? kToFloat16 : kToBfloat16, src_dtype);
  }
  if (kernel == kNone) {
    return no_kernel("conversion of " + std::string(to_string(src_dtype)) + " to " +
                         std::string(to_string(dst_dtype)),
                     dst_dtype);
  }
  if (elements == 0) {
    return {};
  }
  ConvertArguments arguments = {
      .dst = address_of(dst), .src = address_of(src), .elements = elements};
  const size_t largest = std::max(size_bytes(dst_dtype), size_bytes(src_dtype));
  return launch(stream, kernel, {threads_for(elements, largest)}, &arguments);
}

Status Kernels::copy(StreamHandle stream, std::span<const MemoryCopy> copies) const {
  constexpr size_t kKernel = index_of("ho_copy_ranges");
  for (size_t at = 0; at < copies.size(); at += kMaxCopiedRanges) {
    const auto part = copies.subspan(at, std::min<size_t>(kMaxCopiedRanges, copies.size() - at));
    CopyArguments arguments = {};
    uint64_t largest = 0;
    for (const MemoryCopy& copy : part) {
      arguments.range[arguments.count++] = {address_of(copy.dst), address_of(copy.src), copy.bytes};
      largest = std::max(largest, copy.bytes);
    }
    if (largest > 0) {
      HORING_TRY(launch(stream, kKernel, {threads_for(largest, 1), arguments.count}, &arguments));
    }
  }
  return {};
}

Status Kernels::zero(StreamHandle stream, void* memory, uint64_t bytes) const {
  if (bytes == 0) {
    return {};
  }
  ZeroArguments arguments = {.dst = address_of(memory), .bytes = bytes};
  return launch(stream, index_of("ho_zero"), {threads_for(bytes, 1)}, &arguments);
}

namespace {

Status check(std::string_view rule, const Update& update) {
  if (of_type(kAdamWs, update.gradient_dtype) == kNone) {
    return no_kernel(std::string(rule) + "'s gradient", update.gradient_dtype);
  }
  if (update.parameter != nullptr && of_type(kAdamWs, update.parameter_dtype) == kNone) {
    return no_kernel(std::string(rule) + "'s parameter", update.parameter_dtype);
  }
  return {};
}

UpdateArguments arguments_of(const Update& update) {
  return {.control = address_of(update.control),
          .master = address_of(update.master),
          .gradient = address_of(update.gradient),
          .parameter = address_of(update.parameter),
          .elements = update.elements,
          .parameter_kind = parameter_kind(update)};
}

}  // namespace

Status Kernels::adamw(StreamHandle stream, const Update& update, const AdamW& rule) const {
  HORING_TRY(check("AdamW", update));
  if (update.elements == 0) {
    return {};
  }
  AdamWArguments arguments = {.update = arguments_of(update),
                              .momentum = address_of(rule.momentum),
                              .variance = address_of(rule.variance),
                              .learning_rate = rule.learning_rate,
                              .epsilon = rule.epsilon,
                              .decay = rule.decay,
                              .beta_1 = rule.beta_1,
                              .rest_1 = rule.rest_1,
                              .beta_2 = rule.beta_2,
                              .rest_2 = rule.rest_2};
  return launch(stream,
                of_type(kAdamWs, update.gradient_dtype),
                {threads_for(update.elements, sizeof(float))},
                &arguments);
}

Status Kernels::sgd(StreamHandle stream, const Update& update, const Sgd& rule) const {
  HORING_TRY(check("SGD", update));
  if (update.elements == 0) {
    return {};
  }
  SgdArguments arguments = {.update = arguments_of(update),
                            .velocity = address_of(rule.velocity),
                            .learning_rate = rule.learning_rate,
                            .momentum = rule.momentum,
                            .weight_decay = rule.weight_decay};
  return launch(stream,
                of_type(kSgds, update.gradient_dtype),
                {threads_for(update.elements, sizeof(float))},
                &arguments);
}

// As many whole sections at a time as there is memory for their parts.
Status Kernels::norm(StreamHandle stream, const Norm& norm) const {
  const size_t kernel = of_type(kNorms, norm.dtype);
  if (kernel == kNone) {
    return no_kernel("norm", norm.dtype);
  }
  const uint64_t tiles_at_once = norm.parts.size() / kNormSectionTiles * kNormSectionTiles;
  if (tiles_at_once == 0) {
    return invalid("norm on a device: memory for " + std::to_string(norm.parts.size()) +
                   " parts; it takes " + std::to_string(kMinNormParts) + " at least");
  }
  const uint64_t most = tiles_at_once * kNormTileElements;
  for (uint64_t begin = 0; begin < norm.elements; begin += most) {
    const uint64_t elements = std::min(most, norm.elements - begin);
    const uint64_t tiles = norm_tiles(elements);
    NormArguments arguments = {.values = address_of(norm.values) + begin * size_bytes(norm.dtype),
                               .elements = elements,
                               .parts = address_of(norm.parts.data()),
                               .first_index = norm.first_index + begin,
                               .scale = norm.scale};
    HORING_TRY(launch(stream, kernel, {tiles * kThreads}, &arguments));
    FinishNormArguments finish = {
        .parts = address_of(norm.parts.data()), .count = tiles, .sums = address_of(norm.sums)};
    HORING_TRY(launch(stream, index_of("ho_finish_norm"), {kThreads}, &finish));
  }
  return {};
}

Status Kernels::decide(StreamHandle stream, const StepLimits& limits, StepControl* control) const {
  DecideArguments arguments = {.limits = limits, .control = address_of(control)};
  return launch(stream, index_of("ho_decide"), {1}, &arguments);
}

Status Kernels::hash(StreamHandle stream, const StateHash& hash) const {
  const uint64_t tiles = hash_tiles(hash.bytes);
  if (tiles > 0) {
    HashArguments arguments = {.values = address_of(hash.values),
                               .bytes = hash.bytes,
                               .first_word = hash.first_word,
                               .parts = address_of(hash.parts)};
    HORING_TRY(launch(stream, index_of("ho_hash"), {tiles * kThreads}, &arguments));
  }
  FinishHashArguments finish = {
      .parts = address_of(hash.parts), .count = tiles, .result = address_of(hash.result)};
  return launch(stream, index_of("ho_finish_hash"), {kThreads}, &finish);
}

}  // namespace ho::device
