// How elements of each type enter and leave vector registers, once per instruction set.
//
// A codec loads a vector of a storage type as one of a compute type and stores them back. Plain
// types are their own compute type; bytes are multiplied as 16-bit words; fp16, bf16 and fp8 are
// computed as fp32. The conversions of small floats are integer arithmetic on the bit patterns, so
// they give the same result on every instruction set. They do not depend on flush-to-zero modes
// that an application may have set: a subnormal never appears as an fp32 subnormal.
//
// No ordinary include guard: foreach_target.h includes this file again for every instruction set.
#if defined(HORING_REDUCE_CODECS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HORING_REDUCE_CODECS_INL_HPP
#undef HORING_REDUCE_CODECS_INL_HPP
#else
#define HORING_REDUCE_CODECS_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ho::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The compute type is the storage type.
template <typename T>
struct Plain {
  using Element = T;
  using Tag = hn::ScalableTag<T>;
  using V = hn::Vec<Tag>;
  static HWY_INLINE V load(const Element* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE void store(V values, Element* to) { hn::StoreU(values, Tag(), to); }
};

// Bytes as 16-bit words, for products: the low byte of a word's product is the bytes' product.
struct ByteAsWord {
  using Element = uint8_t;
  using Tag = hn::ScalableTag<uint16_t>;
  using V = hn::Vec<Tag>;
  static HWY_INLINE V load(const Element* from) {
    return hn::PromoteTo(Tag(), hn::LoadU(hn::Rebind<uint8_t, Tag>(), from));
  }
  static HWY_INLINE void store(V values, Element* to) {
    const hn::Rebind<uint8_t, Tag> narrow;
    const hn::RebindToSigned<Tag> words;
    const V low = hn::And(values, hn::Set(Tag(), uint16_t{0xff}));
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(words, low)), narrow, to);
  }
};

// What every small float shares: its bits travel in 32 bits each.
template <typename Bits>
struct FloatVector {
  using Element = Bits;
  using Tag = hn::ScalableTag<float>;
  using V = hn::Vec<Tag>;
  using BitsTag = hn::RebindToUnsigned<Tag>;
  using IntTag = hn::RebindToSigned<Tag>;
  using BV = hn::Vec<BitsTag>;
  using NarrowTag = hn::Rebind<Bits, Tag>;

  static HWY_INLINE BV bits(uint32_t value) { return hn::Set(BitsTag(), value); }
  static HWY_INLINE BV load_bits(const Bits* from) {
    return hn::PromoteTo(BitsTag(), hn::LoadU(NarrowTag(), from));
  }
  // Every element already fits in Bits.
  static HWY_INLINE void store_bits(BV values, Bits* to) {
    hn::StoreU(hn::DemoteTo(NarrowTag(), hn::BitCast(IntTag(), values)), NarrowTag(), to);
  }
};

struct Bfloat16 : FloatVector<uint16_t> {
  static HWY_INLINE V load(const Element* from) {
    return hn::BitCast(Tag(), hn::ShiftLeft<16>(load_bits(from)));
  }
  // Adding just under half of the last kept place, plus that place's own bit, carries exactly when
  // round-to-nearest-even rounds up. NaN would carry into infinity, so it goes around.
  static HWY_INLINE void store(V values, Element* to) {
    const BV value = hn::BitCast(BitsTag(), values);
    const BV kept = hn::ShiftRight<16>(value);
    const BV last = hn::And(kept, bits(1));
    const BV rounded = hn::ShiftRight<16>(hn::Add(value, hn::Add(last, bits(0x7fff))));
    const auto nan = hn::RebindMask(BitsTag(), hn::IsNaN(values));
    store_bits(hn::IfThenElse(nan, hn::Or(kept, bits(0x40)), rounded), to);
  }
};

// IEEE-like formats of 1 sign, kExponent and kMantissa bits. kFinite: no infinities, the highest
// pattern is the only NaN (OCP's "fn").
template <typename Bits, int kExponent, int kMantissa, bool kFinite>
struct SmallFloat : FloatVector<Bits> {
  using Base = FloatVector<Bits>;
  using typename Base::BitsTag;
  using typename Base::BV;
  using typename Base::Element;
  using typename Base::IntTag;
  using typename Base::Tag;
  using typename Base::V;

