// Element-wise kernels. One loop shape serves everything: load a vector from each source through
// its codec, apply the operation, store through the destination's codec. The last, partial vector
// goes through a small buffer on the stack, so that no element outside the ranges is touched and
// every element sees the same instructions wherever the range happens to end.
//
// This file is compiled once per instruction set (foreach_target.h includes it again); the best one
// the processor has is chosen at the first call.
#include "reduce/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce/reduce.cpp"  // NOLINT(bugprone-macro-parentheses): a file name
#include <hwy/foreach_target.h>
// After foreach_target.h, which decides for which instruction set these are compiled.
#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce/codecs_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ho::HWY_NAMESPACE {

#define HORING_BINARY_OP(name, function)  \
  struct name {                           \
    template <class V>                    \
    static HWY_INLINE V apply(V a, V b) { \
      return hn::function(a, b);          \
    }                                     \
  }
HORING_BINARY_OP(SumOp, Add);
HORING_BINARY_OP(ProdOp, Mul);
HORING_BINARY_OP(MaxOp, Max);
HORING_BINARY_OP(MinOp, Min);
HORING_BINARY_OP(BandOp, And);
HORING_BINARY_OP(BorOp, Or);
HORING_BINARY_OP(BxorOp, Xor);
#undef HORING_BINARY_OP

// The processor's max and min drop a NaN on one side; a sum keeps it on either.
template <class Op>
struct KeepNan {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const auto nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
    return hn::IfThenElse(nan, hn::Add(a, b), Op::apply(a, b));
  }
};

template <class Out, class A, class B, class Op>
void binary_loop(void* dst, const void* a, const void* b, size_t count) {
  const typename Out::Tag tag;
  const size_t width = hn::Lanes(tag);
  auto* out = static_cast<typename Out::Element*>(dst);
  const auto* left = static_cast<const typename A::Element*>(a);
  const auto* right = static_cast<const typename B::Element*>(b);
  size_t i = 0;
  for (; i + width <= count; i += width) {
    Out::store(Op::apply(A::load(left + i), B::load(right + i)), out + i);
  }
  const size_t rest = count - i;
  if (rest == 0) {
    return;
  }
  constexpr size_t kMaxWidth = hn::MaxLanes(typename Out::Tag());
  typename A::Element left_part[kMaxWidth] = {};
  typename B::Element right_part[kMaxWidth] = {};
  typename Out::Element out_part[kMaxWidth];
  std::memcpy(left_part, left + i, rest * sizeof(left_part[0]));
  std::memcpy(right_part, right + i, rest * sizeof(right_part[0]));
  Out::store(Op::apply(A::load(left_part), B::load(right_part)), out_part);
  std::memcpy(out + i, out_part, rest * sizeof(out_part[0]));
}

struct Same {
  template <class V>
  static HWY_INLINE V apply(V value) {
    return value;
  }
};
template <class Codec>
struct DivideBy {
  hn::TFromD<typename Codec::Tag> divisor;
  HWY_INLINE typename Codec::V apply(typename Codec::V value) const {
    return hn::Div(value, hn::Set(typename Codec::Tag(), divisor));
  }
};
template <class Codec>
struct MultiplyBy {
  hn::TFromD<typename Codec::Tag> factor;
  HWY_INLINE typename Codec::V apply(typename Codec::V value) const {
    return hn::Mul(value, hn::Set(typename Codec::Tag(), factor));
  }
};

// dst may be src.
template <class Out, class In, class Op>
void unary_loop(void* dst, const void* src, size_t count, const Op& op) {
  const typename Out::Tag tag;
  const size_t width = hn::Lanes(tag);
  auto* out = static_cast<typename Out::Element*>(dst);
  const auto* from = static_cast<const typename In::Element*>(src);
  size_t i = 0;
  for (; i + width <= count; i += width) {
    Out::store(op.apply(In::load(from + i)), out + i);
  }
  const size_t rest = count - i;
  if (rest == 0) {
    return;
  }
  constexpr size_t kMaxWidth = hn::MaxLanes(typename Out::Tag());
  typename In::Element in_part[kMaxWidth] = {};
  typename Out::Element out_part[kMaxWidth];
  std::memcpy(in_part, from + i, rest * sizeof(in_part[0]));
  Out::store(op.apply(In::load(in_part)), out_part);
  std::memcpy(out + i, out_part, rest * sizeof(out_part[0]));
}

