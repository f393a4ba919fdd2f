// What runs on a device: element functions, launched on a stream. Nothing here waits for the
// device. Where nothing else is said, an array needs no alignment but its type's own, is fastest at
// multiples of 16 bytes, and lies in memory that the device sees: its own, or pinned and mapped.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "device/driver.hpp"
#include "device/kernels/arguments.hpp"

namespace ho::device {

// Which types a sum reads and writes. Without fp32_sums all are `dtype`.
struct SumKind {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool fp32_sums = false;    // 16-bit data; what is marked below is fp32
  bool src_is_fp32 = false;  // `incoming` never is
  bool dst_is_fp32 = false;
  [[nodiscard]] bool operator==(const SumKind&) const = default;
};

// A range of a sum: dst = src (op) incoming, for `elements`; then, for a divisor above 1, divided
// by it. dst may be src, or incoming, where they are of one type; otherwise they must not overlap.
struct Sum {
  void* dst = nullptr;
  const void* src = nullptr;
  const void* incoming = nullptr;
  uint64_t elements = 0;
  uint64_t divisor = 1;
};

// What all rules read and write: `elements` of each array; masters and the rule's own in fp32.
struct Update {
  // Says by what to multiply gradients, which step it is, and whether anything is done at all. Read
  // by the device.
  const StepControl* control = nullptr;
  float* master = nullptr;
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kFloat32;  // or fp16, bf16
  void* parameter = nullptr;               // the master rounded, written; null: none
  DType parameter_dtype = DType::kFloat32;
  uint64_t elements = 0;
};

// The arithmetic and its constants are those of runtime/optim (factors.hpp), to the bit: with
// g = gradient times the control's factor,
//   m = beta_1 m + rest_1 g        v = beta_2 v + rest_2 (g g)
//   master = decay master - step_size m / (sqrt(v) + epsilon)
struct AdamW {
  float* momentum = nullptr;  // m
  float* variance = nullptr;  // v
  double learning_rate = 0;   // step_size and epsilon: these, corrected by the control
  double epsilon = 0;
  float decay = 1;
  float beta_1 = 0;
  float rest_1 = 1;
  float beta_2 = 0;
  float rest_2 = 1;
};

//   v = momentum v + (g + weight_decay master)        master = master - learning_rate v
struct Sgd {
  float* velocity = nullptr;  // v; null: no momentum
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
};

// Adds what scale times the values (the product rounded to fp32) sum up to. The order is
// step_arithmetic.hpp's.
struct Norm {
  const void* values = nullptr;
  DType dtype = DType::kFloat32;  // or fp16, bf16
  uint64_t elements = 0;
  uint64_t first_index = 0;  // what the first value counts as, for what is not finite
  float scale = 1;
  // Of the device: kMinNormParts at least; may hold anything.
  std::span<GradientSums> parts = {};
  GradientSums* sums = nullptr;
};
inline constexpr size_t kMinNormParts = kNormSectionTiles;

// A hash of words at their places: those of parts of an array, each with its first_word, add up
// (modulo 2^64) to that of the whole. It detects a difference, not malice.
struct StateHash {
  const void* values = nullptr;
  uint64_t bytes = 0;
  uint64_t first_word = 0;
  uint64_t* parts = nullptr;  // memory for hash_part_count(bytes); may hold anything
  uint64_t* result = nullptr;
};
[[nodiscard]] uint64_t hash_part_count(uint64_t bytes);

struct MemoryCopy {
  void* dst = nullptr;
  const void* src = nullptr;
  uint64_t bytes = 0;
};

inline constexpr size_t kKernelCount = 43;

// Belongs to one context. Made at set-up: loading a module may wait for the device.
class Kernels {
 public:
  // The context is current. kUnsupported where this build has no kernels.
  [[nodiscard]] static Result<Kernels> load(const Driver& driver);
  Kernels(Kernels&& other) noexcept;
  Kernels& operator=(Kernels&& other) noexcept;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels();  // the context is current
  // Of a device that is left behind: they are not unloaded.
  void leave() { module_ = nullptr; }

  // The results are bit for bit those of src/reduce on the host (on x86; of two NaN the first one's
  // payload).
  // Many ranges by one launch (or a few). No range may write what another touches.
  [[nodiscard]] Status sum(StreamHandle stream,
                           const SumKind& kind,
                           std::span<const Sum> sums) const;
  [[nodiscard]] Status sum(StreamHandle stream, const SumKind& kind, const Sum& one) const {
    return sum(stream, kind, std::span(&one, 1));
  }
  [[nodiscard]] Status premultiply(StreamHandle stream,
                                   DType dtype,
                                   void* dst,
                                   const void* src,
                                   uint64_t elements,
                                   double factor) const;
  // Between fp32, fp16 and bf16, rounded to nearest even. dst and src must not overlap: unlike the
  // host's narrow(), this has no order of elements.
  [[nodiscard]] Status convert(StreamHandle stream,
                               DType dst_dtype,
                               void* dst,
                               DType src_dtype,
                               const void* src,
                               uint64_t elements) const;
  // Many copies by one launch (or a few): packs and unpacks. No two may overlap.
  [[nodiscard]] Status copy(StreamHandle stream, std::span<const MemoryCopy> copies) const;
  [[nodiscard]] Status zero(StreamHandle stream, void* memory, uint64_t bytes) const;
  [[nodiscard]] Status adamw(StreamHandle stream, const Update& update, const AdamW& rule) const;
  [[nodiscard]] Status sgd(StreamHandle stream, const Update& update, const Sgd& rule) const;
  [[nodiscard]] Status norm(StreamHandle stream, const Norm& norm) const;
  // Of a step: what its sums decide, from now on for what follows on the stream.
  [[nodiscard]] Status decide(StreamHandle stream,
                              const StepLimits& limits,
                              StepControl* control) const;
  [[nodiscard]] Status hash(StreamHandle stream, const StateHash& hash) const;

 private:
  explicit Kernels(const Driver& driver) : driver_(&driver) {}
  void unload() noexcept;
  struct Grid {
    uint64_t threads = 0;  // that have something to do
    unsigned rows = 1;
  };
  [[nodiscard]] Status launch(StreamHandle stream,
                              size_t kernel,
                              const Grid& grid,
                              void* arguments) const;

  const Driver* driver_;
  ModuleHandle module_ = nullptr;
  std::array<FunctionHandle, kKernelCount> functions_{};
};

}  // namespace ho::device