  static constexpr int kWidth = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kMagnitude = (1U << (kExponent + kMantissa)) - 1;
  // The first pattern that is no finite number: infinity, or NaN where there is no infinity.
  static constexpr uint32_t kSpecial = kFinite ? kMagnitude : ((1U << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kQuietNan = kFinite ? kMagnitude : kSpecial | (1U << (kMantissa - 1));
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;

  static HWY_INLINE V load(const Element* from) {
    const BV raw = Base::load_bits(from);
    const BV magnitude = hn::And(raw, Base::bits(kMagnitude));
    const BV sign = hn::ShiftLeft<32 - kWidth>(hn::AndNot(Base::bits(kMagnitude), raw));
    const BV shifted = hn::ShiftLeft<kShift>(magnitude);
    const BV normal = hn::Add(shifted, Base::bits(kRebias));
    // A subnormal is its mantissa, an integer, times the smallest subnormal: exact.
    const V unit =
        hn::BitCast(Tag(), Base::bits(static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23));
    const V as_number = hn::ConvertTo(Tag(), hn::BitCast(IntTag(), magnitude));
    const BV subnormal = hn::BitCast(BitsTag(), hn::Mul(as_number, unit));
    const BV special = kFinite ? Base::bits(0x7fc00000) : hn::Or(shifted, Base::bits(0x7f800000));
    const auto pattern = hn::BitCast(IntTag(), magnitude);
    const auto is_subnormal = hn::Lt(pattern, hn::Set(IntTag(), 1 << kMantissa));
    const auto is_special = hn::Gt(pattern, hn::Set(IntTag(), static_cast<int32_t>(kSpecial) - 1));
    BV result = hn::IfThenElse(hn::RebindMask(BitsTag(), is_subnormal), subnormal, normal);
    result = hn::IfThenElse(hn::RebindMask(BitsTag(), is_special), special, result);
    return hn::BitCast(Tag(), hn::Or(result, sign));
  }

  // Rounds to nearest even. Overflow gives infinity, or NaN in the formats without infinity: a
  // saturated sum would be taken for a number.
  static HWY_INLINE void store(V values, Element* to) {
    const BV value = hn::BitCast(BitsTag(), values);
    const BV magnitude = hn::And(value, Base::bits(0x7fffffff));
    const BV sign = hn::ShiftRight<32 - kWidth>(hn::AndNot(Base::bits(0x7fffffff), value));
    const auto is_nan = hn::RebindMask(BitsTag(), hn::IsNaN(values));

    // Normal results: drop kShift bits, rounding as in Bfloat16 above.
    const BV last = hn::And(hn::ShiftRight<kShift>(magnitude), Base::bits(1));
    const BV half = Base::bits((1U << (kShift - 1)) - 1);
    const BV rebased = hn::Sub(magnitude, Base::bits(kRebias));
    const BV normal = hn::ShiftRight<kShift>(hn::Add(rebased, hn::Add(last, half)));
    // Subnormal results: adding a number whose last place is the smallest subnormal makes the
    // adder round for us; what it added to the pattern is the result.
    const V magic = hn::BitCast(
        Tag(), Base::bits(static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23));
    const BV sum = hn::BitCast(BitsTag(), hn::Add(hn::BitCast(Tag(), magnitude), magic));
    const BV subnormal = hn::Sub(sum, hn::BitCast(BitsTag(), magic));

    const IntTag ints;
    const auto magnitude_int = hn::BitCast(ints, magnitude);
    const auto is_subnormal = hn::Lt(
        magnitude_int, hn::BitCast(ints, Base::bits(static_cast<uint32_t>(128 - kBias) << 23)));
    // Past the largest exponent: also catches infinity.
    const auto is_large =
        hn::Gt(magnitude_int, hn::BitCast(ints, Base::bits(largest_rounded_up())));
    BV result = hn::IfThenElse(hn::RebindMask(BitsTag(), is_subnormal), subnormal, normal);
    result = hn::IfThenElse(hn::RebindMask(BitsTag(), is_large), Base::bits(kSpecial), result);
    result = hn::IfThenElse(is_nan, nan_pattern(magnitude), result);
    Base::store_bits(hn::Or(result, sign), to);
  }

 private:
  // The fp32 pattern from which (exclusive) on every number is past the largest finite one by more
  // than rounding takes back. The largest finite pattern decides who wins the tie.
  static constexpr uint32_t largest_rounded_up() {
    constexpr uint32_t kLargest = kSpecial - 1;
    constexpr uint32_t kMiddle = (kLargest << kShift) + (1U << (kShift - 1)) + kRebias;
    return (kLargest & 1) != 0 ? kMiddle - 1 : kMiddle;
  }
  static HWY_INLINE BV nan_pattern(BV magnitude) {
    if constexpr (kFinite) {
      return Base::bits(kQuietNan);
    } else {
      const BV payload = hn::And(hn::ShiftRight<kShift>(magnitude), Base::bits(kSpecial - 1));
      return hn::Or(hn::And(payload, Base::bits((1U << kMantissa) - 1)), Base::bits(kQuietNan));
    }
  }
};

using Float8E4m3 = SmallFloat<uint8_t, 4, 3, true>;
using Float8E5m2 = SmallFloat<uint8_t, 5, 2, false>;

// Where the processor converts fp16 itself, in the same way to the bit, its instructions are used.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
struct Float16 : FloatVector<uint16_t> {
  using HalfTag = hn::Rebind<hwy::float16_t, Tag>;
  static HWY_INLINE V load(const Element* from) {
    return hn::PromoteTo(Tag(), hn::BitCast(HalfTag(), hn::LoadU(NarrowTag(), from)));
  }
  static HWY_INLINE void store(V values, Element* to) {
    hn::StoreU(hn::BitCast(NarrowTag(), hn::DemoteTo(HalfTag(), values)), NarrowTag(), to);
  }
};
#else
using Float16 = SmallFloat<uint16_t, 5, 10, false>;
#endif

}  // namespace ho::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