// On magnitudes, so that neither the most negative number nor a divisor past the type's range
// needs a case of its own.
template <typename T>
void divide_integers(void* data, size_t count, uint64_t divisor) {
  auto* at = static_cast<std::byte*>(data);
  for (size_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    const bool negative = value < T{0};
    const auto wide = static_cast<uint64_t>(
        static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
    const uint64_t quotient = (negative ? uint64_t{0} - wide : wide) / divisor;
    value = static_cast<T>(negative ? uint64_t{0} - quotient : quotient);
    std::memcpy(at, &value, sizeof(T));
  }
}

template <class Out, class A, class B>
void reduce_floats(ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      return binary_loop<Out, A, B, SumOp>(dst, a, b, count);
    case ReduceOp::kProd:
      return binary_loop<Out, A, B, ProdOp>(dst, a, b, count);
    case ReduceOp::kMax:
      return binary_loop<Out, A, B, KeepNan<MaxOp>>(dst, a, b, count);
    case ReduceOp::kMin:
      return binary_loop<Out, A, B, KeepNan<MinOp>>(dst, a, b, count);
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return;  // not supported
  }
}

// Sums and products wrap and are the same for both signednesses; they run on the unsigned type.
template <typename T>
void reduce_integers(ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  using U = Plain<std::make_unsigned_t<T>>;
  using P = Plain<T>;
  using M = std::conditional_t<sizeof(T) == 1, ByteAsWord, U>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return binary_loop<U, U, U, SumOp>(dst, a, b, count);
    case ReduceOp::kProd:
      return binary_loop<M, M, M, ProdOp>(dst, a, b, count);
    case ReduceOp::kMax:
      return binary_loop<P, P, P, MaxOp>(dst, a, b, count);
    case ReduceOp::kMin:
      return binary_loop<P, P, P, MinOp>(dst, a, b, count);
    case ReduceOp::kBand:
      return binary_loop<U, U, U, BandOp>(dst, a, b, count);
    case ReduceOp::kBor:
      return binary_loop<U, U, U, BorOp>(dst, a, b, count);
    case ReduceOp::kBxor:
      return binary_loop<U, U, U, BxorOp>(dst, a, b, count);
    case ReduceOp::kPremulSum:
      return;  // not supported
  }
}

// work.integers<T>() or work.floats<Codec>(), as elements of `dtype` are; nothing for types without
// arithmetic.
template <class Work>
void for_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kInt8:
      return work.template integers<int8_t>();
    case DType::kUint8:
      return work.template integers<uint8_t>();
    case DType::kInt32:
      return work.template integers<int32_t>();
    case DType::kUint32:
      return work.template integers<uint32_t>();
    case DType::kInt64:
      return work.template integers<int64_t>();
    case DType::kUint64:
      return work.template integers<uint64_t>();
    case DType::kFloat16:
      return work.template floats<Float16>();
    case DType::kFloat32:
      return work.template floats<Plain<float>>();
    case DType::kFloat64:
      return work.template floats<Plain<double>>();
    case DType::kBfloat16:
      return work.template floats<Bfloat16>();
    case DType::kFloat8E4m3:
      return work.template floats<Float8E4m3>();
    case DType::kFloat8E5m2:
      return work.template floats<Float8E5m2>();
    case DType::kInt16:
    case DType::kUint16:
    case DType::kBool:
    case DType::kComplex64:
    case DType::kComplex128:
      return;  // not supported
  }
}

struct Reduction {
  ReduceOp op;
  void* dst;
  const void* a;
  const void* b;
  size_t count;
  template <typename T>
  void integers() const {
    reduce_integers<T>(op, dst, a, b, count);
  }
  template <class Codec>
  void floats() const {
    reduce_floats<Codec, Codec, Codec>(op, dst, a, b, count);
  }
};

void reduce_any(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  for_type(dtype, Reduction{op, dst, a, b, count});
}

