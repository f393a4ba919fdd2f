// What runtime/optim computes on a host and the kernels on a device by one text: the order in which
// a norm is added up, what follows from it for a step, AdamW's bias corrections, the hash of
// states. g++, clang and nvcc compile it, without contraction, so the bits are the same.
#pragma once

#include "device/kernels/element.hpp"

namespace ho::device {

// --- A norm's order of additions --------------------------------------------------------------
//
// A range is cut into blocks from its beginning on. In a block column l adds elements l, l + 16,
// and so on; then the columns are added in order, then the blocks of a tile, the tiles of a
// section, and the sections to what was there before. So neither a host's vectors nor a device's
// grid show in the sum, and a device has enough that is independent: a thread for a column, a block
// of threads for a tile.
inline constexpr uint64_t kNormColumns = 16;
inline constexpr uint64_t kNormBlockElements = 4096;
inline constexpr uint64_t kNormTileBlocks = 16;
inline constexpr uint64_t kNormSectionTiles = 32;
inline constexpr uint64_t kNormTileElements = kNormTileBlocks * kNormBlockElements;

// What gradients sum up to. Numbers that are not finite are counted and stay out of the sum. All
// zeros: nothing was added. The first two are of one type, so that ranks add them up together.
// Without initial values, since a block of threads shares an array of them.
struct GradientSums {
  double squared;
  double not_finite;         // how many
  uint64_t first_from_last;  // the first of them, from the last index there can be; 0: none
  uint64_t nan;              // not 0: one is no infinity
};

inline constexpr uint64_t kLastIndex = ~uint64_t{0};

// What is finite counts as +0 there and may be added always.
HORING_DEVICE inline void add(GradientSums& sums, const GradientSums& more) {
  sums.squared += more.squared;
  sums.not_finite += more.not_finite;
  sums.first_from_last =
      more.first_from_last > sums.first_from_last ? more.first_from_last : sums.first_from_last;
  sums.nan |= more.nan;
}

HORING_DEVICE inline bool is_finite(float value) {
  return (bits_of(value) & 0x7f800000U) != 0x7f800000U;
}
HORING_DEVICE inline bool is_finite(double value) {
  return (bits_of(value) & 0x7ff0000000000000ULL) != 0x7ff0000000000000ULL;
}

// --- What ranks add up beside it --------------------------------------------------------------

// A rate is added up as four 16-bit numbers and their squares, which doubles hold exactly for a
// million ranks. If all n ranks have the number a, the sums are n a and n a^2; and sums of such
// values say that the variance is zero, so that a rank whose own number fits both knows that all
// are equal.
inline constexpr unsigned kRateParts = 4;

// Of one rank, or of all. Without initial values, as GradientSums.
struct StepVotes {
  double rate[2 * kRateParts];  // the learning rate's parts, then their squares
  double signals;               // ranks that have something to tell the others
  double loaded;                // that were given initial values since the last step
  double discards;              // that drop the step instead of ending it
};

HORING_DEVICE inline double rate_part(double rate, unsigned part) {
  return static_cast<double>(bits_of(rate) >> (16 * part) & 0xffffU);
}

// Whether all `ranks` had this rate, bit for bit: where one had not, no rank gets true.
HORING_DEVICE inline bool all_have_rate(const StepVotes& votes, double rate, double ranks) {
  for (unsigned part = 0; part < kRateParts; ++part) {
    const double number = rate_part(rate, part);
    if (votes.rate[part] != ranks * number ||
        votes.rate[kRateParts + part] != ranks * number * number) {
      return false;
    }
  }
  return true;
}

// --- What follows from both -------------------------------------------------------------------

struct StepLimits {
  double averaging = 1;  // what sums of gradients are multiplied by to be averages
  double max_norm = 0;   // of the averages; 0 or less: no limit
  double beta_1 = 0;     // AdamW's, else 0
  double beta_2 = 0;
  double ranks = 0;  // of which the votes are; 0: there are none
  double rate = 0;   // this rank's own
  // In the host's memory, null: never. Not 0 from before collectives are aborted: what comes behind
  // them then is not what the ranks have sent.
  const uint64_t* ended = nullptr;
};

// Why a step is left out.
inline constexpr uint64_t kTaken = 0;
inline constexpr uint64_t kNotFinite = 1;  // a gradient of some rank
inline constexpr uint64_t kRefused = 2;    // the ranks' votes differ
inline constexpr uint64_t kLost = 3;       // by what failed meanwhile: nobody knows

// What AdamW's learning rate and epsilon are corrected by.
struct BiasCorrections {
  double first = 1;        // 1 - beta_1^t
  double root_second = 1;  // sqrt(1 - beta_2^t)
};

// A step as its updates see it. Lies where the states do: decide() makes it of the sums, and
// whether a step is left out need not be known to the host.
struct StepControl {
  // One row with the first two of the sums, which ranks add up together.
  StepVotes votes = {};
  GradientSums sums = {};
  uint64_t steps = 0;  // taken since the rule's states began, with this one; what a rule calls t
  // Of the last decide():
  uint64_t left_out = kTaken;  // else nothing is updated
  double norm = 0;    // of the averages; not finite where it is left out, or some element was not
  double factor = 0;  // what sums of gradients are multiplied by: averaged and clipped
  BiasCorrections corrections;
};

HORING_DEVICE inline double square_root(double value) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(value);
#else
  return __builtin_sqrt(value);
#endif
}

