// The element-wise loops. Each runs over the steps first, first + stride, ...: on a device `first`
// is a thread's number and `stride` their count, on a host 0 and 1. A step is a vector of elements
// where every address is aligned for it, and an element where not, and at the end.
#pragma once

#include <cstdint>

#include "device/kernels/arguments.hpp"
#include "device/kernels/vectors.hpp"

namespace ho::device {

// The bytes of the largest of some codecs' elements.
template <class... Codecs>
HORING_DEVICE constexpr size_t largest_element() {
  size_t largest = 0;
  ((largest =
        largest > sizeof(typename Codecs::Element) ? largest : sizeof(typename Codecs::Element)),
   ...);
  return largest;
}

// operation.at<kCount>(index) for all of `elements`.
template <size_t kCount, class Operation>
HORING_DEVICE inline void each_element(
    uint64_t elements, bool aligned, uint64_t first, uint64_t stride, const Operation& operation) {
  const uint64_t vectors = aligned ? elements / kCount : 0;
  for (uint64_t v = first; v < vectors; v += stride) {
    operation.template at<kCount>(v * kCount);
  }
  for (uint64_t i = vectors * kCount + first; i < elements; i += stride) {
    operation.template at<1>(i);
  }
}

// dst = src (op) incoming, divided.
template <class Dst, class Src, class Incoming>
struct SumLoop {
  using Number = typename Dst::Number;
  const SumArguments& arguments;
  const SummedRange& range;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    Number a[kCount];
    Number b[kCount];
    Number sum[kCount];
    load<Src>(range.src, index, a);
    load<Incoming>(range.incoming, index, b);
    combine(static_cast<ReduceOp>(arguments.op), a, b, sum);
    if (range.divisor > 1) {
      HORING_UNROLL
      for (size_t k = 0; k < kCount; ++k) {
        const Number rounded =
            arguments.rounds_before_division != 0 ? Dst::load(Dst::store(sum[k])) : sum[k];
        sum[k] = divide(rounded, range.divisor);
      }
    }
    store<Dst>(range.dst, index, sum);
  }
};

template <class Dst, class Src, class Incoming>
HORING_DEVICE inline void run_sum(const SumArguments& arguments,
                                  uint32_t which,
                                  uint64_t first,
                                  uint64_t stride) {
  constexpr size_t kCount = vector_count(largest_element<Dst, Src, Incoming>());
  const SummedRange& range = arguments.range[which];
  const bool together = aligned<Dst, kCount>(range.dst) && aligned<Src, kCount>(range.src) &&
                        aligned<Incoming, kCount>(range.incoming);
  each_element<kCount>(
      range.elements, together, first, stride, SumLoop<Dst, Src, Incoming>{arguments, range});
}

template <class Codec>
struct PremultiplyLoop {
  using Number = typename Codec::Number;
  const PremultiplyArguments& arguments;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    const auto factor = static_cast<Number>(arguments.factor);
    Number values[kCount];
    load<Codec>(arguments.src, index, values);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      values[k] = multiply(values[k], factor);
    }
    store<Codec>(arguments.dst, index, values);
  }
};

template <class Codec>
HORING_DEVICE inline void run_premultiply(const PremultiplyArguments& arguments,
                                          uint64_t first,
                                          uint64_t stride) {
  constexpr size_t kCount = vector_count(largest_element<Codec>());
  const bool together =
      aligned<Codec, kCount>(arguments.dst) && aligned<Codec, kCount>(arguments.src);
  each_element<kCount>(
      arguments.elements, together, first, stride, PremultiplyLoop<Codec>{arguments});
}

// Through fp32: both are codecs of it.
template <class Dst, class Src>
struct ConvertLoop {
  const ConvertArguments& arguments;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    float values[kCount];
    load<Src>(arguments.src, index, values);
    store<Dst>(arguments.dst, index, values);
  }
};

template <class Dst, class Src>
HORING_DEVICE inline void run_convert(const ConvertArguments& arguments,
                                      uint64_t first,
                                      uint64_t stride) {
  constexpr size_t kCount = vector_count(largest_element<Dst, Src>());
  const bool together = aligned<Dst, kCount>(arguments.dst) && aligned<Src, kCount>(arguments.src);
  each_element<kCount>(
      arguments.elements, together, first, stride, ConvertLoop<Dst, Src>{arguments});
}

struct CopyLoop {
  const CopiedRange& range;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    if constexpr (kCount == 1) {
      *memory_at<uint8_t>(range.dst + index) = *memory_at<const uint8_t>(range.src + index);
    } else {
      write_words(range.dst + index, read_words<kCount>(range.src + index));
    }
  }
};

// In the largest words that both addresses are aligned for.
HORING_DEVICE inline void run_copy(const CopiedRange& range, uint64_t first, uint64_t stride) {
  const uint64_t both = range.dst | range.src;
  if (both % kVectorBytes == 0) {
    each_element<kVectorBytes>(range.bytes, true, first, stride, CopyLoop{range});
  } else {
    each_element<4>(range.bytes, both % 4 == 0, first, stride, CopyLoop{range});
  }
}

