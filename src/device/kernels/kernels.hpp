// What runs on a device: element functions, launched on a stream. Nothing here waits for the device.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "device/driver.hpp"

namespace ho::device {

// Which types a sum reads and writes. Without fp32_sums all are `dtype`.
struct SumKind {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool fp32_sums = false;    // 16-bit data; what is marked below is fp32
  bool src_is_fp32 = false;  // `incoming` never is
  bool dst_is_fp32 = false;
};

// dst = src (op) incoming, for `elements`; then, for a divisor above 1, divided by it. All
// addresses are ones that the device sees: its own memory, or pinned mapped host memory. dst may be
// src. No alignment but the types' own is needed.
struct Sum {
  void* dst = nullptr;
  const void* src = nullptr;
  const void* incoming = nullptr;
  uint64_t elements = 0;
  uint64_t divisor = 1;
};

// One AdamW step on `elements` (decoupled weight decay, arXiv 1711.05101), all state in fp32.
struct AdamW {
  float* master = nullptr;
  float* momentum = nullptr;
  float* variance = nullptr;
  const void* gradient = nullptr;  // of gradient_dtype, multiplied by gradient_scale first
  void* parameter = nullptr;       // of parameter_dtype, written; null: none
  uint64_t elements = 0;
  float gradient_scale = 1;
  float learning_rate = 0;
  float beta_1 = 0;
  float beta_2 = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float correction_1 = 1;  // 1 - beta_1^t
  float correction_2 = 1;  // 1 - beta_2^t
};

// Belongs to one context. Made at set-up: loading a module may wait for the device.
class Kernels {
 public:
  // The context is current. kUnsupported where this build has no kernels.
  [[nodiscard]] static Result<Kernels> load(const Driver& driver);
  Kernels(Kernels&&) noexcept;
  Kernels& operator=(Kernels&&) noexcept;
  ~Kernels();  // the context is current

  // The results are bit for bit those of src/reduce on the host.
  [[nodiscard]] Status sum(StreamHandle, const SumKind& kind, const Sum& sum) const;
  [[nodiscard]] Status premultiply(
      StreamHandle, DType, void* dst, const void* src, uint64_t elements, double factor) const;
};

}  // namespace ho::device