// By squaring: math libraries differ in the last place.
HORING_DEVICE inline double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent /= 2) {
    result *= exponent % 2 != 0 ? base : 1.0;
    base *= base;
  }
  return result;
}

HORING_DEVICE inline BiasCorrections corrections_of(double beta_1, double beta_2, uint64_t step) {
  return {1 - power(beta_1, step), square_root(1 - power(beta_2, step))};
}
HORING_DEVICE inline float corrected_rate(double learning_rate, const BiasCorrections& by) {
  return static_cast<float>(learning_rate * by.root_second / by.first);
}
HORING_DEVICE inline float corrected_epsilon(double epsilon, const BiasCorrections& by) {
  return static_cast<float>(epsilon * by.root_second);
}

HORING_DEVICE inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

// A host writes it meanwhile.
HORING_DEVICE inline uint64_t seen_of(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile uint64_t*>(word);
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

// The device knows it before any host does, so that nothing is updated of a step that the ranks
// refuse as soon as they hear of it.
HORING_DEVICE inline bool votes_agree(const StepVotes& votes, const StepLimits& limits) {
  return limits.ranks == 0 ||
         (all_have_rate(votes, limits.rate, limits.ranks) &&
          (votes.loaded == 0 || votes.loaded == limits.ranks) && votes.discards == 0);
}

HORING_DEVICE inline uint64_t reason_to_leave_out(const StepLimits& limits,
                                                  const StepControl& control) {
  if (limits.ended != nullptr && seen_of(limits.ended) != 0) {
    return kLost;
  }
  if (!votes_agree(control.votes, limits)) {
    return kRefused;
  }
  return control.sums.not_finite == 0 && is_finite(control.norm) ? kTaken : kNotFinite;
}

// Sums and votes are those of all ranks by now, the sums of averaged gradients.
HORING_DEVICE inline void decide(const StepLimits& limits, StepControl& control) {
  control.norm = square_root(control.sums.squared);
  control.left_out = reason_to_leave_out(limits, control);
  if (control.left_out == kTaken) {
    ++control.steps;
    control.factor = limits.averaging * clip_factor(control.norm, limits.max_norm);
    control.corrections = corrections_of(limits.beta_1, limits.beta_2, control.steps);
  }
}

// --- The hash of states -----------------------------------------------------------------------
//
// Of 8-byte words at their places: those of all words add up to that of a range, in any order. The
// last word may be cut: zeros stand for what is missing. It detects a difference, not malice: any
// change of one word changes what that adds, since each step here can be undone.
HORING_DEVICE inline uint64_t hash_of_word(uint64_t index, uint64_t word) {
  uint64_t value = word + (index + 1) * 0xeb01a1c12a3a2107ULL;
  value = (value ^ (value >> 31)) * 0xeb0404f2b09490b9ULL;
  value = (value ^ (value >> 29)) * 0xc8007596a28f5b37ULL;
  return value ^ (value >> 32);
}

}  // namespace ho::device