struct ZeroLoop {
  uint64_t dst;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    if constexpr (kCount == 1) {
      *memory_at<uint8_t>(dst + index) = 0;
    } else {
      write_words(dst + index, Words<kCount>{});
    }
  }
};

HORING_DEVICE inline void run_zero(const ZeroArguments& range, uint64_t first, uint64_t stride) {
  if (range.dst % kVectorBytes == 0) {
    each_element<kVectorBytes>(range.bytes, true, first, stride, ZeroLoop{range.dst});
  } else {
    each_element<4>(range.bytes, range.dst % 4 == 0, first, stride, ZeroLoop{range.dst});
  }
}

HORING_DEVICE inline float square_root(float value) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(value);
#else
  return __builtin_sqrtf(value);
#endif
}

template <size_t kCount>
HORING_DEVICE inline void write_parameter(const UpdateArguments& update,
                                          uint64_t index,
                                          const float (&master)[kCount]) {
  if (update.parameter_kind == ParameterKind::kFloat32) {
    store<Float32>(update.parameter, index, master);
  }
  if (update.parameter_kind == ParameterKind::kFloat16) {
    store<Float16>(update.parameter, index, master);
  }
  if (update.parameter_kind == ParameterKind::kBfloat16) {
    store<Bfloat16>(update.parameter, index, master);
  }
}

// The arithmetic of runtime/optim's AdamW, in its order.
template <class Gradient>
struct AdamWLoop {
  const AdamWArguments& arguments;
  float gradient_scale;
  float step_size;
  float epsilon;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    float master[kCount];
    float momentum[kCount];
    float variance[kCount];
    float gradient[kCount];
    load<Float32>(arguments.update.master, index, master);
    load<Float32>(arguments.momentum, index, momentum);
    load<Float32>(arguments.variance, index, variance);
    load<Gradient>(arguments.update.gradient, index, gradient);
    // All square roots, then what is done already is stored, then all divisions: in another order
    // nvcc runs out of registers for sm_100.
    float below[kCount];
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      const float g = gradient[k] * gradient_scale;
      momentum[k] = arguments.beta_1 * momentum[k] + arguments.rest_1 * g;
      variance[k] = arguments.beta_2 * variance[k] + arguments.rest_2 * (g * g);
      below[k] = square_root(variance[k]) + epsilon;
    }
    store<Float32>(arguments.momentum, index, momentum);
    store<Float32>(arguments.variance, index, variance);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      const float change = step_size * momentum[k] / below[k];
      master[k] = arguments.decay * master[k] - change;
    }
    store<Float32>(arguments.update.master, index, master);
    write_parameter(arguments.update, index, master);
  }
};

template <class Gradient>
HORING_DEVICE inline void run_adamw(const AdamWArguments& arguments,
                                    uint64_t first,
                                    uint64_t stride) {
  constexpr size_t kCount = vector_count(largest_element<Float32>());
  const UpdateArguments& update = arguments.update;
  const StepControl& control = *memory_at<const StepControl>(update.control);
  if (control.left_out != 0) {
    return;
  }
  const AdamWLoop<Gradient> loop{arguments,
                                 static_cast<float>(control.factor),
                                 corrected_rate(arguments.learning_rate, control.corrections),
                                 corrected_epsilon(arguments.epsilon, control.corrections)};
  const uint64_t all =
      update.master | arguments.momentum | arguments.variance | update.gradient | update.parameter;
  each_element<kCount>(update.elements, all % kVectorBytes == 0, first, stride, loop);
}

// The same of its SGD.
template <class Gradient>
struct SgdLoop {
  const SgdArguments& arguments;
  float gradient_scale;

  template <size_t kCount>
  HORING_DEVICE void at(uint64_t index) const {
    float master[kCount];
    float velocity[kCount];
    load<Float32>(arguments.update.master, index, master);
    load<Gradient>(arguments.update.gradient, index, velocity);
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      velocity[k] = velocity[k] * gradient_scale + arguments.weight_decay * master[k];
    }
    if (arguments.velocity != 0) {
      float before[kCount];
      load<Float32>(arguments.velocity, index, before);
      HORING_UNROLL
      for (size_t k = 0; k < kCount; ++k) {
        velocity[k] = arguments.momentum * before[k] + velocity[k];
      }
      store<Float32>(arguments.velocity, index, velocity);
    }
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      master[k] = master[k] - arguments.learning_rate * velocity[k];
    }
    store<Float32>(arguments.update.master, index, master);
    write_parameter(arguments.update, index, master);
  }
};

template <class Gradient>
HORING_DEVICE inline void run_sgd(const SgdArguments& arguments, uint64_t first, uint64_t stride) {
  constexpr size_t kCount = vector_count(largest_element<Float32>());
  const UpdateArguments& update = arguments.update;
  const StepControl& control = *memory_at<const StepControl>(update.control);
  if (control.left_out != 0) {
    return;
  }
  const uint64_t all = update.master | arguments.velocity | update.gradient | update.parameter;
  each_element<kCount>(update.elements,
                       all % kVectorBytes == 0,
                       first,
                       stride,
                       SgdLoop<Gradient>{arguments, static_cast<float>(control.factor)});
}

}  // namespace ho::device