template <class Codec>
void premultiply_floats(void* dst, const void* src, size_t count, double factor) {
  using Real = hn::TFromD<typename Codec::Tag>;
  unary_loop<Codec, Codec>(dst, src, count, MultiplyBy<Codec>{static_cast<Real>(factor)});
}

void premultiply_any(DType dtype, void* dst, const void* src, size_t count, double factor) {
  switch (dtype) {
    case DType::kFloat16:
      return premultiply_floats<Float16>(dst, src, count, factor);
    case DType::kFloat32:
      return premultiply_floats<Plain<float>>(dst, src, count, factor);
    case DType::kFloat64:
      return premultiply_floats<Plain<double>>(dst, src, count, factor);
    case DType::kBfloat16:
      return premultiply_floats<Bfloat16>(dst, src, count, factor);
    default:
      return;  // not supported
  }
}

struct Division {
  void* data;
  size_t count;
  uint64_t divisor;
  template <typename T>
  void integers() const {
    divide_integers<T>(data, count, divisor);
  }
  template <class Codec>
  void floats() const {
    using Real = hn::TFromD<typename Codec::Tag>;
    unary_loop<Codec, Codec>(data, data, count, DivideBy<Codec>{static_cast<Real>(divisor)});
  }
};

void scale_any(DType dtype, void* data, size_t count, uint64_t divisor) {
  for_type(dtype, Division{data, count, divisor});
}

void widening_any(DType from, ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  using F32 = Plain<float>;
  if (from == DType::kBfloat16) {
    reduce_floats<F32, F32, Bfloat16>(op, dst, a, b, count);
  } else {
    reduce_floats<F32, F32, Float16>(op, dst, a, b, count);
  }
}

void widening_pair_any(
    DType from, ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  using F32 = Plain<float>;
  if (from == DType::kBfloat16) {
    reduce_floats<F32, Bfloat16, Bfloat16>(op, dst, a, b, count);
  } else {
    reduce_floats<F32, Float16, Float16>(op, dst, a, b, count);
  }
}

void widen_any(DType from, void* dst, const void* src, size_t count) {
  if (from == DType::kBfloat16) {
    unary_loop<Plain<float>, Bfloat16>(dst, src, count, Same());
  } else {
    unary_loop<Plain<float>, Float16>(dst, src, count, Same());
  }
}

void narrow_any(DType to, void* dst, const void* src, size_t count) {
  if (to == DType::kBfloat16) {
    unary_loop<Bfloat16, Plain<float>>(dst, src, count, Same());
  } else {
    unary_loop<Float16, Plain<float>>(dst, src, count, Same());
  }
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace ho::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ho {

HWY_EXPORT(reduce_any);
HWY_EXPORT(scale_any);
HWY_EXPORT(premultiply_any);
HWY_EXPORT(widening_any);
HWY_EXPORT(widening_pair_any);
HWY_EXPORT(widen_any);
HWY_EXPORT(narrow_any);
HWY_EXPORT(target_name);

void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count) {
  HWY_DYNAMIC_DISPATCH(reduce_any)(dtype, op, dst, a, b, count);
}

void scale_average(DType dtype, void* data, size_t count, uint64_t divisor) {
  if (divisor > 1) {
    HWY_DYNAMIC_DISPATCH(scale_any)(dtype, data, count, divisor);
  }
}

void premultiply(DType dtype, void* dst, const void* src, size_t count, double factor) {
  HWY_DYNAMIC_DISPATCH(premultiply_any)(dtype, dst, src, count, factor);
}

void reduce_widening(
    DType narrow, ReduceOp op, float* dst, const float* a, const void* b, size_t count) {
  HWY_DYNAMIC_DISPATCH(widening_any)(narrow, op, dst, a, b, count);
}

void reduce_widening_pair(
    DType narrow, ReduceOp op, float* dst, const void* a, const void* b, size_t count) {
  HWY_DYNAMIC_DISPATCH(widening_pair_any)(narrow, op, dst, a, b, count);
}

void widen(DType narrow, float* dst, const void* src, size_t count) {
  HWY_DYNAMIC_DISPATCH(widen_any)(narrow, dst, src, count);
}

void narrow(DType narrow, void* dst, const float* src, size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow_any)(narrow, dst, src, count);
}

const char* reduce_target_name() {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace ho
#endif  // HWY_ONCE
