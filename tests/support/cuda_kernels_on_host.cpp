#include "cuda_kernels_on_host.hpp"

#include <algorithm>

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

template <class Gradient>
struct AdamWOnHost {
  using Arguments = AdamWArguments;
  static uint64_t parameter_bytes(const AdamWArguments& step) {
    switch (static_cast<ParameterKind>(step.parameter_kind)) {
      case ParameterKind::kNone:
        return 0;
      case ParameterKind::kFloat32:
        return step.elements * sizeof(float);
      default:
        return step.elements * sizeof(uint16_t);
    }
  }
  static void run(void** arguments, const Translate& translate) {
    AdamWArguments step = read_arguments<AdamWArguments>(arguments);
    const bool any = step.elements > 0;
    for (uint64_t* address : {&step.master, &step.momentum, &step.variance, &step.gradient}) {
      move_to_host(*address, any, translate);
    }
    move_to_host(step.parameter, parameter_bytes(step) > 0, translate);
    run_adamw<Gradient>(step, 0, 1);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& step = read_arguments<AdamWArguments>(arguments);
    Ranges ranges;
    for (const uint64_t state : {step.master, step.momentum, step.variance}) {
      ranges.reads(state, bytes_of<Float32>(step.elements));
      ranges.writes(state, bytes_of<Float32>(step.elements));
    }
    return ranges.reads(step.gradient, bytes_of<Gradient>(step.elements))
        .writes(step.parameter, parameter_bytes(step))
        .all();
  }
};

template <class TileArguments, class Reduction, uint64_t kElementBytes>
struct TilesOnHost {
  using Arguments = TileArguments;
  using Part = typename Reduction::Part;
  static void run(void** arguments, const Translate& translate) {
    TileArguments tiles = read_arguments<TileArguments>(arguments);
    move_to_host(tiles.values, tiles.elements > 0, translate);
    move_to_host(tiles.parts, tiles.elements > 0, translate);
    for (uint64_t tile = 0; tile < tile_count(tiles.elements); ++tile) {
      memory_at<Part>(tiles.parts)[tile] = tile_on_host<Reduction>(tiles, tile);
    }
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& tiles = read_arguments<TileArguments>(arguments);
    return Ranges()
        .reads(tiles.values, tiles.elements * kElementBytes)
        .writes(tiles.parts, tile_count(tiles.elements) * sizeof(Part))
        .all();
  }
};

template <class Part>
struct FinishOnHost {
  using Arguments = FinishArguments;
  static void run(void** arguments, const Translate& translate) {
    FinishArguments finish = read_arguments<FinishArguments>(arguments);
    move_to_host(finish.parts, finish.count > 0, translate);
    move_to_host(finish.result, true, translate);
    *memory_at<Part>(finish.result) = tile_on_host<Finish<Part>>(finish, 0);
  }
  static std::vector<TouchedRange> ranges(void** arguments) {
    const auto& finish = read_arguments<FinishArguments>(arguments);
    return Ranges()
        .reads(finish.parts, finish.count * sizeof(Part))
        .writes(finish.result, sizeof(Part))
        .all();
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
#define HORING_TILES(name, Arguments, Reduction) \
  make<TilesOnHost<Arguments, Reduction, Reduction::kElementBytes>>(#name),
#define HORING_FINISH(name, Part) make<FinishOnHost<Part>>(#name),
constexpr HostKernel kKernels[] = {
    HORING_SUM_KERNELS(HORING_SUM) HORING_PREMULTIPLY_KERNELS(HORING_PREMULTIPLY)
        HORING_CONVERT_KERNELS(HORING_CONVERT) HORING_ADAMW_KERNELS(HORING_ADAMW)
            HORING_TILE_KERNELS(HORING_TILES) HORING_FINISH_KERNELS(HORING_FINISH)
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
