#include "cuda_kernels_on_host.hpp"

#include <algorithm>
#include <initializer_list>

#include "device/kernels/kernel_list.hpp"

namespace ho::test {
namespace {

using namespace ho::device;  // NOLINT(google-build-using-namespace): the list names its types

template <class Arguments>
const Arguments& read_arguments(void** arguments) {
  return *static_cast<const Arguments*>(arguments[0]);
}

// The address as the host has it. What a kernel does not touch may be nowhere.
void move_to_host(uint64_t& address, bool touched, const Translate& translate) {
  if (touched) {
    address = reinterpret_cast<uint64_t>(translate(address));
  }
}

class Ranges {
 public:
  // Of what a launch does at once: which of them comes next.
  Ranges& item(uint32_t number) {
    item_ = number;
    return *this;
  }
  Ranges& reads(uint64_t address, uint64_t bytes) { return add({address, bytes, false, item_}); }
  Ranges& writes(uint64_t address, uint64_t bytes) { return add({address, bytes, true, item_}); }
  [[nodiscard]] std::vector<TouchedRange> all() const { return all_; }

 private:
  Ranges& add(const TouchedRange& range) {
    if (range.bytes > 0) {
      all_.push_back(range);
    }
    return *this;
  }
  std::vector<TouchedRange> all_;
  uint32_t item_ = 0;
};

template <class Codec>
uint64_t bytes_of(uint64_t elements) {
  return elements * sizeof(typename Codec::Element);
}

template <class Dst, class Src, class Incoming>
struct SumOnHost {
  using Arguments = SumArguments;
  static void run(void** arguments, const Translate& translate) {
    SumArguments sums = read_arguments<SumArguments>(arguments);
    for (uint32_t i = 0; i < sums.count; ++i) {
      SummedRange& range = sums.range[i];
      const bool any = range.elements > 0;
      move_to_host(range.dst, any, translate);
      move_to_host(range.src, any, translate);
      move_to_host(range.incoming, any, translate);
      run_sum<Dst, Src, Incoming>(sums, i, 0, 1);
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& sums = read_arguments<SumArguments>(arguments);
    Ranges ranges;
    for (uint32_t i = 0; i < sums.count; ++i) {
      const SummedRange& range = sums.range[i];
      ranges.item(i)
          .reads(range.src, bytes_of<Src>(range.elements))
          .reads(range.incoming, bytes_of<Incoming>(range.elements))
          .writes(range.dst, bytes_of<Dst>(range.elements));
    }
    return ranges.all();
  }
};

template <class Codec>
struct PremultiplyOnHost {
  using Arguments = PremultiplyArguments;
  static void run(void** arguments, const Translate& translate) {
    PremultiplyArguments product = read_arguments<PremultiplyArguments>(arguments);
    move_to_host(product.dst, product.elements > 0, translate);
    move_to_host(product.src, product.elements > 0, translate);
    run_premultiply<Codec>(product, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& product = read_arguments<PremultiplyArguments>(arguments);
    return Ranges()
        .reads(product.src, bytes_of<Codec>(product.elements))
        .writes(product.dst, bytes_of<Codec>(product.elements))
        .all();
  }
};

template <class Dst, class Src>
struct ConvertOnHost {
  using Arguments = ConvertArguments;
  static void run(void** arguments, const Translate& translate) {
    ConvertArguments conversion = read_arguments<ConvertArguments>(arguments);
    move_to_host(conversion.dst, conversion.elements > 0, translate);
    move_to_host(conversion.src, conversion.elements > 0, translate);
    run_convert<Dst, Src>(conversion, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& conversion = read_arguments<ConvertArguments>(arguments);
    return Ranges()
        .reads(conversion.src, bytes_of<Src>(conversion.elements))
        .writes(conversion.dst, bytes_of<Dst>(conversion.elements))
        .all();
  }
};

uint64_t parameter_bytes(const UpdateArguments& update) {
  switch (update.parameter_kind) {
    case ParameterKind::kNone:
      return 0;
    case ParameterKind::kFloat32:
      return update.elements * sizeof(float);
    default:
      return update.elements * sizeof(uint16_t);
  }
}

void move_all_to_host(UpdateArguments& update, const Translate& translate) {
  const bool any = update.elements > 0;
  move_to_host(update.control, true, translate);
  move_to_host(update.master, any, translate);
  move_to_host(update.gradient, any, translate);
  move_to_host(update.parameter, parameter_bytes(update) > 0, translate);
}

template <class Gradient>
Ranges ranges_of(const UpdateArguments& update, std::initializer_list<uint64_t> states) {
  Ranges ranges;
  ranges.reads(update.control, sizeof(StepControl));
  for (const uint64_t state : states) {
    ranges.reads(state, bytes_of<Float32>(update.elements));
    ranges.writes(state, bytes_of<Float32>(update.elements));
  }
  return ranges.reads(update.gradient, bytes_of<Gradient>(update.elements))
      .writes(update.parameter, parameter_bytes(update));
}

template <class Gradient>
struct AdamWOnHost {
  using Arguments = AdamWArguments;
  static void run(void** arguments, const Translate& translate) {
    AdamWArguments step = read_arguments<AdamWArguments>(arguments);
    move_all_to_host(step.update, translate);
    move_to_host(step.momentum, step.update.elements > 0, translate);
    move_to_host(step.variance, step.update.elements > 0, translate);
    run_adamw<Gradient>(step, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& step = read_arguments<AdamWArguments>(arguments);
    return ranges_of<Gradient>(step.update, {step.update.master, step.momentum, step.variance})
        .all();
  }
};

template <class Gradient>
struct SgdOnHost {
  using Arguments = SgdArguments;
  static void run(void** arguments, const Translate& translate) {
    SgdArguments step = read_arguments<SgdArguments>(arguments);
    move_all_to_host(step.update, translate);
    move_to_host(step.velocity, step.velocity != 0 && step.update.elements > 0, translate);
    run_sgd<Gradient>(step, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& step = read_arguments<SgdArguments>(arguments);
    return (step.velocity == 0
                ? ranges_of<Gradient>(step.update, {step.update.master})
                : ranges_of<Gradient>(step.update, {step.update.master, step.velocity}))
        .all();
  }
};

// Blocks one after the other, and in each of them threads, from step to step.
template <class Codec>
struct NormOnHost {
  using Arguments = NormArguments;
  static void run(void** arguments, const Translate& translate) {
    NormArguments norm = read_arguments<NormArguments>(arguments);
    move_to_host(norm.values, norm.elements > 0, translate);
    move_to_host(norm.parts, norm.elements > 0, translate);
    std::vector<GradientSums> columns(kThreads);
    for (uint64_t tile = 0; tile < norm_tiles(norm.elements); ++tile) {
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        columns[thread] = column_of_tile<Codec>(norm, tile, thread);
      }
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        add_columns(columns.data(), thread);
      }
      add_blocks(columns.data(), 0);
      memory_at<GradientSums>(norm.parts)[tile] = columns[0];
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& norm = read_arguments<NormArguments>(arguments);
    return Ranges()
        .reads(norm.values, bytes_of<Codec>(norm.elements))
        .writes(norm.parts, norm_tiles(norm.elements) * sizeof(GradientSums))
        .all();
  }
};

struct FinishNormOnHost {
  using Arguments = FinishNormArguments;
  static void run(void** arguments, const Translate& translate) {
    FinishNormArguments finish = read_arguments<FinishNormArguments>(arguments);
    move_to_host(finish.parts, finish.count > 0, translate);
    move_to_host(finish.sums, true, translate);
    std::vector<NormSection> sections(kSectionsAtOnce);
    constexpr uint64_t kTilesAtOnce = kSectionsAtOnce * kNormSectionTiles;
    for (uint64_t tile = 0; tile < finish.count; tile += kTilesAtOnce) {
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        read_sections(finish, tile, sections.data(), thread);
      }
      for (NormSection& section : sections) {
        add_tiles(section);
      }
      add_sections(sections.data(), *memory_at<GradientSums>(finish.sums));
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& finish = read_arguments<FinishNormArguments>(arguments);
    return Ranges()
        .reads(finish.parts, finish.count * sizeof(GradientSums))
        .reads(finish.sums, sizeof(GradientSums))
        .writes(finish.sums, sizeof(GradientSums))
        .all();
  }
};

struct DecideOnHost {
  using Arguments = DecideArguments;
  static void run(void** arguments, const Translate& translate) {
    DecideArguments step = read_arguments<DecideArguments>(arguments);
    move_to_host(step.control, true, translate);
    decide(step.limits, *memory_at<StepControl>(step.control));
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& step = read_arguments<DecideArguments>(arguments);
    return Ranges()
        .reads(step.control, sizeof(StepControl))
        .writes(step.control, sizeof(StepControl))
        .all();
  }
};

uint64_t sum_of_block(std::vector<uint64_t> sums) {
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      add_pair(sums.data(), thread, distance);
    }
  }
  return sums[0];
}

struct HashOnHost {
  using Arguments = HashArguments;
  static void run(void** arguments, const Translate& translate) {
    HashArguments hash = read_arguments<HashArguments>(arguments);
    move_to_host(hash.values, hash.bytes > 0, translate);
    move_to_host(hash.parts, hash.bytes > 0, translate);
    std::vector<uint64_t> sums(kThreads);
    for (uint64_t tile = 0; tile < hash_tiles(hash.bytes); ++tile) {
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        sums[thread] = hash_of_thread(hash, tile, thread);
      }
      memory_at<uint64_t>(hash.parts)[tile] = sum_of_block(sums);
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& hash = read_arguments<HashArguments>(arguments);
    return Ranges()
        .reads(hash.values, hash.bytes)
        .writes(hash.parts, hash_tiles(hash.bytes) * sizeof(uint64_t))
        .all();
  }
};

struct FinishHashOnHost {
  using Arguments = FinishHashArguments;
  static void run(void** arguments, const Translate& translate) {
    FinishHashArguments finish = read_arguments<FinishHashArguments>(arguments);
    move_to_host(finish.parts, finish.count > 0, translate);
    move_to_host(finish.result, true, translate);
    std::vector<uint64_t> sums(kThreads);
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      sums[thread] = hash_of_parts(finish, thread);
    }
    *memory_at<uint64_t>(finish.result) = sum_of_block(sums);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& finish = read_arguments<FinishHashArguments>(arguments);
    return Ranges()
        .reads(finish.parts, finish.count * sizeof(uint64_t))
        .writes(finish.result, sizeof(uint64_t))
        .all();
  }
};

struct ZeroOnHost {
  using Arguments = ZeroArguments;
  static void run(void** arguments, const Translate& translate) {
    ZeroArguments range = read_arguments<ZeroArguments>(arguments);
    move_to_host(range.dst, range.bytes > 0, translate);
    run_zero(range, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& range = read_arguments<ZeroArguments>(arguments);
    return Ranges().writes(range.dst, range.bytes).all();
  }
};

struct CopyOnHost {
  using Arguments = CopyArguments;
  static void run(void** arguments, const Translate& translate) {
    const auto& copies = read_arguments<CopyArguments>(arguments);
    for (uint32_t i = 0; i < copies.count; ++i) {
      CopiedRange range = copies.range[i];
      move_to_host(range.dst, range.bytes > 0, translate);
      move_to_host(range.src, range.bytes > 0, translate);
      run_copy(range, 0, 1);
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& copies = read_arguments<CopyArguments>(arguments);
    Ranges ranges;
    for (uint32_t i = 0; i < copies.count; ++i) {
      ranges.item(i).reads(copies.range[i].src, copies.range[i].bytes);
      ranges.writes(copies.range[i].dst, copies.range[i].bytes);
    }
    return ranges.all();
  }
};

template <class Kernel>
constexpr HostKernel make(std::string_view name) {
  return {name, sizeof(typename Kernel::Arguments), Kernel::run, Kernel::ranges};
}

#define HORING_SUM(name, Dst, Src, Incoming) make<SumOnHost<Dst, Src, Incoming>>(#name),
#define HORING_PREMULTIPLY(name, Codec) make<PremultiplyOnHost<Codec>>(#name),
#define HORING_CONVERT(name, Dst, Src) make<ConvertOnHost<Dst, Src>>(#name),
#define HORING_ADAMW(name, Gradient) make<AdamWOnHost<Gradient>>(#name),
#define HORING_SGD(name, Gradient) make<SgdOnHost<Gradient>>(#name),
#define HORING_NORM(name, Codec) make<NormOnHost<Codec>>(#name),
constexpr HostKernel kKernels[] = {
    HORING_SUM_KERNELS(HORING_SUM) HORING_PREMULTIPLY_KERNELS(HORING_PREMULTIPLY)
        HORING_CONVERT_KERNELS(HORING_CONVERT) HORING_ADAMW_KERNELS(HORING_ADAMW)
            HORING_SGD_KERNELS(HORING_SGD) HORING_NORM_KERNELS(HORING_NORM)
                make<FinishNormOnHost>("ho_finish_norm"),
    make<DecideOnHost>("ho_decide"),
    make<HashOnHost>("ho_hash"),
    make<FinishHashOnHost>("ho_finish_hash"),
    make<ZeroOnHost>("ho_zero"),
    make<CopyOnHost>("ho_copy_ranges")};

}  // namespace

std::span<const HostKernel> host_kernels() {
  return kKernels;
}

const HostKernel* find_host_kernel(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kKernels), std::end(kKernels), [&](const HostKernel& kernel) {
        return kernel.name == name;
      });
  return found == std::end(kKernels) ? nullptr : found;
}

}  // namespace ho::test
